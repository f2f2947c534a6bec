import {
  closeSync,
  constants,
  createReadStream,
  fstatSync,
  lstatSync,
  openSync,
  read,
  readlinkSync,
  readSync,
} from "node:fs";
import type { Readable } from "node:stream";
import { promisify } from "node:util";
import type { Git } from "../git/git.ts";
import { decodePath } from "../file/path.ts";
import { FileRefused, type Folder, openFolder } from "../file/folder.ts";

/**
 * The files that Git tracks, as they stand on disk or in a commit, with nothing converted: no filter, no attribute, no
 * line ending. No link is followed, in no component of a path. Names and files may be hostile.
 */

/** An entry of the index or of a tree. `mode` is git's: 100644, 100755, 120000 (link) or 160000 (submodule). */
export type Tracked = { path: string; mode: string; object: string; stage: number; bytes?: number };

/** `bytes` of a link are its target. */
export type Found =
  | { kind: "bytes"; bytes: Buffer }
  /** Too large to be held; closes when it was read or destroyed. */
  | { kind: "stream"; bytes: number; stream: Readable }
  | { kind: "absent"; reason: string };

export interface TrackedReader extends Disposable {
  /** Best called in the order of the entries. Never rejects for what a file is, only for what fails. */
  read(entry: Tracked, maxBytes: number): Promise<Found>;
}

/** Files above this size come as a stream, bytes. */
const streamFrom = 1024 * 1024;
/** Up to here a thread costs more than it saves. */
const syncBytes = 32 * 1024;
/** Objects of a commit that are read by one process, bytes. */
const batchBytes = 8 * 1024 * 1024;
/** What one git process may print leaves room for no larger object. */
const objectBytes = 60 * 1024 * 1024;

const listTimeoutMs = 120_000;

function* recordsOf(bytes: Buffer): Generator<{ fields: string[]; path: string }> {
  for (let from = 0; from < bytes.length; ) {
    const end = bytes.indexOf(0, from);
    const tab = bytes.indexOf(9, from);
    const fields = bytes.toString("latin1", from, tab).split(/ +/);
    yield { fields, path: decodePath(bytes.subarray(tab + 1, end === -1 ? bytes.length : end)) };
    from = end === -1 ? bytes.length : end + 1;
  }
}

/** The index of git's worktree, below git's root and relative to it. */
export const trackedInIndex = async (git: Git, signal: AbortSignal): Promise<Tracked[]> => {
  const { stdout } = await git.run(["ls-files", "-s", "-z"], { signal, timeoutMs: listTimeoutMs });
  return [...recordsOf(stdout)].map(({ fields: [mode = "", object = "", stage], path }) => ({
    path,
    mode,
    object,
    stage: Number(stage),
  }));
};

/** A commit's tree, below a folder of it ("" for the top) and relative to that. */
export const trackedInCommit = async (
  git: Git,
  commit: string,
  prefix: string,
  signal: AbortSignal,
): Promise<Tracked[]> => {
  const args = ["ls-tree", "-r", "-l", "-z", "--full-tree", prefix === "" ? commit : `${commit}:${prefix}`];
  const { stdout } = await git.run(args, { signal, timeoutMs: listTimeoutMs });
  return [...recordsOf(stdout)].map(({ fields: [mode = "", , object = "", size], path }) => ({
    path,
    mode,
    object,
    stage: 0,
    ...(size === "-" ? {} : { bytes: Number(size) }),
  }));
};

const readAt = promisify(read);

const absent = (reason: string): Found => ({ kind: "absent", reason });

const codeOf = (error: unknown) => (error as NodeJS.ErrnoException).code ?? "";

const reasonOf = (error: unknown): string => {
  if (error instanceof FileRefused) return error.kind === "missing" ? "missing" : "changed type";
  switch (codeOf(error)) {
    case "ENOENT":
      return "missing";
    case "ELOOP":
    case "ENOTDIR":
    case "ENXIO":
      return "changed type";
    case "EACCES":
    case "EPERM":
      return "not readable";
    case "":
    default:
      throw error;
  }
};

const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** The bytes on disk. `root` is a real path. */
export const readerOnDisk = (root: string): TrackedReader => {
  let open: { path: string; folder: Folder } | undefined;
  /** Neighbours come one after another: their folder is walked to once. */
  const folderOf = (components: readonly string[]): Folder => {
    const path = components.join("/");
    if (open?.path === path) return open.folder;
    open?.folder[Symbol.dispose]();
    open = undefined;
    open = { path, folder: openFolder(root, components) };
    return open.folder;
  };

  const readFile = async (fd: number, maxBytes: number): Promise<Found> => {
    let keep = false;
    try {
      const stats = fstatSync(fd);
      if (!stats.isFile()) return absent("changed type");
      if (stats.size > maxBytes) return absent(`larger than ${maxBytes} bytes`);
      if (stats.size > streamFrom) {
        keep = true;
        const stream = createReadStream("", { fd, start: 0, end: stats.size - 1, highWaterMark: 256 * 1024 });
        return { kind: "stream", bytes: stats.size, stream };
      }
      const bytes = Buffer.allocUnsafe(stats.size);
      let length = 0;
      while (length < bytes.length) {
        const rest = bytes.length - length;
        const count =
          rest <= syncBytes
            ? readSync(fd, bytes, length, rest, length)
            : (await readAt(fd, bytes, length, rest, length)).bytesRead;
        if (count === 0) break;
        length += count;
      }
      return { kind: "bytes", bytes: bytes.subarray(0, length) };
    } finally {
      if (!keep) closeSync(fd);
    }
  };

  return {
    async read({ path, mode }, maxBytes) {
      const components = path.split("/");
      const name = components.pop() ?? "";
      let fd: number | undefined;
      try {
        const at = folderOf(components).at(name);
        if (mode === "120000")
          return lstatSync(at).isSymbolicLink()
            ? { kind: "bytes", bytes: readlinkSync(at, { encoding: "buffer" }) }
            : absent("changed type");
        fd = openSync(at, flags);
      } catch (error) {
        return absent(reasonOf(error));
      }
      return readFile(fd, maxBytes);
    },
    [Symbol.dispose]() {
      open?.folder[Symbol.dispose]();
      open = undefined;
    },
  };
};

/** The bytes of a commit's objects; `entries` as listed, with their sizes. Works without any worktree. */
export const readerInCommit = (git: Git, entries: readonly Tracked[], signal: AbortSignal): TrackedReader => {
  const batches: string[][] = [];
  const batchOf = new Map<string, number>();
  let filled = Number.POSITIVE_INFINITY;
  for (const { object, bytes = 0 } of entries) {
    if (bytes > objectBytes || batchOf.has(object)) continue;
    if (filled + bytes > batchBytes) {
      batches.push([]);
      filled = 0;
    }
    filled += bytes;
    batches.at(-1)?.push(object);
    batchOf.set(object, batches.length - 1);
  }
  /** The two newest batches; an object that occurs again later is read again. */
  const loaded = new Map<number, Promise<Map<string, Buffer>>>();
  const load = (index: number): Promise<Map<string, Buffer>> => {
    const known = loaded.get(index);
    if (known !== undefined) return known;
    const found = catFile(git, batches[index] ?? [], signal);
    // Awaited by its reader; one that fails before that must not end the process.
    found.catch(() => undefined);
    loaded.set(index, found);
    for (const old of loaded.keys()) if (loaded.size > 2) loaded.delete(old);
    return found;
  };
  return {
    async read({ object, bytes = 0 }, maxBytes) {
      if (bytes > maxBytes) return absent(`larger than ${maxBytes} bytes`);
      if (bytes > objectBytes) return absent(`larger than ${objectBytes} bytes, and the Task's worktree is gone`);
      const index = batchOf.get(object);
      const found = index === undefined ? undefined : (await load(index)).get(object);
      return found === undefined ? absent("missing in the repository") : { kind: "bytes", bytes: found };
    },
    [Symbol.dispose]: () => loaded.clear(),
  };
};

/** "<object> blob <size>\n<bytes>\n" for each, or "<object> missing\n". */
const catFile = async (git: Git, objects: readonly string[], signal: AbortSignal): Promise<Map<string, Buffer>> => {
  const input = objects.map((object) => `${object}\n`).join("");
  const { stdout } = await git.run(["cat-file", "--batch"], { input, signal, timeoutMs: listTimeoutMs });
  const found = new Map<string, Buffer>();
  for (let from = 0; from < stdout.length; ) {
    const end = stdout.indexOf(10, from);
    const [object = "", type = "", size = ""] = stdout.toString("latin1", from, end).split(" ");
    from = end + 1;
    if (type === "missing") continue;
    if (type === "blob") found.set(object, stdout.subarray(from, from + Number(size)));
    from += Number(size) + 1;
  }
  return found;
};
