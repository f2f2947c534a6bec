import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { textsOf, zipOf } from "../harness/double/squads.ts";
import { night } from "../harness/night.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { until } from "../harness/project.ts";
import { seededRandom } from "../harness/random.ts";
import { place, send, serve } from "./stage.ts";

/**
 * Packages for every project that three nodes install, replace and remove at the same time, while nodes are killed in
 * the middle: each change has one winner, and all nodes come to have what was changed last.
 */

type Change = { before: string | null; after: string | null };

describe.skipIf(postgresURL === undefined)("changes of one package on several nodes", () => {
  test("at the same time, with nodes killed among them: of two changes to one package one is refused, and all nodes have the last; control: they were at the same time", {
    timeout: 240_000,
  }, async () => {
    await using here = await place();
    const seed = Number(process.env["TEST_SEED"] ?? 1 + Math.floor(Math.random() * 1e6));
    console.log(`changes of packages: TEST_SEED=${seed}`);
    const random = seededRandom(seed);
    const names = ["a", "b", "c"] as const;
    const kills = night ? 8 : 3;
    const begin = (name: string) =>
      serve({ ...here.env(name), SERVICE_DATA_DIR: join(here.path, name), HOME: here.path });
    const nodes = new Map(await Promise.all(names.map(async (name) => [name, await begin(name)] as const)));
    try {
      let serial = 0;
      const over = new AbortController();
      const acknowledged: Change[] = [];
      /** Sent, and not answered. */
      const unknown: Change[] = [];
      const refused: string[] = [];
      const wrong: string[] = [];
      const digestAt = async (url: string): Promise<string | null> => {
        const { status, body } = await send({ url }, "GET", "/squad/ours");
        return status === 200 ? String(body["digest"]) : null;
      };
      const change = async (name: (typeof names)[number]): Promise<void> => {
        const url = nodes.get(name)?.url ?? "";
        const before = await digestAt(url);
        const removes = before !== null && random.below(4) === 0;
        serial += 1;
        const texts = textsOf(
          { "README.md": `${name} ${serial}\n${"x".repeat(20_000)}` },
          { id: "ours", version: `1.0.${serial}` },
        );
        const expected = before === null ? {} : { expectedDigest: before };
        const zip = removes ? "" : (await zipOf(texts)).toString("base64");
        const sent = removes
          ? send({ url }, "DELETE", `/squad/ours?expectedDigest=${before}`)
          : send({ url }, "POST", "/squad/install", { body: { zip, scope: "user", ...expected } });
        const { status, body, text } = await sent.catch((error: unknown) => {
          unknown.push({ before, after: removes ? null : `1.0.${serial}` });
          throw error;
        });
        const after = removes ? null : (body["squad"] as { digest: string } | undefined)?.digest;
        if (status === 200 && after !== undefined) acknowledged.push({ before, after });
        else if (status === 409 || (status === 404 && removes)) refused.push(text);
        else wrong.push(`${name}: ${status} ${text}`);
      };
      const working = names.flatMap((name) =>
        [1, 2].map(async () => {
          while (!over.signal.aborted) {
            await change(name).catch(() => pause(50));
            await pause(random.below(20));
          }
        }),
      );
      for (let count = 0; count < kills; count += 1) {
        await pause(700 + random.below(800));
        const name = random.pick(names);
        await nodes.get(name)?.stop("SIGKILL");
        nodes.set(name, await begin(name));
      }
      await pause(1_000);
      over.abort();
      await Promise.all(working);

      const urls = [...nodes.values()].map(({ url }) => url);
      const file = (name: string) => join(here.path, name, "squads/ours/README.md");
      const onDisk = () => names.map((name) => (existsSync(file(name)) ? readFileSync(file(name), "utf8") : null));
      const last = await until(
        async () => ({ served: await Promise.all(urls.map(digestAt)), files: onDisk() }),
        ({ served, files }) => new Set(served).size === 1 && new Set(files).size === 1,
        15_000,
      );
      console.log(`${acknowledged.length} changes, ${refused.length} refused, ${unknown.length} without an answer`);
      expect({ seed, wrong }).toEqual({ seed, wrong: [] });
      // Whoever was told that it replaced a package alone did; of two that remove one, both are told that it is
      // removed.
      const afters = new Map<string, Set<string | null>>();
      for (const { before, after } of acknowledged)
        if (before !== null) afters.set(before, (afters.get(before) ?? new Set()).add(after));
      const replaced = [...afters.keys()];
      const twice = [...afters].filter(([, all]) => all.size > 1).map(([before, all]) => [before, ...all]);
      expect({ seed, twice }).toEqual({ seed, twice: [] });
      const [served] = last.served;
      expect({ seed, last }).toEqual({
        seed,
        last: { served: [served, served, served], files: Array(3).fill(last.files[0]) },
      });
      // Nobody was told later that it replaced what is there now.
      if (served !== null) expect(replaced).not.toContain(served);
      // Not one of them came apart.
      const { nodes: listed } = (await send({ url: urls[0] ?? "" }, "GET", "/nodes")).body as {
        nodes: { differs: string[] }[];
      };
      expect(listed.map(({ differs }) => differs)).toEqual([[], [], []]);
      expect(acknowledged.length).toBeGreaterThan(10);
      expect(refused.length).toBeGreaterThan(0);
    } finally {
      for (const node of nodes.values()) await node[Symbol.asyncDispose]();
    }
  });
});
if (postgresURL === undefined) countSkipped(1);
