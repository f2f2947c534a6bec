import { randomUUID } from "node:crypto";
import { lstatSync, mkdirSync, readdirSync, renameSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { lacksDescriptors } from "../../engine/transient-failure.ts";
import { isAlive, type ProcessMark, thisProcess } from "../../process/command/process-identity.ts";
import { sizeLimits, textAt } from "../file/bounded-read.ts";

/**
 * Reserves directories in which Tasks work in place: one Task at a time, of all services of this machine, also for
 * folders inside each other. The holder writes an entry, a file with the directory and the process, into the project's
 * Git directory and into one folder of this user for all directories. So services find each other also where there is
 * no Git, or where one of the two places cannot be written. The entry of a process that is gone does not count.
 */

type Entry = ProcessMark & { directory: string };

/** The directories that this process holds, known without a look at the disk. */
const held = new Set<string>();

const isConflict = (one: string, other: string): boolean =>
  one === other || one.startsWith(`${other}/`) || other.startsWith(`${one}/`);

/**
 * Holds the directory until disposed. undefined: another Task works there, or this cannot be determined now, such as
 * without a free descriptor or a place for an entry. `project`: as in `Project`.
 */
export const holdDirectory = (directory: string, project: string): Disposable | undefined => {
  if ([...held].some((other) => isConflict(other, directory))) return undefined;
  const mark = thisProcess();
  // Without a mark, the entry would be taken for that of a dead process.
  if (mark === undefined) return undefined;
  const own: Entry = { directory, ...mark };
  const name = `${process.pid}-${randomUUID()}`;
  const made: string[] = [];
  const release = () => {
    for (const file of made) removeEntry(file);
  };
  // The entry is written before others are looked for: of two services at once each sees the other, and neither gets
  // the directory.
  for (const folder of foldersFor(directory, project)) {
    const file = writeEntry(folder, name, own);
    if (file !== undefined) made.push(file);
  }
  if (made.length === 0 || made.some((file) => mayBeHeldBeside(dirname(file), directory))) {
    release();
    return undefined;
  }
  held.add(directory);
  return {
    [Symbol.dispose]() {
      held.delete(directory);
      release();
    },
  };
};

const foldersFor = (directory: string, project: string): string[] => [
  join(tmpdir(), `sortie-${process.getuid?.() ?? "locks"}`, "in-place"),
  ...(project === directory ? [] : [join(project, "sortie-in-place")]),
];

/** The path of the entry; undefined: the folder cannot be written, or is not this user's. */
const writeEntry = (folder: string, name: string, entry: Entry): string | undefined => {
  const file = join(folder, `${name}.json`);
  // A service that releases its entry removes the empty folder, which may happen in between.
  for (let tries = 0; tries < 3; tries += 1)
    try {
      if (!isOwn(dirname(folder)) || !isOwn(folder)) return undefined;
      writeFileSync(`${file}.tmp`, JSON.stringify(entry), { flag: "wx", mode: 0o600 });
      renameSync(`${file}.tmp`, file);
      return file;
    } catch {
      rmSync(`${file}.tmp`, { force: true });
    }
  return undefined;
};

/**
 * Whether the folder is this user's; makes it if there is none. In the temporary folder that all users share, its name
 * may be taken by another user's folder or by a link.
 */
const isOwn = (folder: string): boolean => {
  if (lstatSync(folder, { throwIfNoEntry: false }) === undefined) mkdirSync(folder, { mode: 0o700 });
  const found = lstatSync(folder);
  return found.isDirectory() && (dirname(folder) !== tmpdir() || found.uid === (process.getuid?.() ?? found.uid));
};

const removeEntry = (file: string): void => {
  try {
    rmSync(file, { force: true });
    rmdirSync(dirname(file));
  } catch {
    // Others have entries there.
  }
};

const mayBeHeldBeside = (folder: string, directory: string): boolean => {
  try {
    return isHeldBeside(folder, directory);
  } catch {
    return true;
  }
};

/**
 * Whether another living process has an entry in the folder for this directory or a conflicting one. Removes the
 * entries of dead processes.
 */
const isHeldBeside = (folder: string, directory: string): boolean => {
  for (const name of readdirSync(folder)) {
    const file = join(folder, name);
    // `held` has the directories of this process; an earlier process with the same process id is dead.
    if (name.startsWith(`${process.pid}-`) || !name.endsWith(".json")) continue;
    const entry = entryAt(file);
    if (entry === undefined) continue;
    if (!isAlive(entry)) removeEntry(file);
    else if (isConflict(entry.directory, directory)) return true;
  }
  return false;
};

const entryAt = (file: string): Entry | undefined => {
  try {
    const { directory, pid, started } = JSON.parse(textAt(file, sizeLimits.pointer) ?? "") as Partial<Entry>;
    return typeof directory === "string" && typeof pid === "number" && typeof started === "string"
      ? { directory, pid, started }
      : undefined;
  } catch (error) {
    if (lacksDescriptors(error)) throw error;
    return undefined;
  }
};
