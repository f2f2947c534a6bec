import { randomUUID } from "node:crypto";
import { existsSync, readdirSync, readFileSync, renameSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { removeTree } from "../workspace/file/remove-tree.ts";

/**
 * Records when the mirrors of the data folder were last used, by the time of a file beside each, and removes mirrors. A
 * folder to be removed is first renamed, so that a later start finds what a killed service left of it.
 */

/** `squads`: squads were made for the repository, which exist only in the mirror's folder. */
export type Mirror = { url: string; mirror: string; usedAt: Date; squads: boolean };

const markOf = (home: string): string => join(home, "used");

/** Records that the mirror is used now. */
export const markUsed = (mirror: string): void => {
  const mark = markOf(dirname(mirror));
  if (existsSync(mark)) utimesSync(mark, new Date(), new Date());
  else if (existsSync(dirname(mark))) writeFileSync(mark, "", { mode: 0o600 });
};

const removed = ".removed-";

/** All mirrors below a folder of repositories. `mark`: marks those without a mark as used now. */
export const mirrorsIn = (folder: string, mark: boolean): Mirror[] =>
  namesIn(folder).flatMap((name) => {
    const home = join(folder, name);
    const mirror = join(home, "mirror.git");
    if (name.startsWith(".") || !existsSync(join(mirror, "HEAD"))) return [];
    if (mark && !existsSync(markOf(home))) markUsed(mirror);
    const usedAt = statSync(existsSync(markOf(home)) ? markOf(home) : mirror).mtime;
    const refs = namesIn(home).filter((each) => each.endsWith(".json"));
    const squads = refs.some((each) => namesIn(join(home, each.slice(0, -5), ".sortie/squads")).length > 0);
    return [{ url: urlIn(home, refs), mirror, usedAt, squads }];
  });

const namesIn = (folder: string): string[] => {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
};

const urlIn = (home: string, [record]: readonly string[]): string => {
  try {
    return (JSON.parse(readFileSync(join(home, record ?? ""), "utf8")) as { url: string }).url;
  } catch {
    return basename(home);
  }
};

/** Removes the mirror by a rename: once it returns, the repository counts as never fetched. */
export const removeMirror = (mirror: string): void => {
  const home = dirname(mirror);
  const away = join(dirname(home), `${removed}${randomUUID()}`);
  renameSync(home, away);
};

/** Deletes the files of all removed mirrors. */
export const clearRemoved = async (folder: string): Promise<void> => {
  for (const name of namesIn(folder)) if (name.startsWith(removed)) await removeTree(join(folder, name));
};
