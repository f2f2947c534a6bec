import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { GitError } from "../../src/workspace/git/git.ts";
import { ServiceError } from "../../src/error.ts";
import { silent } from "../../src/log.ts";
import { type Disk, openDisk, type Room } from "../../src/store/disk/disk.ts";
import { isFull } from "../../src/store/disk/full.ts";
import { createSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import { unavailable } from "../../src/store/unavailable.ts";
import { created } from "../harness/events.ts";
import { temporary, until } from "../harness/project.ts";

/** The watch over the disk of the data folder, with a disk whose free space the test says. */

const mib = 1024 ** 2;
const gib = 1024 ** 3;
const limits = { diskFreeBytes: gib, diskFreePercent: 5, diskPauseBytes: 512 * mib };
const enough: Room = { free: 50 * gib, total: 100 * gib, freeFiles: 1_000_000, files: 2_000_000 };

type World = AsyncDisposable & { disk: Disk; folder: string; room: Room; heard: boolean[] };

const open = async (room: Partial<Room> = {}, more: Partial<typeof limits> = {}): Promise<World> => {
  const folder = temporary("sortie-disk-");
  const world = { room: { ...enough, ...room }, heard: [] as boolean[], folder: folder.path };
  const measure = () => Promise.resolve(world.room);
  const disk = await openDisk({ dataDir: folder.path, limits: { ...limits, ...more }, log: silent, measure });
  disk.onPause((pauses) => void world.heard.push(pauses));
  return Object.assign(world, {
    disk,
    async [Symbol.asyncDispose]() {
      await disk[Symbol.asyncDispose]();
      folder[Symbol.dispose]();
    },
  });
};

const partsIn = (folder: string): string[] => {
  const reserve = join(folder, "reserve");
  return existsSync(reserve) ? readdirSync(reserve).toSorted() : [];
};
const whole = ["0", "1", "2", "3"];
const never = new AbortController().signal;
const refusal = (disk: Disk): Promise<string | undefined> =>
  disk.admit().then(
    () => undefined,
    (error: unknown) => (error instanceof ServiceError ? error.code : String(error)),
  );

test("a disk that is short when it is opened is known to be before anything starts", async () => {
  using folder = temporary("sortie-disk-");
  const shortages = await Promise.all(
    [511 * mib, 50 * gib].map(async (free, index) => {
      const dataDir = join(folder.path, String(index));
      mkdirSync(dataDir);
      const measure = () => sleep(50, { ...enough, free });
      await using disk = await openDisk({ dataDir, limits, log: silent, measure });
      return disk.shortage() !== undefined;
    }),
  );
  expect(shortages).toEqual([true, false]);
});

test("runs pause below diskPauseBytes, and go on with an eighth more", async () => {
  await using world = await open();
  const { disk } = world;
  await disk.look();
  expect([disk.shortage(), disk.pauses(), world.heard]).toEqual([undefined, 0, []]);
  await disk.plenty(never);

  world.room = { ...enough, free: 511 * mib };
  await disk.look();
  expect(disk.shortage()).toMatch(/space on the disk of the data folder: 511 MiB free, continues at 592 MiB/);
  let goesOn = false;
  const waiting = disk.plenty(never).then(() => (goesOn = true));
  const left = new AbortController();
  const leaving = disk.plenty(left.signal);
  left.abort(new Error("gone"));
  await expect(leaving).rejects.toThrow("gone");

  world.room = { ...enough, free: 560 * mib };
  await disk.look();
  expect([goesOn, disk.pauses(), world.heard]).toEqual([false, 1, [true]]);
  world.room = { ...enough, free: 600 * mib };
  await disk.look();
  await waiting;
  expect([disk.shortage(), disk.pauses(), world.heard]).toEqual([undefined, 1, [true, false]]);
});

test("it looks by itself, and tells a late listener of a pause under way", async () => {
  await using world = await open({ free: 3 * gib });
  world.room = { ...enough, free: 0 };
  await until(
    () => Promise.resolve(world.heard),
    (heard) => heard.length > 0,
  );
  const late: boolean[] = [];
  using _listening = world.disk.onPause((pauses) => void late.push(pauses));
  expect(late).toEqual([true]);
  world.room = enough;
  await until(
    () => Promise.resolve(late),
    (heard) => heard.length === 2,
  );
});

test("new Tasks are refused from the first moment on, by the larger bound, and while runs pause", async () => {
  await using low = await open({ free: gib - 1 });
  expect(await refusal(low.disk)).toBe("disk_low");
  await using percent = await open({ free: 4 * gib });
  expect(await refusal(percent.disk)).toBe("disk_low");
  await using unlimited = await open({ free: 4 * gib }, { diskFreeBytes: 0, diskFreePercent: 0, diskPauseBytes: 0 });
  expect(await refusal(unlimited.disk)).toBeUndefined();
  unlimited.disk.report(Object.assign(new Error("full"), { code: "ENOSPC" }));
  expect(await refusal(unlimited.disk)).toBe("disk_low");
  // The control.
  await using control = await open({ free: 6 * gib });
  expect(await refusal(control.disk)).toBeUndefined();
});

test("too few files that can still be made are a shortage, too", async () => {
  await using world = await open({ freeFiles: 999 });
  await world.disk.look();
  expect(world.disk.shortage()).toContain("has room for only 999 more files");
  await using without = await open({ freeFiles: 0, files: 0 });
  await without.disk.look();
  expect(without.disk.shortage()).toBeUndefined();
});

test("a write that found no room pauses runs, whatever is free, until the disk takes data again", async () => {
  await using world = await open();
  const { disk, folder } = world;
  await disk.look();
  disk.report(new Error("something else"));
  expect(disk.shortage()).toBeUndefined();
  // No file can be written where the reserve is: the disk takes nothing.
  rmSync(join(folder, "reserve"), { recursive: true });
  writeFileSync(join(folder, "reserve"), "");
  disk.report(unavailable(Object.assign(new Error("database or disk is full"), { code: "SQLITE_FULL" })));
  expect(disk.shortage()).toBeDefined();
  await disk.look();
  await disk.look();
  expect(disk.shortage()).toBeDefined();
  rmSync(join(folder, "reserve"));
  await disk.look();
  expect(disk.shortage()).toBeUndefined();
});

test("the reserve is given up part by part, commands held first, and made whole when there is space", async () => {
  await using world = await open();
  const { disk, folder } = world;
  await disk.look();
  expect(partsIn(folder)).toEqual(whole);
  expect(disk.isKept()).toBe(false);
  const held: string[][] = [];
  using _listening = disk.onPause(async (pauses) => {
    await new Promise((resolve) => setTimeout(resolve, 50));
    if (pauses) held.push(partsIn(folder));
  });
  world.room = { ...enough, free: 0 };
  const given = [];
  for (let part = 0; part < 5; part += 1) given.push(await disk.giveUp());
  expect(given).toEqual([true, true, true, true, false]);
  expect(held).toEqual([whole]);
  expect([partsIn(folder), disk.isKept()]).toEqual([[], true]);
  await disk.look();
  expect(disk.isKept()).toBe(true);
  world.room = enough;
  await disk.look();
  expect([partsIn(folder), disk.isKept(), disk.shortage()]).toEqual([whole, false, undefined]);
});

test("a small disk keeps back a sixteenth; a full one gives it up for the start", async () => {
  await using world = await open({ total: 64 * mib, free: 60 * mib }, { diskPauseBytes: 0 });
  await world.disk.look();
  const again = await openDisk({
    dataDir: world.folder,
    limits: { ...limits, diskPauseBytes: 0 },
    log: silent,
    measure: () => Promise.resolve({ ...enough, total: 64 * mib, free: 1 * mib }),
  });
  expect([partsIn(world.folder), again.isKept(), again.shortage() !== undefined]).toEqual([[], true, true]);
  await again[Symbol.asyncDispose]();
});

test("while it is given up, the store writes only what ends or removes", async () => {
  using folder = temporary();
  let kept = false;
  const space = { isKept: () => kept, report() {}, giveUp: () => Promise.resolve(false) };
  const options = { file: join(folder.path, "s.db"), dataDir: folder.path, log: silent, space };
  await using store = await createSqliteStore(options);
  const first = created();
  const stream = first.data.taskID;
  const stopped = [{ type: "run.stopped" as const, data: { reason: "x" } }];
  const write = { appends: [{ stream, expected: "any" as const, events: stopped }] };
  await store.commit({ appends: [{ stream, expected: 0, events: [first] }] });
  await using claim = await store.claim(stream, "w");
  kept = true;
  const full = { code: "store_unavailable", message: expect.stringContaining("free space") as unknown };
  await expect(store.commit(write)).rejects.toMatchObject(full);
  await expect(store.claim(stream, "w")).rejects.toMatchObject(full);
  await expect(store.blobs.put(Buffer.from("x"))).rejects.toMatchObject(full);
  // Together with one that is urgent, which goes on.
  const [refused, written] = await Promise.allSettled([
    store.commit(write),
    store.commit({ ...write, fence: claim?.fence ?? { stream, epoch: 0 }, urgent: true }),
  ]);
  expect([refused.status, written.status]).toEqual(["rejected", "fulfilled"]);
  expect((await store.read(stream)).map(({ type }) => type)).toEqual(["task.created", "run.stopped"]);
  await claim?.release();
  await using again = await store.claim(stream, "w", true);
  expect(again?.stream).toBe(stream);
  expect(await store.erase(stream)).toBe(true);
});

test("a full disk is recognised, whoever reports it", () => {
  const coded = (code: string) => Object.assign(new Error("x"), { code });
  const git = (stderr: string) => new GitError("git add ended with exit code 128", 128, stderr);
  for (const error of [
    coded("ENOSPC"),
    coded("EDQUOT"),
    coded("SQLITE_FULL"),
    coded("53100"),
    new Error("outer", { cause: coded("ENOSPC") }),
    unavailable(coded("SQLITE_FULL")),
    new GitError("git diff was not started: ENOSPC: no space left on device, write", null, ""),
    git("error: unable to write file a: No space left on device\nfatal: updating files failed"),
    git("error: unable to write file 'out/a.txt'\nerror: unable to write file 'out/b.txt'"),
    git("fatal: sha1 file '/run/sortie/git/index.lock' write error. Out of diskspace"),
  ])
    expect(isFull(error), String(error)).toBe(true);
  for (const error of [
    coded("ENOENT"),
    new Error("ENOSPC"),
    git("fatal: pathspec 'No space left on device' did not match any files"),
    git("error: unable to write file 'a': Permission denied"),
    undefined,
    "ENOSPC",
  ])
    expect(isFull(error), String(error)).toBe(false);
});
