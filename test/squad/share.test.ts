import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { createCatalog } from "../../src/squad/catalog/catalog.ts";
import { createManager } from "../../src/squad/install/manager.ts";
import { syncStepOf } from "../../src/squad/install/share.ts";
import { digestOf } from "../../src/squad/package/package.ts";
import type { SharedPackage, SharedSquads } from "../../src/store/node.ts";
import { filesOf, textsOf, writePackage } from "../harness/double/squads.ts";
import { temporary } from "../harness/project.ts";
import { type Random, seededRandom } from "../harness/random.ts";

/** What nodes share of their squads: one package's next step, and many changes at random on three data folders. */

test.each([
  ["never shared, here", { here: "a", seen: null, shared: undefined }, "publish"],
  ["never shared, broken here", { here: undefined, seen: null, shared: undefined }, "same"],
  ["never shared, not here", { here: null, seen: null, shared: undefined }, "same"],
  ["the same", { here: "a", seen: null, shared: "a" }, "same"],
  ["removed, not here", { here: null, seen: "a", shared: null }, "same"],
  ["shared, not here", { here: null, seen: null, shared: "a" }, "apply"],
  ["removed here by hand", { here: null, seen: "a", shared: "a" }, "apply"],
  ["upgraded elsewhere", { here: "a", seen: "a", shared: "b" }, "apply"],
  ["removed elsewhere", { here: "a", seen: "a", shared: null }, "apply"],
  ["changed here by hand", { here: "b", seen: "a", shared: "a" }, "publish"],
  ["copied here by hand after it was removed", { here: "b", seen: null, shared: null }, "publish"],
  ["changed here and elsewhere", { here: "c", seen: "a", shared: "b" }, "apart"],
  ["changed here and removed elsewhere", { here: "c", seen: "a", shared: null }, "apart"],
  ["another one in a folder that joins", { here: "c", seen: null, shared: "b" }, "apart"],
  ["broken here", { here: undefined, seen: "a", shared: "a" }, "apart"],
] as const)("%s", (_, situation, step) => {
  expect(syncStepOf(situation)).toBe(step);
});

/** As the database has it; `dies`: after the write that it is asked for next. */
const makeDatabase = () => {
  const packages = new Map<string, SharedPackage | null>();
  const crash = { next: false };
  return {
    packages,
    crash,
    of(instance: Map<string, string | null>): SharedSquads {
      return {
        list: async () =>
          new Map(
            [...packages].map(([id, found]) => [id, { digest: found?.digest ?? null, seen: instance.get(id) ?? null }]),
          ),
        read: async (id) => packages.get(id) ?? undefined,
        async replace(id, before, after) {
          if ((packages.get(id)?.digest ?? null) !== before) return false;
          packages.set(id, after);
          if (crash.next) {
            crash.next = false;
            throw new Error("killed");
          }
          return true;
        },
        async note(id, digest) {
          instance.set(id, digest);
        },
      };
    },
  };
};

const rounds = 40;
const seed = Number(process.env["TEST_SEED"] ?? Math.floor(Math.random() * 2 ** 31));

test(`${rounds} sequences of changes on three nodes, by the service and by hand`, { timeout: 120_000 }, async () => {
  console.log(`shared squads: TEST_SEED=${seed}`);
  const random: Random = seededRandom(seed);
  const ids = ["one", "two"];
  const outcomes = { alike: 0, apart: 0, died: 0 };
  for (let round = 0; round < rounds; round += 1) {
    using root = temporary("sortie-squad-share-");
    const database = makeDatabase();
    const nodes = ["a", "b", "c"].map((name) => {
      const dataDir = join(root.path, name);
      mkdirSync(join(dataDir, "squads"), { recursive: true });
      const catalog = createCatalog({ dataDir, external: [] });
      const inspect = async (directory: string) => ({ directory, project: directory, git: undefined });
      const shared = { squads: database.of(new Map()), log: silent };
      return { dataDir, catalog, manager: createManager({ catalog, dataDir, external: [], inspect, shared }) };
    });
    const readme = (dataDir: string, id: string) => join(dataDir, "squads", id, "README.md");
    const packagesOf = (dataDir: string) =>
      readdirSync(join(dataDir, "squads")).map((id) => `${id} ${readFileSync(readme(dataDir, id), "utf8")}`);
    /** What the service acknowledged last; undefined: something was done by hand or cut off since. */
    const acknowledged = new Map<string, string | null | undefined>();
    let byHand = false;
    for (let step = 0; step < 12; step += 1) {
      const { dataDir, manager, catalog } = random.pick(nodes);
      const id = random.pick(ids);
      const text = `${round}.${step}`;
      const texts = textsOf({ "README.md": text }, { id });
      const kind = random.below(8);
      if (kind < 3) {
        await manager.sharing?.follow();
        database.crash.next = random.below(4) === 0;
        const standing = (await catalog.find(id))?.digest;
        const done = await manager.install({ files: filesOf(texts) }, "user", undefined, standing).then(
          () => "done",
          (error: Error) => error.message,
        );
        database.crash.next = false;
        acknowledged.set(id, done === "done" ? text : undefined);
        if (done === "killed") outcomes.died += 1;
      } else if (kind === 3) {
        const done = await manager.uninstall(id, "user").then(
          () => true,
          () => false,
        );
        if (done) acknowledged.set(id, null);
      } else if (kind === 4 && round % 2 === 0) {
        writePackage(join(dataDir, "squads", id), texts);
        byHand = true;
      } else if (kind === 5) {
        rmSync(join(dataDir, "squads", id), { recursive: true, force: true });
      } else await manager.sharing?.follow();
    }
    // Twice: what one publishes at its turn, those before it hear of at their next.
    for (const { manager } of [...nodes, ...nodes]) await manager.sharing?.follow();
    const apart = new Set(nodes.flatMap(({ manager }) => [...(manager.sharing?.apart() ?? [])]));
    for (const id of ids.filter((one) => !apart.has(one))) {
      const found = nodes.map(({ dataDir }) => packagesOf(dataDir).filter((one) => one.startsWith(`${id} `)));
      expect({ round, seed, id, found }).toEqual({ round, seed, id, found: [found[0], found[0], found[0]] });
      const last = acknowledged.get(id);
      if (!byHand && last !== undefined)
        expect({ round, seed, id, found: found[0] }).toEqual({
          round,
          seed,
          id,
          found: last === null ? [] : [`${id} ${last}`],
        });
      outcomes.alike += 1;
    }
    outcomes.apart += apart.size;
    if (!byHand) expect({ round, seed, apart }).toEqual({ round, seed, apart: new Set() });
  }
  // Each way was gone.
  for (const count of Object.values(outcomes)) expect(count).toBeGreaterThan(0);
});

test.each<[string, string, readonly { path: string; text: string }[] | null]>([
  ["a path that leads up", "bad", [{ path: "../../up", text: "x" }]],
  ["a path that no package has", "bad", [{ path: "agents/a\nb.md", text: "x" }]],
  ["a name that ends early", "bad", [{ path: "agents/a\0.md", text: "x" }]],
  ["no files", "bad", []],
  ["an id that leads up", "../bad", [{ path: "README.md", text: "x" }]],
  ["the removal of what no package is", "../../up", null],
])("what else stands in the database is no package, and keeps nobody from the others: %s", async (_, id, files) => {
  using root = temporary("sortie-squad-share-");
  const dataDir = join(root.path, "a/data");
  mkdirSync(join(dataDir, "squads"), { recursive: true });
  mkdirSync(join(root.path, "up"));
  const database = makeDatabase();
  const packed = (all: readonly { path: string; text: string }[]): SharedPackage => {
    const bytes = all.map(({ path, text }) => ({ path, bytes: Buffer.from(text) }));
    return { digest: digestOf(bytes), files: bytes };
  };
  database.packages.set(id, files && packed(files));
  database.packages.set("good", packed([{ path: "README.md", text: "x" }]));
  const catalog = createCatalog({ dataDir, external: [] });
  const squads = database.of(new Map());
  const inspect = () => Promise.reject(new Error("not part of this test"));
  const manager = createManager({ catalog, dataDir, external: [], inspect, shared: { squads, log: silent } });
  await manager.sharing?.follow();
  await manager.sharing?.follow();
  expect(readdirSync(join(dataDir, "squads"))).toEqual(["good"]);
  expect([readdirSync(root.path), readdirSync(join(root.path, "a"))]).toEqual([["a", "up"], ["data"]]);
});
