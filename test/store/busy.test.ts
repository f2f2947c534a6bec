import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { createSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import type { Store } from "../../src/store/store.ts";
import { created } from "../harness/events.ts";
import { temporary } from "../harness/project.ts";
import { hook } from "./hook.ts";

/** Somebody else writes to the file of a service's log. */

const open = async (folder: string): Promise<{ store: Store; other: Database.Database }> => {
  const file = join(folder, "log.db");
  const store = await createSqliteStore({ file, dataDir: folder, log: silent });
  return { store, other: new Database(file) };
};

const write = async (store: Store): Promise<string> => {
  const first = created();
  const done = await store.commit({ appends: [{ stream: first.data.taskID, expected: 0, events: [first] }] });
  if (!done.ok) throw new Error(done.reason);
  return first.data.taskID;
};

/** The longest that anything waited for the thread while that went on, in milliseconds. */
const worstOf = async (work: () => Promise<unknown>): Promise<number> => {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  await work();
  await pause(5);
  delay.disable();
  return delay.max / 1e6;
};

test("a write waits for who holds the file, and nothing waits for the write; control: in SQLite's own wait all does", async () => {
  using folder = temporary();
  const { store, other } = await open(folder.path);
  await using _store = store;
  other.exec("begin immediate");
  const done: string[] = [];
  const worst = await worstOf(async () => {
    const writes = [
      write(store).then((taskID) => done.push(taskID)),
      write(store).then((taskID) => done.push(taskID)),
      store.webhooks.add(hook({ id: "hook_1" }), 9).then(() => done.push("hook")),
      store.webhooks.record([], 1, 1).then(() => done.push("record")),
    ];
    await pause(1000);
    expect(done).toEqual([]);
    other.exec("commit");
    await Promise.all(writes);
  });
  expect(done).toHaveLength(4);
  expect((await store.webhooks.list()).map(({ id }) => id)).toEqual(["hook_1"]);

  other.exec("begin immediate");
  const waiting = new Database(join(folder.path, "log.db"), { timeout: 900 });
  const control = await worstOf(async () => {
    await pause(10);
    expect(() => waiting.exec("begin immediate")).toThrow("locked");
  });
  waiting.close();
  other.exec("commit");
  other.close();
  expect(control).toBeGreaterThan(800);
  expect(worst).toBeLessThan(400);
});

test("who holds it for longer than five seconds has writes refused, and nothing of them is kept; later ones are", async () => {
  using folder = temporary();
  const { store, other } = await open(folder.path);
  await using _store = store;
  other.exec("begin immediate");
  await expect(write(store)).rejects.toMatchObject({ code: "store_unavailable" });
  other.exec("rollback");
  other.close();
  const taskID = await write(store);
  expect((await store.since(0, 10, {})).map(({ stream }) => stream)).toEqual([taskID]);
});

test("a store that closes while somebody holds the file writes what waits as soon as it can", async () => {
  using folder = temporary();
  const { store, other } = await open(folder.path);
  other.exec("begin immediate");
  const written = write(store);
  await pause(50);
  other.exec("commit");
  other.close();
  await store[Symbol.asyncDispose]();
  const taskID = await written;
  const { store: again, other: second } = await open(folder.path);
  await using _again = again;
  second.close();
  expect((await again.state(taskID))?.version).toBe(1);
});
