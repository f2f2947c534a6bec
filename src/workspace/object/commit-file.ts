import type { Readable } from "node:stream";
import { pace } from "../../pace.ts";
import { decodePath } from "../file/path.ts";
import { type Git, GitError } from "../git/git.ts";
import { keptOrLoaded } from "../../async/load-once.ts";

/** The files of one commit, listed and read by object id, whatever is on disk. */

/** An entry of the index or of a tree. `mode` is git's: 100644, 100755, 120000 (link) or 160000 (submodule). */
export type TrackedFile = { path: string; mode: string; object: string; stage: number; bytes?: number };

/** A link's `bytes` are its target. */
export type TrackedContent =
  | { kind: "bytes"; bytes: Buffer }
  /** For content too large to hold in memory; closes once it was read or destroyed. */
  | { kind: "stream"; bytes: number; stream: Readable }
  | { kind: "absent"; reason: string };

export interface TrackedReader extends Disposable {
  /** Fastest in the order of the entries. Rejects for I/O failures only; a file that cannot be read is `absent`. */
  read(entry: TrackedFile, maxBytes: number): Promise<TrackedContent>;
}

/** Bytes of objects read by one git process. */
const batchBytes = 8 * 1024 * 1024;

/** Bytes. Larger objects do not fit into the output limit of one git process. */
const objectBytes = 60 * 1024 * 1024;

/** The files of a commit below the folder `prefix` ("" for the top); paths are relative to it. */
export const listCommitFiles = async (
  git: Git,
  commit: string,
  prefix: string,
  signal: AbortSignal,
): Promise<TrackedFile[]> => {
  const args = ["ls-tree", "-r", "-l", "-z", "--full-tree", prefix === "" ? commit : `${commit}:${prefix}`];
  const { stdout } = await git.run(args, { signal, timeoutMs: listTimeoutMs });
  return recordsOf(stdout, ({ fields: [mode = "", , object = "", size], path }) => ({
    path,
    mode,
    object,
    stage: 0,
    ...(size === "-" ? {} : { bytes: Number(size) }),
  }));
};

/** Reads a commit's objects; `entries` as listed, with their sizes. Needs no worktree. */
export const createCommitReader = (git: Git, entries: readonly TrackedFile[], signal: AbortSignal): TrackedReader => {
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
  /** The two newest batches; an object needed again later is read again. */
  const loaded = new Map<number, Promise<Map<string, Buffer>>>();
  const load = (index: number): Promise<Map<string, Buffer>> => {
    const found = keptOrLoaded(loaded, index, () => catFile(git, batches[index] ?? [], signal));
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

/** Bytes. Nobody reads larger texts. */
const textBytes = 1024 * 1024;

/**
 * The texts that a commit has at these paths, from the top of the repository. null: not a text, or a large one. A path
 * is missing where the commit has no file there; all are missing where the commit is gone.
 */
export const textsOf = async (
  git: Git,
  commit: string,
  paths: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, string | null>> => {
  const texts = new Map<string, string | null>();
  const named = paths.filter((path) => path.isWellFormed());
  if (named.length === 0) return texts;
  try {
    const args = ["ls-tree", "-l", "-z", "--full-tree", commit, "--", ...named];
    const { stdout } = await git.run(args, { signal, timeoutMs: listTimeoutMs });
    const entries = await recordsOf(stdout, ({ fields: [mode = "", type, object = "", size], path }) => ({
      path,
      mode,
      object,
      type,
      stage: 0,
      bytes: Number(size),
    }));
    const files = entries.filter(({ type, mode }) => type === "blob" && mode !== "120000");
    using reader = createCommitReader(git, files, signal);
    for (const file of files) {
      const read = await reader.read(file, textBytes);
      const text = read.kind === "bytes" && !read.bytes.includes(0) ? read.bytes.toString("utf8") : null;
      texts.set(file.path, text);
    }
    return texts;
  } catch (error) {
    if (error instanceof GitError && !signal.aborted) return new Map();
    throw error;
  }
};

/** git prints "<object> blob <size>\n<bytes>\n" for each, or "<object> missing\n". */
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

export const listTimeoutMs = 120_000;

type ListedRecord = { fields: string[]; path: string };

/** Parses the records of a listing, and passes each to `make`; yields in between, because there may be very many. */
export const recordsOf = async <T>(bytes: Buffer, make: (record: ListedRecord) => T): Promise<T[]> => {
  const records: T[] = [];
  for (let from = 0; from < bytes.length; ) {
    const end = bytes.indexOf(0, from);
    const tab = bytes.indexOf(9, from);
    const fields = bytes.toString("latin1", from, tab).split(/ +/);
    records.push(make({ fields, path: decodePath(bytes.subarray(tab + 1, end === -1 ? bytes.length : end)) }));
    from = end === -1 ? bytes.length : end + 1;
    await pace();
  }
  return records;
};

export const absent = (reason: string): TrackedContent => ({ kind: "absent", reason });
