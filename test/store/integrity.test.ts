import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { getPriority } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import Database from "better-sqlite3";
import { expect, test, vi } from "vitest";
import { silent } from "../../src/log.ts";
import { quickCheck } from "../../src/store/sqlite/integrity.ts";
import { createSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import { temporary } from "../harness/project.ts";

/**
 * The check of a database's file is a process that ends with whoever started it. A FIFO in the file's place is a check
 * that never ends: SQLite waits within the call that opens it.
 */

const fifo = (folder: string): string => {
  const path = join(folder, "endless.db");
  execFileSync("mkfifo", [path]);
  return path;
};

const childrenOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1").split(" ").filter(Boolean).map(Number);

/** Processes that check this file. */
const checking = (pid: number, file: string): number[] =>
  childrenOf(pid).filter((child) => readFileSync(`/proc/${child}/cmdline`, "latin1").includes(file));

const isGone = (pid: number): boolean => {
  try {
    return readFileSync(`/proc/${pid}/stat`, "latin1").includes(") Z ");
  } catch {
    return true;
  }
};

const never = new AbortController().signal;

test("a whole file, a damaged one, and one that is none", async () => {
  using folder = temporary();
  const file = join(folder.path, "s.db");
  const database = new Database(file);
  database.exec("create table t (a text); create index i on t (a)");
  database.exec(
    "with recursive up (n) as (select 1 union all select n + 1 from up where n < 2000) insert into t select 'row ' || n from up",
  );
  database.close();
  expect(await quickCheck(file, never)).toBeUndefined();
  const bytes = readFileSync(file);
  bytes.fill(0xee, 8192, 8300);
  writeFileSync(file, bytes);
  expect(await quickCheck(file, never)).toMatch(/malformed|corrupt|Tree|page/i);
  writeFileSync(file, Buffer.alloc(100_000, 7));
  expect(await quickCheck(file, never)).toContain("not a database");
});

test("that a file cannot be opened says nothing about it, nor that there is nothing to check it with", async () => {
  using folder = temporary();
  await expect(quickCheck(join(folder.path, "none.db"), never)).rejects.toThrow("unable to open database file");
  const file = join(folder.path, "s.db");
  new Database(file).exec("create table t (a text)").close();
  const integrity = join(import.meta.dirname, "../../src/store/sqlite/integrity.ts");
  const script = `
    import { closeSync, openSync } from "node:fs";
    import { quickCheck } from ${JSON.stringify(integrity)};
    const check = () => quickCheck(${JSON.stringify(file)}, new AbortController().signal).then((found) => found ?? "whole", (error) => error.code);
    const all = [];
    try { for (;;) all.push(openSync("/dev/null")); } catch {}
    const short = await check();
    all.forEach((fd) => closeSync(fd));
    console.log(short, await check());`;
  const limited = ["-c", `ulimit -n 128; exec "$0" "$@"`, process.execPath, "--input-type=module", "-e", script];
  expect(spawnSync("bash", limited, { encoding: "utf8" }).stdout).toBe("EMFILE whole\n");
});

test("a check that is told to stop is gone at once, and gives way while it runs", async () => {
  using folder = temporary();
  const file = fifo(folder.path);
  const stop = new AbortController();
  const found = quickCheck(file, stop.signal);
  await vi.waitFor(() => expect(checking(process.pid, file)).toHaveLength(1), { timeout: 10_000 });
  const [child = 0] = checking(process.pid, file);
  expect(getPriority(child)).toBeGreaterThan(getPriority(process.pid));
  await pause(300);
  stop.abort();
  expect(await found).toBeUndefined();
  expect(isGone(child)).toBe(true);
  expect(await quickCheck(file, AbortSignal.abort())).toBeUndefined();
});

test("a store closes while its file is checked; control: a process with such a thread does not end", async () => {
  using folder = temporary();
  const path = join(folder.path, "s.db");
  const options = { file: path, dataDir: folder.path, log: silent };
  const first = await createSqliteStore(options);
  // As a kill leaves it.
  const database = new Database(path);
  await first[Symbol.asyncDispose]();
  database.exec("update log set clean = 0");
  database.close();
  const store = await createSqliteStore(options);
  renameSync(path, `${path}.kept`);
  execFileSync("mkfifo", [path]);
  const verified = store.verify();
  await vi.waitFor(() => expect(checking(process.pid, path)).toHaveLength(1), { timeout: 10_000 });
  const begun = performance.now();
  await store[Symbol.asyncDispose]();
  await verified;
  expect(performance.now() - begun).toBeLessThan(5000);
  await vi.waitFor(() => expect(checking(process.pid, path)).toHaveLength(0), { timeout: 10_000 });

  const thread = `new (require("node:worker_threads").Worker)("require('better-sqlite3')(" + JSON.stringify(process.argv[1]) + ", { readonly: true })", { eval: true });
    setTimeout(() => { console.log("ends"); process.exit(0); }, 700);`;
  const before = spawn(process.execPath, ["-e", thread, path], { stdio: ["ignore", "pipe", "ignore"] });
  await once(before.stdout, "data");
  await pause(1000);
  expect(before.exitCode).toBeNull();
  before.kill("SIGKILL");
});

test("the check of a service that is killed ends, too", async () => {
  using folder = temporary();
  const file = fifo(folder.path);
  const script = join(import.meta.dirname, "../fixtures/store/check-file.ts");
  const parent = spawn(process.execPath, [script, file], { stdio: ["ignore", "pipe", "inherit"] });
  const pid = parent.pid ?? 0;
  await vi.waitFor(() => expect(checking(pid, file)).toHaveLength(1), { timeout: 15_000 });
  const [child = 0] = checking(pid, file);
  await pause(500);
  expect(isGone(child)).toBe(false);
  parent.kill("SIGKILL");
  await vi.waitFor(() => expect(isGone(child)).toBe(true), { timeout: 10_000 });
});
