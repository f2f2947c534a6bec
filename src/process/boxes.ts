import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Log } from "../log.ts";
import { innerScript } from "./inner.ts";
import type { Place } from "./place.ts";
import { stampOf } from "./place.ts";
import type { Sandbox } from "./sandbox.ts";
import type { Spawner } from "./spawner.ts";

/** The sandboxes that are open: one per Task at most, made with its first command, the longest unused given up first. */

export interface Boxes {
  /** The Task's sandbox around these files, opened when there is none; throws when it cannot even be tried. */
  use(taskID: string, place: Place, network?: boolean): string;
  /** Process id of what holds the Task's sandbox. */
  pidOf(taskID: string): number | undefined;
  /** Ends the Task's sandbox and everything in it; resolves when it is gone. */
  shut(taskID: string): Promise<void>;
  shutAll(): Promise<void>;
}

export type BoxesOptions = {
  sandbox: Sandbox;
  spawner: Spawner;
  /** Where their pipes and small files are; nothing of an earlier service is kept. */
  folder: string;
  env: (taskID: string) => Record<string, string>;
  /** Set in process 1, before anything runs. */
  prelude: string;
  isBusy: (taskID: string) => boolean;
  opened: (pid: number, taskID: string) => void;
  closed: (pid: number) => void;
  log: Log;
  /** Kept open without a command that runs. */
  kept?: number;
  idleMs?: number;
};

type Open = {
  name: string;
  place: Place;
  network: boolean;
  stamp: string;
  used: number;
  pid: number | undefined;
  gone: Promise<void>;
};

/** How long a sandbox may take to die. */
const shutMs = 2000;

export const createBoxes = (options: BoxesOptions): Boxes => {
  const { sandbox, spawner, folder, kept = 64, idleMs = 10 * 60_000 } = options;
  const { wrap } = sandbox;
  const open = new Map<string, Open>();
  let serial = 0;
  let timer: NodeJS.Timeout | undefined;

  const begin = (taskID: string, place: Place, network: boolean): Open => {
    if (wrap === undefined) throw new Error("Expected a sandbox, got tier 3.");
    if (serial === 0) rmSync(join(folder, "open"), { recursive: true, force: true });
    const name = `${taskID}-${(serial += 1)}`;
    const own = join(folder, "open", name);
    const io = join(own, "io");
    mkdirSync(io, { recursive: true, mode: 0o700 });
    const argv = wrap({
      place,
      folder: own,
      io,
      cwd: place.at,
      network,
      command: (at) => ["-c", innerScript(at, options.prelude)],
    });
    const [file = "", ...args] = place.around?.(argv) ?? argv;
    const { promise: gone, resolve } = Promise.withResolvers<void>();
    const box: Open = { name, place, network, stamp: stampOf(place), used: performance.now(), pid: undefined, gone };
    open.set(taskID, box);
    spawner.open({ box: name, file, args, env: options.env(taskID), folder: io }, (news) => {
      if (news.pid !== undefined) {
        box.pid = news.pid;
        options.opened(news.pid, taskID);
      }
      if (news.gone !== true) return;
      if (box.pid !== undefined) options.closed(box.pid);
      if (open.get(taskID) === box) open.delete(taskID);
      rmSync(own, { recursive: true, force: true });
      resolve();
    });
    return box;
  };

  const end = async (taskID: string, box: Open): Promise<void> => {
    open.delete(taskID);
    spawner.shut(box.name);
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(() => {
      options.log.warn({ taskID }, "a sandbox is slow to end");
      resolve();
    }, shutMs);
    await Promise.race([box.gone, late]);
    clearTimeout(timer);
  };

  /** `spared` is about to be used. */
  const evict = (spared?: string) => {
    const idle = [...open]
      .filter(([taskID]) => taskID !== spared && !options.isBusy(taskID))
      .toSorted(([, a], [, b]) => a.used - b.used);
    const tooMany = open.size - kept;
    const now = performance.now();
    for (const [at, [taskID, box]] of idle.entries())
      if (at < tooMany || now - box.used > idleMs) void end(taskID, box);
    if (open.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };

  return {
    use(taskID, place, network = sandbox.network) {
      const before = open.get(taskID);
      const fits = before?.place.at === place.at && before.network === network;
      if (before !== undefined && fits && before.stamp === stampOf(place)) {
        before.used = performance.now();
        return before.name;
      }
      // Other files stand there now: what is mounted in the old one is no longer the Task's tree.
      if (before !== undefined) void end(taskID, before);
      const box = begin(taskID, place, network);
      if (open.size > kept) evict(taskID);
      timer ??= setInterval(() => evict(), Math.min(idleMs, 60_000)).unref();
      return box.name;
    },
    pidOf: (taskID) => open.get(taskID)?.pid,
    async shut(taskID) {
      const box = open.get(taskID);
      if (box !== undefined) await end(taskID, box);
    },
    async shutAll() {
      clearInterval(timer);
      await Promise.all([...open].map(([taskID, box]) => end(taskID, box)));
    },
  };
};
