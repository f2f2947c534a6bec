import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { textsOf, writePackage } from "../test/harness/double/squads.ts";
import { type Figure, inTurns } from "./figure.ts";
import { type Row, rowOf } from "./table.ts";

/** What the catalog of 500 packages takes: the first time, when each is parsed, and then, when each is read again. */
export const squads: Figure = async (bench) => {
  const count = bench.quick ? 50 : 500;
  const folder = join(bench.root, "squads", "squads");
  for (let at = 0; at < count; at += 1) {
    const id = `squad-${at}`;
    writePackage(join(folder, id), textsOf({ "README.md": `# ${id}\n` }, { id }));
  }
  await using service = await bench.service("squads");
  const timed = async (run: () => Promise<unknown>): Promise<number> => {
    const begun = performance.now();
    await run();
    return performance.now() - begun;
  };
  const bare = async () => {
    for (const entry of await readdir(folder, { recursive: true, withFileTypes: true }))
      if (entry.isFile()) await readFile(join(entry.parentPath, entry.name));
  };
  const catalog = async () => {
    const answer = await fetch(`${service.url}/squads`);
    const { squads: found, healthy } = (await answer.json()) as { squads: unknown[]; healthy: boolean };
    if (!healthy || found.length <= count)
      throw new Error(`Expected a healthy catalog of ${count}, got ${found.length}`);
  };
  const first: Row = {
    figure: `catalog of ${count} squads, first`,
    unit: "ms",
    service: await timed(catalog),
    goal: { kind: "atMost", value: 5000 },
    note: "each is parsed",
  };
  const rounds = await inTurns(
    bench.quick ? 1 : 5,
    () => timed(bare),
    () => timed(catalog),
  );
  const again = rowOf(`catalog of ${count} squads, again`, "ms", rounds, {
    goal: { kind: "timesFloor", value: 3 },
    note: "floor: reading the files, over HTTP",
  });
  return [first, again];
};
