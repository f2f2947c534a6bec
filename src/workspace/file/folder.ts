import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  mkdirSync,
  opendirSync,
  openSync,
  readlinkSync,
  realpathSync,
  rmdirSync,
  type Stats,
} from "node:fs";
import { errorCode } from "../../error.ts";
import { decodePath, osPath } from "./path.ts";

/**
 * A folder held open by a descriptor, and the names in it. On Linux `/proc/self/fd/<n>/<name>` means what `openat`
 * means: the folder that was checked, wherever its path leads by now. Elsewhere the real path is compared before and
 * after, which a determined racer can beat.
 */

/** A path was not read or written; the message says what was expected and what was there, for a model or a caller. */
export class FileRefused extends Error {
  readonly kind: "missing" | "outside" | "protected" | "not-a-file" | "too-big" | "linked";
  constructor(kind: FileRefused["kind"], message: string) {
    super(message);
    this.name = "FileRefused";
    this.kind = kind;
  }
}

/** Reported as a missing file, since no file can have a name of this length. */
export const tooLong = (name: string): FileRefused =>
  new FileRefused("missing", `Expected a name that is short enough for a file, got one of ${name.length} characters`);

const linux = process.platform === "linux";

export interface Folder extends Disposable {
  /** A child's path for file system calls. */
  at(name: string): string | Buffer;
  /** A folder in this one. Throws the system's errors, also for a link. */
  open(name: string): Folder;
  /** The folder itself, for listing and syncing. */
  readonly self: string | Buffer;
  readonly fd: number;
}

const hold = (fd: number, path: string): Folder => {
  const base = linux ? `/proc/self/fd/${fd}` : path;
  return {
    fd,
    self: linux ? `${base}/.` : osPath(path),
    at: (name) => osPath(`${base}/${name}`),
    open: (name) => hold(openSync(osPath(`${base}/${name}`), flags), `${path}/${name}`),
    [Symbol.dispose]: () => closeSync(fd),
  };
};

const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/**
 * Opens the folder of these components below the root, one component at a time, following no link. The root is a real
 * path: where an agent has put a link into it, the root is refused, too. `create` creates missing ones. Throws
 * FileRefused.
 */
export const openFolder = (root: string, components: readonly string[], create = false): Folder => {
  let folder = openRoot(root);
  let path = root;
  for (const name of components) {
    const shown = `${path}/${name}`.slice(root.length + 1);
    if (name === "..") {
      folder[Symbol.dispose]();
      throw new FileRefused("outside", `Expected a folder without ".." in its path, got "${shown}"`);
    }
    let fd: number;
    try {
      if (create) makeFolder(folder.at(name));
      fd = openSync(folder.at(name), flags);
    } catch (error) {
      const code = errorCode(error);
      const link = code !== "ENAMETOOLONG" && isLink(folder.at(name));
      if (code === "ENOENT") throw new FileRefused("missing", `Expected the folder "${shown}", got nothing there`);
      if (link) throw new FileRefused("linked", `Expected a folder at "${shown}", got a symbolic link`);
      if (code === "ENOTDIR") throw new FileRefused("not-a-file", `Expected a folder at "${shown}", got a file`);
      if (code === "ENAMETOOLONG") throw tooLong(name);
      throw error;
    } finally {
      folder[Symbol.dispose]();
    }
    path = `${path}/${name}`;
    folder = hold(fd, path);
    if (!linux && realpathSync.native(osPath(path)) !== path) {
      folder[Symbol.dispose]();
      throw new FileRefused("linked", `Expected a folder at "${shown}", got a symbolic link`);
    }
  }
  return folder;
};

/** Stats of a name in a folder, no link followed; undefined: nothing there. */
export const statsIn = (folder: Folder, name: string): Stats | undefined => {
  try {
    return lstatSync(folder.at(name), { throwIfNoEntry: false });
  } catch (error) {
    throw errorCode(error) === "ENAMETOOLONG" ? tooLong(name) : error;
  }
};

export type Child = { name: string; isFolder: boolean; isFile: boolean };

/**
 * A folder's entries, in no order, read in small batches because there may be very many. A link is neither a folder nor
 * a file.
 */
export function* childrenOf(folder: Folder): Generator<Child> {
  const entries = opendirSync(folder.self, { encoding: "buffer" as BufferEncoding, bufferSize: 256 });
  try {
    for (let entry = entries.readSync(); entry !== null; entry = entries.readSync()) {
      const name = decodePath(entry.name as unknown as Buffer);
      let kind: Pick<Stats, "isDirectory" | "isFile"> | undefined = entry;
      // Some file systems do not report the type of an entry when they list a folder.
      const known = entry.isFile() || entry.isDirectory() || entry.isSymbolicLink() || entry.isFIFO();
      if (!known) kind = statsIn(folder, name);
      yield { name, isFolder: kind?.isDirectory() ?? false, isFile: kind?.isFile() ?? false };
    }
  } finally {
    entries.closeSync();
  }
}

const openRoot = (root: string): Folder => {
  const refused = () =>
    new FileRefused("linked", `Expected a folder at "${root}", got a path with a symbolic link in it`);
  let fd: number;
  try {
    fd = openSync(osPath(root), flags);
  } catch (error) {
    if (errorCode(error) === "ELOOP" || isLink(osPath(root))) throw refused();
    throw error;
  }
  const folder = hold(fd, root);
  if (realPathOf(fd, root) === root) return folder;
  folder[Symbol.dispose]();
  throw refused();
};

/** Changes when the folder or its list of entries is replaced. undefined: no such folder; "": it cannot be opened. */
export const folderStamp = (root: string, components: readonly string[]): string | undefined => {
  try {
    using folder = openFolder(root, components);
    const { dev, ino, ctimeNs } = fstatSync(folder.fd, { bigint: true });
    return `${dev} ${ino} ${ctimeNs}`;
  } catch (error) {
    return error instanceof FileRefused ? undefined : "";
  }
};

const makeFolder = (path: string | Buffer) => {
  try {
    mkdirSync(path);
  } catch (error) {
    if (errorCode(error) !== "EEXIST") throw error;
  }
};

const isLink = (path: string | Buffer): boolean =>
  lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;

/** The path that a descriptor really refers to. */
export const realPathOf = (fd: number, path: string): string => {
  if (linux) return decodePath(readlinkSync(`/proc/self/fd/${fd}`, { encoding: "buffer" }));
  const real = decodePath(realpathSync.native(osPath(path), { encoding: "buffer" }));
  const [open, there] = [fstatSync(fd), lstatSync(osPath(real))];
  if (open.ino !== there.ino || open.dev !== there.dev)
    throw new FileRefused("outside", `Expected "${path}" to stay in place, got another file during the read`);
  return real;
};

/** Removes a folder and its parents, up to the root, while they are empty. Follows no link. */
export const pruneFolders = (root: string, path: string): void => {
  const components = path.split("/");
  for (let depth = components.length; depth > 0; depth -= 1)
    try {
      using above = openFolder(root, components.slice(0, depth - 1));
      rmdirSync(above.at(components[depth - 1] ?? ""));
    } catch {
      return;
    }
};
