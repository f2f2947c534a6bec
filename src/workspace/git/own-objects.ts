import { type Dirent, lstatSync, opendirSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { pace } from "../../pace.ts";
import { FileRefused } from "../file/folder.ts";

/**
 * Checks that the objects of a repository are its own: git follows a link in place of a pack, an object or their
 * folders, so it would read another repository's objects as this one's, and write new ones into another's folder. It
 * would also block on a file that is not a regular one. A link for the whole object folder is judged with the folders
 * that the repository borrows from.
 */

/** The stamps of one repository's object folders when they were checked, by name. */
type Seen = Map<string, string>;

const seen = new Map<string, Seen>();
const mostRepositories = 500;

/**
 * Milliseconds. Clocks of file systems are coarse: a folder that changed so recently may change again with the same
 * time.
 */
const clockMs = 50;

/**
 * Changes with every entry that is added or removed, and cannot be set back; "": it changed too recently to be sure.
 * undefined: there is no such folder.
 */
const stampOf = (folder: string): string | undefined => {
  try {
    const stats = lstatSync(folder, { throwIfNoEntry: false });
    if (stats?.isDirectory() !== true) return undefined;
    return Date.now() - stats.ctimeMs < clockMs ? "" : `${stats.dev}.${stats.ino}.${stats.ctimeMs}`;
  } catch {
    return undefined;
  }
};

const refuse = (kind: FileRefused["kind"], path: string, got: string): never => {
  throw new FileRefused(kind, `Expected the repository's own objects at "${path}", got ${got}`);
};

/** Throws FileRefused for an entry that is not a regular file or a folder. `each`: called with every other entry. */
const visit = async (folder: string, each: (entry: Dirent) => void) => {
  let entries;
  try {
    entries = opendirSync(folder, { bufferSize: 256 });
  } catch {
    return;
  }
  try {
    for (let entry = entries.readSync(); entry !== null; entry = entries.readSync()) {
      if (entry.isSymbolicLink()) refuse("outside", join(folder, entry.name), "a link");
      if (entry.isFIFO() || entry.isSocket() || entry.isCharacterDevice() || entry.isBlockDevice())
        refuse("not-a-file", join(folder, entry.name), "what is no file");
      each(entry);
      await pace();
    }
  } finally {
    entries.closeSync();
  }
};

/**
 * Throws FileRefused, which names the path, if an object or folder is not the repository's own. Folders that have not
 * changed since the last call are not checked again. Entries are read in small batches: there may be very many.
 * `loose`: also checks each loose object, for callers that read or write objects; a caller that only asks what a
 * directory is does without, since every request does that.
 */
export const expectOwnObjects = async (commonDir: string, { loose }: { loose: boolean }): Promise<void> => {
  let objects: string;
  try {
    objects = realpathSync.native(join(commonDir, "objects"));
  } catch {
    return;
  }
  const before = seen.get(objects) ?? new Map<string, string>();
  const now: Seen = new Map(before);
  const look = async (name: string, each: (entry: Dirent) => void = () => {}): Promise<void> => {
    const folder = join(objects, name);
    const stamp = stampOf(folder);
    now.delete(name);
    if (stamp === undefined) return;
    if (stamp === "" || before.get(name) !== stamp) await visit(folder, each);
    now.set(name, stamp);
  };
  const names = new Set(before.keys());
  await look("", (entry) => {
    if (entry.isDirectory() && kept.test(entry.name)) names.add(entry.name);
  });
  names.delete("");
  for (const name of names)
    if (loose || !fan.test(name)) await look(name);
    else if (!now.has(name)) now.set(name, "");
  if (seen.size >= mostRepositories) seen.clear();
  seen.set(objects, now);
};

/** Folders of loose objects, named by the first two digits of their ids. */
const fan = /^[0-9a-f]{2}$/;
/** Folders in which git looks for objects and for information about them. */
const kept = /^(?:[0-9a-f]{2}|pack|info)$/;
