import { createHash, type Hash } from "node:crypto";
import { type BigIntStats, constants, fstatSync, lstatSync, readlinkSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { errorCode } from "../../error.ts";
import { componentsOf, FileRefused } from "./files.ts";
import { pace } from "../../pace.ts";
import { childrenOf, openFolder } from "./folder.ts";
import { osPath } from "./path.ts";

/** Reads paths of a landing from disk: bytes and git's modes, for links their targets. Confined like files.ts. */

export type Mode = "100644" | "100755" | "120000";

export type Content = { mode: Mode; bytes: Buffer };

/**
 * What is known of a file, without its bytes, which may be many. `object`: the id that git gives the bytes without
 * conversion.
 */
export type FileInfo = { mode: Mode; bytes: number; sha256: string; object: string; stamp: string };

export type FileState<T = Content> =
  | { kind: "present"; content: T }
  | { kind: "absent" }
  | { kind: "folder" }
  /** A FIFO, socket or device. */
  | { kind: "special" }
  /** Something other than a folder is where a parent folder of the path should be; `by`: its path. */
  | { kind: "blocked"; by: string };

export const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

const objectHash = (bytes: number, like: string): Hash =>
  createHash(like.length === 40 ? "sha1" : "sha256").update(`blob ${bytes}\0`);

/** Changes with every write to a file, and when another file replaces it. */
export const stampOf = (stats: BigIntStats | undefined): string =>
  stats === undefined ? "-" : `${stats.ino}.${stats.size}.${stats.mtimeNs}.${stats.ctimeNs}`;

type Visit<T> = {
  link: (target: Buffer, stamp: string) => T;
  file: (handle: FileHandle, mode: Mode, bytes: number, stamp: string) => Promise<T>;
};

const visit = async <T>(root: string, path: string, { link, file }: Visit<T>): Promise<FileState<T>> => {
  const components = componentsOf(path);
  const name = components.pop() ?? "";
  try {
    using folder = openFolder(root, components);
    const stats = lstatSync(folder.at(name), { throwIfNoEntry: false, bigint: true });
    if (stats === undefined) return { kind: "absent" };
    if (stats.isDirectory()) return { kind: "folder" };
    if (stats.isSymbolicLink()) {
      const target = readlinkSync(folder.at(name), { encoding: "buffer" });
      return { kind: "present", content: link(target, stampOf(stats)) };
    }
    if (!stats.isFile()) return { kind: "special" };
    await using handle = await open(folder.at(name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const opened = fstatSync(handle.fd, { bigint: true });
    if (!opened.isFile()) return { kind: "special" };
    const mode = (Number(opened.mode) & 0o100) === 0 ? "100644" : "100755";
    return { kind: "present", content: await file(handle, mode, Number(opened.size), stampOf(opened)) };
  } catch (error) {
    if (errorCode(error) === "ENOENT") return { kind: "absent" };
    if (!(error instanceof FileRefused)) throw error;
    return error.kind === "missing" ? { kind: "absent" } : { kind: "blocked", by: blockerOf(root, components) };
  }
};

/** A file larger than `most` bytes counts as special. */
export const readFileState = async (
  root: string,
  path: string,
  most = Number.POSITIVE_INFINITY,
): Promise<FileState> => {
  const found = await visit<Content | undefined>(root, path, {
    link: (bytes) => ({ mode: "120000", bytes }),
    file: async (handle, mode, bytes) => (bytes > most ? undefined : { mode, bytes: await handle.readFile() }),
  });
  if (found.kind !== "present") return found;
  return found.content === undefined ? { kind: "special" } : { kind: "present", content: found.content };
};

/**
 * Like `readFileState`, with hashes instead of the bytes. `like`: any object id of the repository, which determines the
 * hash algorithm; without it `object` is empty.
 */
export const inspectFile = (root: string, path: string, like?: string): Promise<FileState<FileInfo>> =>
  visit<FileInfo>(root, path, {
    link: (target, stamp) => ({
      stamp,
      mode: "120000",
      bytes: target.length,
      sha256: sha256(target),
      object: like === undefined ? "" : objectHash(target.length, like).update(target).digest("hex"),
    }),
    async file(handle, mode, bytes, stamp) {
      const hash = createHash("sha256");
      const object = like === undefined ? undefined : objectHash(bytes, like);
      await eachPart(handle, bytes, (part) => {
        hash.update(part);
        object?.update(part);
      });
      return { stamp, mode, bytes, sha256: hash.digest("hex"), object: object?.digest("hex") ?? "" };
    },
  });

/** Passes a file's bytes on in parts, each valid only until the next one. false: there is no file. */
export const readParts = async (
  root: string,
  path: string,
  onPart: (part: Buffer) => Promise<void>,
): Promise<boolean> => {
  const found = await visit<boolean>(root, path, {
    link: () => false,
    file: async (handle, _, bytes) => {
      await eachPart(handle, bytes, onPart);
      return true;
    },
  });
  return found.kind === "present" && found.content;
};

const partBytes = 1024 * 1024;

/** Reads to the end of the file, even if it grows meanwhile. */
const eachPart = async (handle: FileHandle, bytes: number, onPart: (part: Buffer) => unknown): Promise<void> => {
  const buffer = Buffer.allocUnsafe(Math.min(bytes + 1, partBytes));
  for (;;) {
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, null);
    if (bytesRead === 0) return;
    await onPart(buffer.subarray(0, bytesRead));
  }
};

const blockerOf = (root: string, components: readonly string[]): string => {
  for (let count = 1; count <= components.length; count += 1) {
    const path = components.slice(0, count).join("/");
    if (lstatSync(osPath(`${root}/${path}`), { throwIfNoEntry: false })?.isDirectory() !== true) return path;
  }
  return components.join("/");
};

/** Whether everything below a folder, apart from folders, is among these paths. A `.git` folder counts as a file. */
export const holdsOnly = async (root: string, path: string, allowed: ReadonlySet<string>): Promise<boolean> => {
  const folders = [componentsOf(path)];
  for (let at = folders.pop(); at !== undefined; at = folders.pop()) {
    using folder = openFolder(root, at);
    for (const { name, isFolder } of childrenOf(folder)) {
      const child = [...at, name];
      if (isFolder && name !== ".git") folders.push(child);
      else if (!allowed.has(child.join("/"))) return false;
      await pace();
    }
  }
  return true;
};

export type InspectedFile = FileState<FileInfo>;
