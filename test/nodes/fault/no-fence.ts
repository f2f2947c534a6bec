import { registerHooks } from "node:module";

/**
 * Loaded before a service (`--import`), for the control: as it is loaded, what keeps a former holder of a claim from
 * writing is taken out of the built service. Nothing in the service itself can switch that off. Throws where the built
 * service has it no more in these words.
 */
const fences: [text: string, instead: string][] = [
  // src/store/batch/member.ts: whether a commit's claim is the newest one.
  ["head.holder !== null && head.epoch === fence.epoch", "true"],
  // src/store/batch/held-claim.ts: a run hears that its claim is lost.
  ["entry.lost.abort(", "void ("],
];

registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    if (!/\/dist\/lib\/service-[^/]*\.js$/.test(url)) return loaded;
    let source = Buffer.from(loaded.source as Uint8Array).toString();
    for (const [text, instead] of fences) {
      if (!source.includes(text)) throw new Error(`Expected "${text}" in ${url}: the fence is elsewhere.`);
      source = source.replaceAll(text, instead);
    }
    return { ...loaded, source };
  },
});
