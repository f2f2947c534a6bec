import { spawn, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createCatalog } from "../../src/squad/catalog/catalog.ts";
import { createManager } from "../../src/squad/install/manager.ts";
import { digestOf } from "../../src/squad/package/package.ts";
import { temporary } from "../harness/project.ts";
import { seededRandom } from "../harness/random.ts";
import { agentOf, filesOf, textsOf, writePackage } from "../harness/double/squads.ts";
import { night } from "../harness/night.ts";

/** A package is installed, upgraded and removed by a process that is killed (SIGKILL) before each change it makes. */

const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
/** By day so many moments of each, at night all. */
const byDay = 2;

const script = fileURLToPath(new URL("./package-child.ts", import.meta.url));
const env = {
  PATH: process.env["PATH"] ?? "",
  NODE_NO_WARNINGS: "1",
  NODE_COMPILE_CACHE: process.env["TEST_COMPILED"] ?? "",
};
const first = textsOf();
const second = textsOf({ "agents/qa.md": agentOf("qa", "", "You are another.") }, { version: "2.0.0" });
const digest = digestOf(filesOf(first));

let root: ReturnType<typeof temporary>;
let sources: { first: string; second: string };
beforeAll(() => {
  root = temporary("sortie-squad-kill-");
  console.log(`squad kills: TEST_SEED=${seed}`);
  sources = {
    first: writePackage(join(root.path, "first"), first),
    second: writePackage(join(root.path, "second"), second),
  };
});
afterAll(() => root[Symbol.dispose]());

let count = 0;
const dataFolder = (installed: boolean): string => {
  const folder = join(root.path, `data-${(count += 1)}`);
  mkdirSync(join(folder, "squads"), { recursive: true });
  if (installed) cpSync(sources.first, join(folder, "squads/api"), { recursive: true });
  return folder;
};

const run = (what: string, dataDir: string, source: string, expected: string, at: number) =>
  spawnSync(process.execPath, [script, what, dataDir, source, expected, String(at)], {
    env,
    encoding: "utf8",
  });

/** What a service that starts then sees of the package; undefined: none. Nothing but it and the product's own. */
const seen = async (dataDir: string): Promise<string | undefined> => {
  const { healthy, issues, squads } = await createCatalog({ dataDir, external: [] }).scan();
  expect({ healthy, issues }).toEqual({ healthy: true, issues: [] });
  const own = squads.filter(({ scope }) => scope === "user");
  expect(own.length).toBeLessThanOrEqual(1);
  return own[0]?.squad.version;
};

const inspect = async (directory: string) => ({ directory, project: directory, git: undefined });
const managerOf = (dataDir: string) =>
  createManager({ catalog: createCatalog({ dataDir, external: [] }), dataDir, external: [], inspect });

type Case = {
  what: "install" | "uninstall" | "naive";
  source: "first" | "second";
  installed: boolean;
  states: (string | undefined)[];
};

const sweep = async ({ what, source, installed, states }: Case): Promise<void> => {
  const expected = installed ? digest : "-";
  const whole = run(what, dataFolder(installed), sources[source], expected, 0);
  expect(whole.stderr).toBe("");
  const changes = Number(whole.stdout);
  expect(changes).toBeGreaterThan(1);
  const random = seededRandom(seed);
  const all = Array.from({ length: changes }, (_, index) => index + 1);
  const chosen = night || changes <= byDay ? all : all.toSorted(() => random.below(2) - 0.5).slice(0, byDay);
  const found = new Set<string | undefined>();
  for (const at of chosen) {
    const dataDir = dataFolder(installed);
    const { signal } = run(what, dataDir, sources[source], expected, at);
    expect([at, signal]).toEqual([at, "SIGKILL"]);
    const version = await seen(dataDir);
    expect(states).toContain(version);
    found.add(version);
    // The next start puts right what is left, and what was asked for can be had.
    await managerOf(dataDir).tidy();
    expect(await seen(dataDir)).toBe(version);
    expect(readdirSync(join(dataDir, "squads"))).toEqual(version === undefined ? [] : ["api"]);
    const manager = managerOf(dataDir);
    if (what === "install")
      await manager.install({ path: sources[source] }, "user", undefined, installed ? digest : undefined);
    else if (version !== undefined) await manager.uninstall("api", "user");
    expect(await seen(dataDir)).toBe(what === "install" ? (source === "first" ? "1.0.0" : "2.0.0") : undefined);
  }
  if (night) expect(found.size).toBe(2);
};

describe("killed at any change", () => {
  test.each<[string, Case]>([
    ["an install", { what: "install", source: "first", installed: false, states: [undefined, "1.0.0"] }],
    ["an upgrade", { what: "install", source: "second", installed: true, states: ["1.0.0", "2.0.0"] }],
    ["a removal", { what: "uninstall", source: "first", installed: true, states: [undefined, "1.0.0"] }],
  ])("%s has happened whole or not at all", { timeout: 300_000 }, async (_name, one) => {
    await sweep(one);
  });

  test("control: copying over what stands there is found out", { timeout: 60_000 }, async () => {
    const naive: Case = { what: "naive", source: "second", installed: true, states: ["1.0.0", "2.0.0"] };
    await expect(sweep(naive)).rejects.toThrow();
  });
});

describe("several at once", () => {
  test("of one id: one change after another, and none is lost unseen", async () => {
    const dataDir = dataFolder(true);
    const sourcesOf = ["a", "b", "c", "d"].map((name) =>
      writePackage(join(root.path, name), textsOf({ "README.md": `# ${name}\n` }, { version: "2.0.0" })),
    );
    const done = await Promise.allSettled(
      sourcesOf.map((path) => managerOf(dataDir).install({ path }, "user", undefined, digest)),
    );
    expect(done.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    for (const one of done) if (one.status === "rejected") expect(one.reason).toMatchObject({ code: "squad_changed" });
    expect(readdirSync(join(dataDir, "squads"))).toEqual(["api"]);
    expect(existsSync(join(dataDir, "squads/api/squad.json"))).toBe(true);
    expect(await seen(dataDir)).toBe("2.0.0");
  });

  test("of several processes: one of them, and the others are told", async () => {
    const dataDir = dataFolder(true);
    const ended = await Promise.all(
      ["e", "f", "g"].map((name) => {
        const source = writePackage(
          join(root.path, name),
          textsOf({ "README.md": `# ${name}\n` }, { version: "2.0.0" }),
        );
        const child = spawn(process.execPath, [script, "install", dataDir, source, digest, "0"], { env });
        let said = "";
        child.stderr.on("data", (text: Buffer) => (said += text.toString()));
        return new Promise<string>((done) => child.once("close", (code) => done(code === 0 ? "done" : said)));
      }),
    );
    expect(ended.filter((said) => said === "done")).toHaveLength(1);
    expect(ended.filter((said) => said.includes("squad_changed"))).toHaveLength(2);
    expect(readdirSync(join(dataDir, "squads"))).toEqual(["api"]);
    expect(await seen(dataDir)).toBe("2.0.0");
  });

  test("a reader sees the one or the other, all the time", async () => {
    const dataDir = dataFolder(true);
    const manager = managerOf(dataDir);
    const digests = { first: digest, second: digestOf(filesOf(second)) };
    const over = new AbortController();
    const reader = (async () => {
      const catalog = createCatalog({ dataDir, external: [] });
      let reads = 0;
      for (; !over.signal.aborted; reads += 1)
        expect(Object.values(digests)).toContain((await catalog.find("api"))?.digest);
      return reads;
    })();
    for (let round = 0; round < 30; round += 1) {
      const [to, from] = round % 2 === 0 ? (["second", "first"] as const) : (["first", "second"] as const);
      await manager.install({ path: sources[to] }, "user", undefined, digests[from]);
    }
    over.abort();
    expect(await reader).toBeGreaterThan(10);
  });
});
