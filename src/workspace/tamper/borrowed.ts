import { lstatSync, mkdirSync, readlinkSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { sizeLimits, statsAt, textAt } from "../file/bounded-read.ts";
import { FileRefused } from "../file/folder.ts";
import { nestedGits } from "../git/nested.ts";
import { repositoryOf } from "../git/repository.ts";
import type { Prepared } from "../workspace.ts";

/**
 * Repositories that a Task leaves in the user's directory must not borrow the objects of others: the next Task there
 * would be shown them. An agent's `objects/info/alternates` differs from a person's only in that it was not there when
 * the Task began, so the state at that time is recorded.
 */

/** The paths by which repositories below the directory borrow objects, each with its content. */
const borrowings = z.record(z.string(), z.string());
type Borrowings = z.infer<typeof borrowings>;

const contentOf = (path: string): string | undefined => {
  try {
    const stats = lstatSync(path, { throwIfNoEntry: false });
    if (stats?.isSymbolicLink() === true) return `link ${readlinkSync(path)}`;
    return stats?.isFile() === true ? (textAt(path, sizeLimits.pointer, { nofollow: true }) ?? "") : undefined;
  } catch (error) {
    return error instanceof FileRefused ? error.message : undefined;
  }
};

/**
 * The Git directory of a `.git`. There may be many repositories, so a `.git` folder counts as one without a look
 * inside.
 */
const commonDirAt = (dotGit: string): string | undefined => {
  const stats = lstatSync(dotGit, { throwIfNoEntry: false });
  if (stats?.isDirectory() === true) return dotGit;
  const top = dirname(dotGit);
  const found = stats?.isFile() === true ? repositoryOf(top) : undefined;
  return found?.toplevel === top ? found.commonDir : undefined;
};

type Place = Pick<Prepared, "root" | "baseCommit">;

/**
 * The borrowings below the directory, except those of the repository that was there when the Task began: that is its
 * user's, and is protected from commands by other means.
 */
const borrowedBelow = ({ root, baseCommit }: Place): Borrowings => {
  const found: Borrowings = {};
  for (const dotGit of new Set([...(baseCommit === null ? [join(root, ".git")] : []), ...nestedGits(root)])) {
    const commonDir = commonDirAt(dotGit);
    if (commonDir === undefined) continue;
    for (const name of ["objects", "objects/info/alternates"]) {
      const path = join(commonDir, name);
      const content = contentOf(path);
      if (content !== undefined) found[path] = content;
    }
  }
  return found;
};

const fileOf = (home: string, taskID: string): string => join(home, "..", "borrowed", `${taskID}.json`);

/** Records the borrowings before the Task's first command; an earlier record stays. `home`: the folder of worktrees. */
export const recordBorrowed = (home: string, taskID: string, place: Place): void => {
  const file = fileOf(home, taskID);
  if (statsAt(file) !== undefined) return;
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const temp = `${file}.new`;
  writeFileSync(temp, JSON.stringify(borrowedBelow(place)), { mode: 0o600 });
  renameSync(temp, file);
};

export const forgetBorrowed = (home: string, taskID: string): void => rmSync(fileOf(home, taskID), { force: true });

/**
 * Puts new or changed borrowings aside, under a name that git does not know, and forgets the record. Returns the paths;
 * none if nothing was recorded. Call it when no process of the Task's runs.
 */
export const putBorrowedAside = (home: string, taskID: string, place: Place): string[] => {
  const text = textAt(fileOf(home, taskID), sizeLimits.config);
  if (text === undefined) return [];
  const before = borrowings.parse(JSON.parse(text));
  const aside = Object.entries(borrowedBelow(place)).flatMap(([path, content]) => {
    if (before[path] === content) return [];
    renameSync(path, `${path}.found-by-${taskID}`);
    return [path];
  });
  // Comes last: if the service dies before, this is done again.
  forgetBorrowed(home, taskID);
  return aside;
};
