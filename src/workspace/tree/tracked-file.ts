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
import { promisify } from "node:util";
import { errorCode } from "../../error.ts";
import { FileRefused, type Folder, openFolder } from "../file/folder.ts";
import type { Git } from "../git/git.ts";
import {
  absent,
  type TrackedContent,
  listTimeoutMs,
  recordsOf,
  type TrackedFile,
  type TrackedReader,
} from "../object/commit-file.ts";

/**
 * The files that Git tracks, as on disk or in a commit, without conversion: no filter, attribute or line ending
 * applies. No link is followed in any component of a path. Names and content may be hostile.
 */

/** Bytes; larger files are streamed. */
const streamFrom = 1024 * 1024;

/** Bytes; smaller files are read synchronously, which is faster than using a thread. */
const syncBytes = 32 * 1024;

/** The entries of the worktree's index below git's root; paths are relative to it. */
export const listIndexFiles = async (git: Git, signal: AbortSignal): Promise<TrackedFile[]> => {
  const { stdout } = await git.run(["ls-files", "-s", "-z"], { signal, timeoutMs: listTimeoutMs });
  return recordsOf(stdout, ({ fields: [mode = "", object = "", stage], path }) => ({
    path,
    mode,
    object,
    stage: Number(stage),
  }));
};

const readAt = promisify(read);

const reasonOf = (error: unknown): string => {
  if (error instanceof FileRefused) return error.kind === "missing" ? "missing" : "changed type";
  switch (errorCode(error)) {
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

/** Reads the bytes on disk. `root` is a real path. */
export const createDiskReader = (root: string): TrackedReader => {
  let open: { path: string; folder: Folder } | undefined;
  /** Entries of one folder come in sequence, so the last folder stays open. */
  const folderOf = (components: readonly string[]): Folder => {
    const path = components.join("/");
    if (open?.path === path) return open.folder;
    open?.folder[Symbol.dispose]();
    open = undefined;
    open = { path, folder: openFolder(root, components) };
    return open.folder;
  };

  const readFile = async (fd: number, maxBytes: number): Promise<TrackedContent> => {
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
