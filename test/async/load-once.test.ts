import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { keptOrLoaded, loadOnce } from "../../src/async/load-once.ts";

/** One fault while something is loaded, or started, makes nothing unavailable until a restart. */

const src = join(import.meta.dirname, "../../src");

test("what failed is loaded again, and what came is kept; calls in between share one load", async () => {
  let loads = 0;
  const load = loadOnce(async () => {
    loads += 1;
    if (loads === 1) throw new Error("EMFILE");
    return loads;
  });
  const first = await Promise.allSettled([load(), load()]);
  expect([first.map(({ status }) => status), loads]).toEqual([["rejected", "rejected"], 1]);
  expect([await load(), await load(), loads]).toEqual([2, 2, 2]);
});

test("half of it is not kept, and an older load drops no newer one", async () => {
  const kept = new Map<string, Promise<number>>();
  const half = await keptOrLoaded(
    kept,
    "a",
    () => Promise.resolve(1),
    (value) => value > 1,
  );
  const whole = await keptOrLoaded(kept, "a", () => Promise.resolve(2));
  expect([half, whole, kept.size]).toEqual([1, 2, 1]);
  const { promise, reject } = Promise.withResolvers<number>();
  const old = keptOrLoaded(kept, "b", () => promise);
  kept.set("b", Promise.resolve(3));
  reject(new Error("late"));
  await expect(old).rejects.toThrow("late");
  expect(await kept.get("b")).toBe(3);
});

/**
 * Promises that are kept for good: assigned once, and nothing in the file forgets them. Those that live as long as one
 * run of a Task, or one claim, end with it; the pump of PostgreSQL never rejects, and says itself that it has ended.
 */
const shortLived = new Set([
  "task/worker/compose.ts",
  "task/workspace/setup.ts",
  "task/workspace/check-files.ts",
  "store/batch/held-claim.ts",
  "store/postgres/pump.ts",
  // Of the close of an engine, which never rejects.
  "engine/dbos/engine.ts",
]);
const keptForEver = (path: string, text: string): string[] =>
  [...text.matchAll(/\blet (\w+): Promise<[^;]*\| undefined;/g)].flatMap(([, name = ""]) => {
    const assigned = new RegExp(String.raw`\b${name} \?\?= `).test(text);
    const forgotten = new RegExp(String.raw`finally\(\(\) => \{\s*${name} = undefined`).test(text);
    return assigned && !forgotten && !shortLived.has(path) ? [`${path}: ${name}`] : [];
  });

test("no promise of a load is kept by hand; control: one that is, is found", () => {
  const files = readdirSync(src, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
  const found = files.flatMap((path) => keptForEver(path, readFileSync(join(src, path), "utf8")));
  expect(found).toEqual([]);
  const before = "let loaded: Promise<Mcp> | undefined;\nconst load = () => (loaded ??= import('./server.ts'));";
  expect(keptForEver("http/mcp/endpoint.ts", before)).toEqual(["http/mcp/endpoint.ts: loaded"]);
});

test("without descriptors nothing starts, nothing ends the process, and with them again all does", () => {
  const from = (path: string) => JSON.stringify(join(src, path));
  const script = `
    import { closeSync, openSync } from "node:fs";
    import { createRunnerClient } from ${from("process/runner/client.ts")};
    import { startInteractive } from ${from("process/command/interactive.ts")};
    import { searchText } from ${from("tool/file/ripgrep.ts")};
    const never = new AbortController().signal;
    const silent = { debug() {}, info() {}, warn() {}, error() {} };
    const runner = createRunnerClient(silent);
    const command = () => new Promise((resolve) => {
      let code;
      runner.start(
        { file: "true", args: [], cwd: "/", env: {} },
        { started() {}, output() {}, exit(now) { code = now; }, close() { resolve(code); }, failed: () => resolve("failed"), lost() {} },
      );
    });
    const talk = async () => {
      try {
        const start = { file: "/bin/cat", args: [], cwd: "/", env: {} };
        const talk = startInteractive(start, "/", never, { started() {}, async ended() {} });
        talk.stdin.end();
        await talk.gone;
        return "talked";
      } catch { return "failed"; }
    };
    const search = () => searchText(Buffer.from("a\\n"), ["--json", "a"], never).then(({ error }) => error ?? "found", () => "failed");
    const tryAll = async () => [await command(), await talk(), await search()].join(" ");
    const all = [];
    try { for (;;) all.push(openSync("/dev/null")); } catch {}
    const short = await tryAll();
    all.forEach((fd) => closeSync(fd));
    const then = await tryAll();
    console.log(short + ", then " + then);
    runner.close();`;
  const limited = ["-c", `ulimit -n 128; exec "$0" "$@"`, process.execPath, "--input-type=module", "-e", script];
  const { stdout, stderr } = spawnSync("bash", limited, { encoding: "utf8" });
  expect(stdout, stderr).toBe("failed failed failed, then 0 talked found\n");
});
