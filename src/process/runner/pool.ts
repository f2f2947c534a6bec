import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Log } from "../../log.ts";
import { innerScript } from "./init-script.ts";
import type { Network } from "../network/allow-list.ts";
import type { Image } from "../sandbox/image-root.ts";
import type { SandboxPlace } from "../sandbox/place.ts";
import { stampOf } from "../sandbox/place.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import type { RunnerClient } from "./client.ts";

/**
 * The open sandboxes: one per Task, opened with its first command, and one for each name in `Command.apart`. The least
 * recently used are closed first.
 */

export interface SandboxPool {
  /** The name of the Task's sandbox over these files, opened if there is none. Throws if it cannot be opened. */
  use(taskID: string, place: SandboxPlace, how?: Use): string;
  /** Process ids of the Task's sandboxes. */
  pidsOf(taskID: string): number[];
  /** Ends the Task's sandboxes, or only the one named `apart`, with everything in them. Resolves when they are gone. */
  shut(taskID: string, apart?: string): Promise<void>;
  /** Stops everything where it is, or lets it continue, in all sandboxes but those opened as `unheld`. */
  hold(held: boolean): void;
  shutAll(): Promise<void>;
}

/** `image`: used instead of this machine's system. `unheld`: the sandbox's commands continue while others are held. */
export type Use = {
  network?: Network | undefined;
  apart?: string | undefined;
  unheld?: boolean | undefined;
  image?: Image | undefined;
};

export type SandboxPoolOptions = {
  sandbox: Sandbox;
  spawner: RunnerClient;
  /** Folder for pipes and small files; leftovers of an earlier service in it are removed. */
  folder: string;
  env: (taskID: string, image: Image | undefined) => Record<string, string>;
  /** Shell commands for process 1 to run before anything else. */
  prelude: string;
  /** The socket of the proxy for a list of hosts. */
  proxy: (list: readonly string[]) => string;
  /** Further paths that the commands of a Task can read. */
  paths: (taskID: string) => readonly string[];
  isBusy: (taskID: string, apart: string | undefined) => boolean;
  opened: (pid: number, taskID: string) => void;
  closed: (pid: number) => void;
  log: Log;
  /** How many sandboxes may stay open while no command runs in them. */
  kept?: number;
  idleMs?: number;
};

type Open = {
  taskID: string;
  apart: string | undefined;
  name: string;
  place: SandboxPlace;
  network: Network;
  paths: readonly string[];
  image: Image | undefined;
  /** The sandbox's commands continue while others are held. */
  unheld: boolean;
  stamp: string;
  used: number;
  pid: number | undefined;
  gone: Promise<void>;
};

/** How long to wait for a sandbox to end, in milliseconds; `engineMs` is for containers. */
const shutMs = 2000;
const engineMs = 12_000;

export const createSandboxPool = (options: SandboxPoolOptions): SandboxPool => {
  const { sandbox, spawner, folder, kept = 64, idleMs = 10 * 60_000 } = options;
  const { wrap } = sandbox;
  /** By Task id, with the name of a separate sandbox appended. */
  const open = new Map<string, Open>();
  const keyOf = (taskID: string, apart: string | undefined) => (apart === undefined ? taskID : `${taskID}/${apart}`);
  const ofTask = (taskID: string) => [...open.values()].filter((box) => box.taskID === taskID);
  let serial = 0;
  let timer: NodeJS.Timeout | undefined;

  const begin = (about: Pick<Open, "taskID" | "apart" | "place" | "network" | "paths" | "image" | "unheld">): Open => {
    const { taskID, apart, place, network, paths, image } = about;
    const key = keyOf(taskID, apart);
    if (wrap === undefined) throw new Error("Expected a sandbox, got tier 3.");
    if (serial === 0) {
      for (const name of ["open", "pipes"]) rmSync(join(folder, name), { recursive: true, force: true });
      mkdirSync(join(folder, "open"), { recursive: true, mode: 0o700 });
    }
    const name = `${taskID}-${(serial += 1)}`;
    const own = join(folder, "open", name);
    mkdirSync(own, { mode: 0o700 });
    const argv = wrap({
      place,
      folder: own,
      cwd: place.at,
      paths,
      image,
      network: typeof network === "boolean" ? network : { socket: options.proxy(network) },
      command: (at) => ["-c", innerScript(at, options.prelude)],
    });
    const [file = "", ...args] = place.around?.(argv) ?? argv;
    const { promise: gone, resolve } = Promise.withResolvers<void>();
    const stamp = stampOf(place);
    const box: Open = { ...about, name, stamp, used: performance.now(), pid: undefined, gone };
    open.set(key, box);
    const { filter, container } = sandbox;
    const request = {
      box: name,
      file,
      args,
      env: options.env(taskID, image),
      folder: own,
      pipes: join(folder, "pipes"),
      ahead: apart === undefined,
      ...(container === undefined ? {} : { byInput: true }),
    };
    spawner.open(filter === undefined ? request : { ...request, filter }, (news) => {
      if (news.pid !== undefined) {
        box.pid = news.pid;
        options.opened(news.pid, taskID);
      }
      if (news.gone !== true) return;
      if (box.pid !== undefined) options.closed(box.pid);
      if (open.get(key) === box) open.delete(key);
      try {
        rmSync(own, { recursive: true, force: true });
      } catch (error) {
        options.log.warn({ err: error, folder: own }, "a sandbox's folder stays until the next start");
      }
      resolve();
    });
    return box;
  };

  const end = async (box: Open): Promise<void> => {
    const { taskID, apart } = box;
    open.delete(keyOf(taskID, apart));
    spawner.shut(box.name);
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(
      () => {
        options.log.warn({ taskID }, "a sandbox is slow to end");
        resolve();
      },
      sandbox.container === undefined ? shutMs : engineMs,
    );
    await Promise.race([box.gone, late]);
    clearTimeout(timer);
  };

  /** `spared` is about to be used and stays open. */
  const evict = (spared?: Open) => {
    const idle = [...open.values()]
      .filter((box) => box !== spared && !options.isBusy(box.taskID, box.apart))
      .toSorted((a, b) => a.used - b.used);
    const tooMany = open.size - kept;
    const now = performance.now();
    for (const [at, box] of idle.entries()) if (at < tooMany || now - box.used > idleMs) void end(box);
    if (open.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };

  return {
    use(taskID, place, { network = sandbox.network, apart, unheld = false, image } = {}) {
      const before = open.get(keyOf(taskID, apart));
      const paths = options.paths(taskID);
      const fits =
        before?.place.at === place.at &&
        String(before.network) === String(network) &&
        before.image?.id === image?.id &&
        before.paths.join("\n") === paths.join("\n");
      if (before !== undefined && fits && before.stamp === stampOf(place)) {
        before.used = performance.now();
        return before.name;
      }
      // The Task's tree was replaced: the old sandbox still has the old tree mounted.
      if (before !== undefined) void end(before);
      const box = begin({ taskID, apart, place, network, paths, image, unheld });
      if (open.size > kept) evict(box);
      timer ??= setInterval(() => evict(), Math.min(idleMs, 60_000)).unref();
      return box.name;
    },
    pidsOf: (taskID) => ofTask(taskID).flatMap(({ pid }) => (pid === undefined ? [] : [pid])),
    async shut(taskID, apart) {
      const one = apart === undefined ? undefined : open.get(keyOf(taskID, apart));
      await Promise.all((apart === undefined ? ofTask(taskID) : one === undefined ? [] : [one]).map(end));
    },
    hold(held) {
      for (const { name, unheld } of open.values()) if (!unheld) spawner.hold(name, held);
    },
    async shutAll() {
      clearInterval(timer);
      await Promise.all([...open.values()].map(end));
    },
  };
};
