import { dirname, relative } from "node:path";
import { isWithin } from "../../process/sandbox/system-mount.ts";
import { type Change, isHarmless, type Looks } from "./harmless.ts";
import type { Indexes } from "./indexes.ts";
import type { Look, Place } from "./node.ts";
import type { Found } from "./restore.ts";

/** Finds the differences between two looks that are not harmless, and groups those that are put back together. */

/** If a folder has more new names than this, the whole folder is set aside. */
const mostSingle = 20;

const changesIn = (looks: Looks): Change[] => {
  const { before, after } = looks;
  return [...new Map([...before.nodes, ...after.nodes]).values()].flatMap((node): Change[] => {
    const { path } = node;
    if (after.unwritable.has(path) || before.unwritable.has(path)) return [];
    const [old, now] = [before.nodes.get(path)?.seen, after.nodes.get(path)?.seen];
    const change = { path, node, old, now };
    return old?.stamp === now?.stamp || isHarmless(change, looks) ? [] : [change];
  });
};

/** The innermost repository whose work tree a path is in. */
const placeOf = (path: string, { nodes }: Look): Place | undefined => {
  let found: Place | undefined;
  for (const { place } of nodes.values())
    if (place.top !== undefined && isWithin(place.top, path) && place.top.length > (found?.top?.length ?? 0))
      found = place;
  return found;
};

/**
 * Whether a work tree's file is as the index has it: then it came with a branch or a landing, and shows in the history.
 */
const isTracked = async ({ path, now }: Change, { root, after }: Looks, indexes: Indexes): Promise<boolean> => {
  if (isWithin(root, path) || /\/\.git(?:\/|$)/.test(path)) return false;
  const place = placeOf(path, after);
  if (place?.top === undefined) return false;
  const name = relative(place.top, path);
  if (now === undefined) return indexes.has(place.gitDir, name, undefined);
  if (now.kind !== "file" || now.bytes === undefined) return false;
  return indexes.has(place.gitDir, name, { bytes: now.bytes, executable: (now.mode & 0o111) !== 0 });
};

/** Changes that the user is unlikely to have made. */
export const suspectsIn = async (looks: Looks, indexes: Indexes): Promise<Change[]> => {
  const kept: Change[] = [];
  for (const change of changesIn(looks)) if (!(await isTracked(change, looks, indexes))) kept.push(change);
  return kept;
};

/** Groups changes that are put back as one: a new repository, or a folder with its former content. */
export const groupFound = (changes: readonly Change[], { root, before, after }: Looks): Found[] => {
  const found = new Map<string, Found>();
  const add = (path: string, gitDir: string, below: Found["below"] = []) => {
    const [old, now] = [before.nodes.get(path)?.seen, after.nodes.get(path)?.seen];
    found.set(path, { path, gitDir, old, now, below });
  };
  const belowOf = (folder: string) =>
    [...before.nodes.values()].filter(({ path }) => path !== folder && isWithin(folder, path));
  const many = crowdedFolders(changes, before, after);
  for (const folder of many) {
    const gitDir = after.nodes.get(folder)?.place.gitDir ?? root;
    add(folder, gitDir, belowOf(folder));
  }
  for (const { path, node, old, now } of changes) {
    const { gitDir } = node.place;
    const isNew = gitDir !== root && !before.nodes.has(gitDir) && after.nodes.get(gitDir)?.seen.kind === "folder";
    if (isNew && isWithin(gitDir, path)) add(gitDir, gitDir);
    else add(path, gitDir, old?.kind === "folder" || now?.kind === "folder" ? belowOf(path) : []);
  }
  // Only the outermost paths: what is below them is put back with them.
  const paths = [...found.keys()];
  const isInside = (path: string) => paths.some((other) => other !== path && isWithin(other, path));
  return [...found.values()].filter(({ path }) => !isInside(path));
};

/** Folders that cannot be judged: they have more entries than a look reads, and are new or have changed. */
export const crowdedIn = ({ before, after }: Pick<Looks, "before" | "after">): string[] =>
  [...after.crowded].filter(
    (path) =>
      !after.unwritable.has(path) &&
      (!before.crowded.has(path) || before.listings.get(path)?.stamp !== after.listings.get(path)?.stamp),
  );

/** Folders with so many new entries that they are put back as a whole. */
const crowdedFolders = (changes: readonly Change[], before: Look, after: Look): string[] => {
  const counts = new Map<string, number>();
  for (const { path, old } of changes)
    if (old === undefined) counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1);
  const many = [...counts].flatMap(([folder, count]) => (count > mostSingle ? [folder] : []));
  return [...new Set([...many, ...crowdedIn({ before, after })])].filter((folder) => after.flat.has(folder));
};
