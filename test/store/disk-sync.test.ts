import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { createSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import type { Store } from "../../src/store/store.ts";
import { created } from "../harness/events.ts";
import { createHeldDisk, type HeldDisk } from "../harness/held-disk.ts";
import { temporary } from "../harness/project.ts";

/** What SQLite has written counts once its disk has it. */

type HeldStore = Store & AsyncDisposable & Pick<HeldDisk, "waits" | "hold">;

const open = async (folder: string): Promise<HeldStore> => {
  const file = join(folder, "log.db");
  const disk = createHeldDisk(file);
  const store = await createSqliteStore({ file, dataDir: folder, log: silent, disk });
  return Object.assign(store, { waits: disk.waits, hold: () => disk.hold() });
};

const write = async (store: Store): Promise<string> => {
  const first = created();
  const done = await store.commit({ appends: [{ stream: first.data.taskID, expected: 0, events: [first] }] });
  if (!done.ok) throw new Error(done.reason);
  return first.data.taskID;
};

/** The streams that a follower from the beginning has seen, as they come. */
const follow = (store: Store): { seen: string[]; stop(): Promise<void> } => {
  const stopping = new AbortController();
  const seen: string[] = [];
  const done = (async () => {
    for await (const { stream } of store.follow(0, stopping.signal)) seen.push(stream);
  })();
  return {
    seen,
    async stop() {
      stopping.abort();
      await done;
    },
  };
};

test("nobody is told of a commit before the disk has it; those that come meanwhile wait for one sync together", async () => {
  using folder = temporary();
  await using store = await open(folder.path);
  const reader = follow(store);
  // Control: a disk that answers.
  const before = await write(store);
  await expect.poll(() => reader.seen).toEqual([before]);

  store.hold();
  const told: string[] = [];
  const writes = [write(store).then((id) => told.push(id))];
  await expect.poll(() => store.waits.length).toBe(1);
  for (let each = 0; each < 5; each += 1) writes.push(write(store).then((id) => told.push(id)));
  await pause(50);
  expect(told).toEqual([]);
  expect(reader.seen).toEqual([before]);
  expect(await store.position()).toBe(1);
  expect(store.waits).toHaveLength(1);

  store.waits[0]?.resolve();
  await expect.poll(() => store.waits.length).toBe(2);
  expect(told).toHaveLength(1);
  expect(await store.position()).toBe(2);
  await expect.poll(() => reader.seen).toEqual([before, ...told]);
  await pause(20);
  expect(reader.seen).toHaveLength(2);
  store.waits[1]?.resolve();
  await Promise.all(writes);
  await expect.poll(() => reader.seen).toEqual([before, ...told]);
  expect(store.waits).toHaveLength(2);
  await reader.stop();
});

test("a lazy write is told before the disk has it, to its writer alone; the next one waits. Control: others wait", async () => {
  using folder = temporary();
  await using store = await open(folder.path);
  const stream = await write(store);
  const reader = follow(store);
  await expect.poll(() => reader.seen).toEqual([stream]);
  store.hold();
  const title = (text: string, lazy: boolean) =>
    store.commit({
      appends: [{ stream, expected: "any", events: [{ type: "task.updated", data: { title: text } }] }],
      lazy,
    });
  expect(await title("one", true)).toMatchObject({ ok: true, recorded: [{ version: 2 }] });
  expect(store.waits).toHaveLength(1);
  const told: number[] = [];
  const others = [true, false].map((lazy, at) => title(`two ${at}`, lazy).then(() => told.push(at)));
  await pause(50);
  expect(told).toEqual([]);
  expect(reader.seen).toEqual([stream]);
  expect((await store.state(stream))?.version).toBe(1);
  // Rows are read as they were written (decision 109): whoever follows a stream through a claim misses nothing.
  expect(await store.read(stream, { after: 1 })).toMatchObject([{ version: 2 }]);
  store.waits[0]?.resolve();
  await expect.poll(() => told).toEqual([0]);
  await expect.poll(() => reader.seen).toEqual([stream, stream]);
  expect(store.waits).toHaveLength(2);
  store.waits[1]?.resolve();
  await Promise.all(others);
  expect(told).toEqual([0, 1]);
  expect((await store.state(stream))?.version).toBe(4);
  await reader.stop();
});

test("what was written is seen by the writes after it, also before the disk has it", async () => {
  using folder = temporary();
  await using store = await open(folder.path);
  store.hold();
  const first = created();
  const stream = first.data.taskID;
  const commit = (expected: number) => store.commit({ appends: [{ stream, expected, events: [first] }] });
  const one = commit(0);
  await expect.poll(() => store.waits.length).toBe(1);
  const again = commit(0);
  await pause(20);
  store.waits[0]?.resolve();
  expect(await one).toMatchObject({ ok: true });
  expect(await again).toMatchObject({ ok: false });
});

test("a disk that fails: what waited for it is not acknowledged, nothing is written from then on, a follower sees nothing of it", async () => {
  using folder = temporary();
  await using store = await open(folder.path);
  const reader = follow(store);
  const before = await write(store);
  store.hold();
  const lost = write(store);
  const failed = expect(lost).rejects.toMatchObject({ code: "store_unavailable" });
  await expect.poll(() => store.waits.length).toBe(1);
  store.waits[0]?.reject(new Error("EIO: i/o error, fdatasync"));
  await failed;
  await expect(write(store)).rejects.toMatchObject({ code: "store_unavailable" });
  await expect(store.check()).rejects.toMatchObject({ code: "store_unavailable" });
  await pause(20);
  expect(reader.seen).toEqual([before]);
  await reader.stop();
});

test("a store that is closed waits for the disk itself, and tells those that waited", async () => {
  using folder = temporary();
  const store = await open(folder.path);
  store.hold();
  const last = write(store);
  await expect.poll(() => store.waits.length).toBe(1);
  await store[Symbol.asyncDispose]();
  const id = await last;
  store.waits[0]?.resolve();
  await using again = await open(folder.path);
  expect(await again.state(id)).toMatchObject({ taskID: id });
});

test("an event that the disk does not have is in no page: whoever gets one may go on after it", async () => {
  using folder = temporary();
  await using store = await open(folder.path);
  const before = await write(store);
  const newest = await store.position();
  store.hold();
  const writing = write(store);
  await expect.poll(() => store.waits.length).toBe(1);
  const streams = async (after: number, filter?: object) =>
    (await store.since(after, 100, filter)).map(({ stream }) => stream);
  expect([await streams(0), await streams(0, { types: ["task.created"] }), await streams(newest)]).toEqual([
    [before],
    [before],
    [],
  ]);
  store.waits[0]?.resolve();
  const then = await writing;
  // Control: it was the disk that it waited for.
  expect([await streams(0), await streams(0, { types: ["task.created"] })]).toEqual([
    [before, then],
    [before, then],
  ]);
  expect(await store.position()).toBeGreaterThan(newest);
});

test("a list is never newer than the records; control: the file is", async () => {
  using folder = temporary();
  await using store = await open(folder.path);
  const stream = await write(store);
  store.hold();
  const titled = store.commit({
    appends: [{ stream, expected: "any", events: [{ type: "task.updated", data: { title: "Another" } }] }],
  });
  await expect.poll(() => store.waits.length).toBe(1);
  expect(await store.read(stream, { after: 1 })).toMatchObject([{ data: { title: "Another" } }]);
  let answered = false;
  const listed = store.list({ project: "/work/project", limit: 10 }).then((found) => {
    answered = true;
    return found;
  });
  await pause(50);
  expect(answered).toBe(false);
  store.waits[0]?.resolve();
  expect(await listed).toMatchObject([{ title: "Another" }]);
  expect((await store.state(stream))?.title).toBe("Another");
  await titled;
});
