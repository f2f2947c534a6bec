import { statfs } from "node:fs/promises";
import { join } from "node:path";
import { messageOf, ServiceError } from "../../error.ts";
import type { Log } from "../../log.ts";
import type { Limits } from "../../protocol/limit.ts";
import { isFull } from "./full.ts";
import { createReserve, type Reserve } from "./reserve.ts";

/**
 * Watches the disk of the data folder. When it runs short, all runs pause, and continue by themselves once there is
 * space. Meanwhile, cancels and deletions can use a reserve that nothing else may use.
 */
export type Disk = AsyncDisposable &
  Space & {
    /** Rejects with `disk_low` while less is free than a new Task needs. */
    admit: () => Promise<void>;
    /** Whether, at the last look, as much was free as a new Task needs. */
    hasSpace: () => boolean;
    /** Why runs pause now, in words; undefined: they do not pause. */
    shortage: () => string | undefined;
    /** How often runs have paused so far, including a pause under way. */
    pauses: () => number;
    /**
     * Resolves once runs do not pause; at once if they do not pause now. Rejects with the signal's reason when it
     * aborts.
     */
    plenty: (signal: AbortSignal) => Promise<void>;
    /**
     * Calls the listener when a pause begins, at once if one has begun already, and when it ends. The promise that it
     * returns is awaited (for at most `holdMs`) before a part of the reserve is given up. Disposal ends the
     * subscription.
     */
    onPause: (listener: (pauses: boolean) => Promise<void> | void) => Disposable;
    /** Bytes that were free at the last look. */
    free: () => number;
    /** Measures the disk now, instead of within two seconds. */
    look: () => Promise<void>;
  };

/** What a writer to the disk needs to know and to report. */
export interface Space {
  /** What is free now is kept for cancels and deletions: other writers must not write. */
  isKept(): boolean;
  /** Reports an error of a write. A full disk makes all runs pause until a write succeeds again. */
  report(error: unknown): void;
  /** Gives up a part of the reserve for a cancel or a deletion that found no room. false: nothing is left. */
  giveUp(): Promise<boolean>;
}

/**
 * Carries out work that ends or removes something. On a full disk, the work is tried again with each part of the
 * reserve, and rejects when that does not suffice.
 */
export const withReserve = async <T>(space: Pick<Space, "giveUp">, work: () => T | Promise<T>): Promise<T> => {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isFull(error) || !(await space.giveUp())) throw error;
    }
  }
};

/** For stores whose disk is not watched. */
export const unwatchedSpace: Space = {
  isKept: () => false,
  report() {},
  giveUp: () => Promise.resolve(false),
};

/** Bytes and files; `files` is 0 where the file system does not limit their number. */
export type Room = { free: number; total: number; freeFiles: number; files: number };

export type DiskOptions = {
  dataDir: string;
  limits: Pick<Limits, "diskFreeBytes" | "diskFreePercent" | "diskPauseBytes">;
  log: Log;
  measure?: (path: string) => Promise<Room>;
};

/** The largest reserve, and its share of a small disk. */
const reserveBytes = 16 * 1024 ** 2;
const reserveShare = 1 / 16;
const smallestReserve = 1024 ** 2;

/** Bytes that a start needs to write. */
const startBytes = 4 * 1024 ** 2;

/** A Task makes many files, and a file system may run out of those, too. */
const fewFiles = 1000;

/** How fast a disk is assumed to fill at most, in bytes per second; decides when to look again. */
const fastest = 2 * 1024 ** 3;
const oftenMs = 100;
const seldomMs = 2000;
const shortMs = 500;

/** How long giving up a part of the reserve waits until the commands are suspended, in milliseconds. */
const holdMs = 1000;

export const openDisk = async (options: DiskOptions): Promise<Disk> => {
  const { dataDir, limits, log, measure = roomOf } = options;
  let room = await measure(dataDir);
  let lookedAt = performance.now();
  const wanted = Math.min(reserveBytes, Math.max(smallestReserve, room.total * reserveShare));
  const reserve: Reserve = await createReserve(join(dataDir, "reserve"), wanted);
  const listeners = new Set<(pauses: boolean) => Promise<void> | void>();
  const waiters = new Set<() => void>();
  /** Set while runs pause. `full`: a write has failed, so that free bytes alone prove nothing. */
  let short: { full: boolean } | undefined;
  let pauses = 0;
  let held: Promise<unknown> = Promise.resolve();
  let looking: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  const pauseAt = limits.diskPauseBytes;
  /** Higher than where the pause began, lest another one begins at once. */
  const goOnAt = pauseAt === 0 ? 2 * reserve.bytes : pauseAt + pauseAt / 8 + reserve.bytes;
  const isLow = ({ free, files, freeFiles }: Room, bytes: number) =>
    free < bytes || (files > 10 * fewFiles && freeFiles < fewFiles);
  const words = (): string =>
    room.files > 10 * fewFiles && room.freeFiles < fewFiles
      ? `waits for space on the disk of the data folder, which has room for only ${room.freeFiles} more files`
      : `waits for space on the disk of the data folder: ${mib(room.free)} free, continues at ${mib(goOnAt)}`;

  const begin = (full: boolean): void => {
    if (short !== undefined) {
      short.full ||= full;
      return;
    }
    short = { full };
    pauses += 1;
    log.warn(
      { free: room.free, dataDir },
      "the disk of the data folder is short of space: all Tasks pause. Delete ended Tasks, or free space in another way; paused Tasks then continue automatically",
    );
    held = Promise.all([...listeners].map((listener) => heard(listener, true)));
    arm(shortMs);
  };
  const end = (): void => {
    short = undefined;
    log.info({ free: room.free }, "there is space on the disk of the data folder again: Tasks continue");
    for (const listener of listeners) void heard(listener, false);
    for (const go of waiters) go();
    waiters.clear();
  };
  const heard = async (listener: (pauses: boolean) => Promise<void> | void, now: boolean): Promise<void> => {
    try {
      await listener(now);
    } catch (error) {
      log.error({ error: messageOf(error) }, "not everything could be notified of the disk's state");
    }
  };

  const lookOnce = async (): Promise<void> => {
    try {
      room = await measure(dataDir);
      lookedAt = performance.now();
      if (short === undefined) {
        if (isLow(room, pauseAt)) begin(false);
        else if (!reserve.isWhole() && room.free > 4 * reserve.bytes) await reserve.restore();
      } else if (!isLow(room, goOnAt) && (await takesData(short.full))) end();
    } catch (error) {
      if (isFull(error)) begin(true);
      else log.warn({ error: messageOf(error) }, "the free space of the data folder's disk could not be read");
    }
  };
  const takesData = async (full: boolean): Promise<boolean> => {
    if (!reserve.isWhole()) await reserve.restore();
    return !full || (await reserve.probe());
  };
  const look = (): Promise<void> =>
    (looking ??= lookOnce().finally(() => {
      looking = undefined;
      arm(short === undefined ? ((room.free - pauseAt) / fastest) * 1000 : shortMs);
    }));

  const arm = (ms: number): void => {
    clearTimeout(timer);
    if (closed) return;
    timer = setTimeout(() => void look(), Math.min(Math.max(ms, oftenMs), seldomMs));
    timer.unref();
  };

  while (room.free < startBytes && reserve.giveUp()) room = await measure(dataDir);
  if (reserve.isBroken()) begin(true);
  // The caller must not start anything on a disk that has not been measured.
  else await look();

  /** The free bytes that a new Task needs. */
  const least = (): number => Math.max(limits.diskFreeBytes, (room.total * limits.diskFreePercent) / 100);
  return {
    isKept: () => reserve.isBroken(),
    shortage: () => (short === undefined ? undefined : words()),
    pauses: () => pauses,
    free: () => room.free,
    look,
    report(error) {
      if (isFull(error)) begin(true);
    },
    async giveUp() {
      begin(true);
      await Promise.race([held, after(holdMs)]);
      return reserve.giveUp();
    },
    hasSpace: () => room.free >= least() && short === undefined,
    async admit() {
      if (performance.now() - lookedAt > 1000) await look();
      if (room.free >= least() && short === undefined) return;
      const expected = room.free < least() ? least() : goOnAt;
      throw new ServiceError(
        "disk_low",
        `Expected at least ${mib(expected)} free for the data folder, found ${mib(room.free)}. Delete ended Tasks, or free space in another way.`,
        { headers: { "retry-after": "10" } },
      );
    },
    async plenty(signal) {
      signal.throwIfAborted();
      if (short === undefined) return;
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const leave = () => reject(signal.reason as Error);
      waiters.add(resolve);
      signal.addEventListener("abort", leave, { once: true });
      try {
        await promise;
      } finally {
        waiters.delete(resolve);
        signal.removeEventListener("abort", leave);
      }
    },
    onPause(listener) {
      listeners.add(listener);
      if (short !== undefined) held = Promise.all([held, heard(listener, true)]);
      return { [Symbol.dispose]: () => void listeners.delete(listener) };
    },
    async [Symbol.asyncDispose]() {
      closed = true;
      clearTimeout(timer);
      await looking;
    },
  };
};

/** Whether hardly anything can be written to the disk of a folder; false if its space cannot be read. */
export const isFullAt = (folder: string): Promise<boolean> =>
  roomOf(folder).then(
    ({ free, files, freeFiles }) => free < hardlyBytes || (files > 10 * fewFiles && freeFiles < fewFiles),
    () => false,
  );

const hardlyBytes = 32 * 1024 ** 2;

const roomOf = async (path: string): Promise<Room> => {
  const { bavail, bsize, blocks, ffree, files } = await statfs(path);
  return { free: bavail * bsize, total: blocks * bsize, freeFiles: ffree, files };
};

const mib = (bytes: number): string => `${Math.round(bytes / 1024 ** 2)} MiB`;

const after = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
