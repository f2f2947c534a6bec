import { closeSync, constants, lstatSync, openSync, readdirSync } from "node:fs";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { messageOf } from "../../error.ts";

/** Measures the disk space that folders take, in a thread, so that the service keeps answering. */

/** `parts`: the largest entries of the tree itself, largest first. */
export type Usage = { bytes: number; files: number; parts: { name: string; bytes: number }[] };

/** `tree`: one of the folders, whose entries are named. */
type Request = { measure: readonly string[]; tree: string };

/** Follows no link; counts a file with several names once; leaves out what it may not read. */
export const measureUsage = (folders: readonly string[], tree: string): Promise<Usage> =>
  new Promise((resolve, reject) => {
    const data: Request = { measure: folders, tree };
    const worker = new Worker(new URL(import.meta.url), { workerData: data, env: {} });
    worker.unref();
    worker.once("message", (usage: Usage | string) =>
      typeof usage === "string" ? reject(new Error(usage)) : resolve(usage),
    );
    worker.once("error", reject);
    worker.once("exit", (code) => reject(new Error(`Measuring a Task's files ended with exit code ${code}`)));
  });

/** Most parts that are named. */
const mostParts = 5;

/**
 * Bytes. A longer path is continued from an open folder: the system takes paths of up to 4,096 bytes, and becomes
 * slower the more folders a path has.
 */
const longPath = 512;

/** Most files with several names that are remembered; each name of a further file counts. */
const mostLinked = 1_000_000;

type Level = { path: Buffer; folders: Buffer[]; fd: number | undefined };

const slash = Buffer.from("/");

const measure = ({ measure: folders, tree }: Request): Usage => {
  const linked = new Set<string>();
  const parts = new Map<string, number>();
  let files = 0;

  /** Bytes of one entry; for a folder, without its content. */
  const sizeOf = (path: Buffer): { bytes: number; isFolder: boolean } => {
    const stats = lstatSync(path);
    files += 1;
    const isFolder = stats.isDirectory();
    if (isFolder || stats.nlink === 1) return { bytes: stats.blocks * 512, isFolder };
    const id = `${stats.dev}:${stats.ino}`;
    if (linked.has(id)) return { bytes: 0, isFolder };
    if (linked.size < mostLinked) linked.add(id);
    return { bytes: stats.blocks * 512, isFolder };
  };

  const enter = (path: Buffer): Level => {
    if (path.length < longPath) return { path, folders: [], fd: undefined };
    const fd = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    return { path: Buffer.from(`/proc/self/fd/${fd}`), folders: [], fd };
  };

  /** Bytes of everything below a folder. A loop, because agents make folders deeper than a stack. */
  const below = (folder: Buffer, found: (name: Buffer, bytes: number, depth: number) => void): void => {
    const levels: Level[] = [];
    const open = (path: Buffer): void => {
      let level: Level | undefined;
      try {
        level = enter(path);
        for (const name of readdirSync(level.path, { encoding: "buffer" })) {
          const entry = Buffer.concat([level.path, slash, name]);
          try {
            const { bytes, isFolder } = sizeOf(entry);
            found(name, bytes, levels.length);
            if (isFolder) level.folders.push(name);
          } catch {}
        }
        levels.push(level);
      } catch {
        if (level?.fd !== undefined) closeSync(level.fd);
      }
    };
    open(folder);
    for (let level = levels.at(-1); level !== undefined; level = levels.at(-1)) {
      const name = level.folders.pop();
      if (name === undefined) {
        levels.pop();
        if (level.fd !== undefined) closeSync(level.fd);
        continue;
      }
      if (levels.length === 1) entered = name.toString("utf8");
      open(Buffer.concat([level.path, slash, name]));
    }
  };

  let total = 0;
  let entered = "";
  for (const folder of folders) {
    try {
      total += sizeOf(Buffer.from(folder)).bytes;
    } catch {
      continue;
    }
    below(Buffer.from(folder), (name, bytes, depth) => {
      total += bytes;
      if (folder !== tree) return;
      const part = depth === 0 ? name.toString("utf8") : entered;
      parts.set(part, (parts.get(part) ?? 0) + bytes);
    });
  }
  const largest = [...parts].map(([name, bytes]) => ({ name, bytes })).toSorted((a, b) => b.bytes - a.bytes);
  return { bytes: total, files, parts: largest.slice(0, mostParts) };
};

const answer = (request: Request): Usage | string => {
  try {
    return measure(request);
  } catch (error) {
    return messageOf(error);
  }
};

const isRequest = (data: unknown): data is Request => typeof data === "object" && data !== null && "measure" in data;
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- the port of a thread has no origin
if (!isMainThread && isRequest(workerData)) parentPort?.postMessage(answer(workerData));
