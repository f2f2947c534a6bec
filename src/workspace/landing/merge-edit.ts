import type { LandedPath } from "../../protocol/event/workspace.ts";
import { readFileState, sha256, type InspectedFile } from "../file/inspect.ts";
import type { Git } from "../git/git.ts";
import { blobOf, checkedOut } from "../object/blob.ts";
import type { Change } from "../object/tree-change.ts";
import { mergeText, mergeValue, mostBytes } from "../object/merge-text.ts";
import type { IndexEntry } from "./index-entry.ts";
import { keepBytes } from "./content.ts";

/**
 * Merges a landing's change with a path that the user has edited, staged or deleted: a three-way merge, for file and
 * index separately. The result stays uncommitted. The user's bytes and the merged ones are kept under their SHA-256, so
 * that a landing can be completed or rolled back after a kill.
 */

export type EditedSides = { disk: boolean; index: boolean };

export type MergeEditRequest = {
  /** The project's top, and git in its own files. */
  root: string;
  git: Git;
  kept: string;
  /** Whether this repository honours the executable bit. */
  modes: boolean;
};

type Side = { change: Change; seen: InspectedFile; entry: IndexEntry | null; edited: EditedSides; after: string };

/** The path as it will land; undefined: both sides changed the same lines, or the content cannot be merged. */
export const mergeUserEdit = async (request: MergeEditRequest, side: Side): Promise<LandedPath | undefined> => {
  const file = await fileOf(request, side);
  if (file === undefined) return undefined;
  const { change, entry, edited } = side;
  if (!edited.index) {
    const plain = file.after === null || file.after.mode === change.to?.mode;
    return plain ? file : { ...file, index: { before: change.from, after: change.to } };
  }
  const index = await indexOf(request, change, entry);
  return index === undefined ? undefined : { ...file, index: { before: entry, after: index } };
};

const isLink = (mode: string) => mode === "120000";

const fileOf = async (request: MergeEditRequest, side: Side): Promise<LandedPath | undefined> => {
  const { change, seen, edited, after } = side;
  const { path, from, to } = change;
  const before = seen.kind === "present" ? { mode: seen.content.mode, sha256: seen.content.sha256 } : null;
  if (!edited.disk) return { path, before, after: to === null ? null : { ...to, sha256: after } };
  if (before === null || to === null) return before === null && to === null ? { path, before, after: null } : undefined;
  if (isLink(before.mode) === isLink(to.mode) && before.sha256 === after && (!request.modes || before.mode === to.mode))
    return { path, before, after: { ...before, object: to.object } };
  if (from === null || [before.mode, from.mode, to.mode].some(isLink)) return undefined;
  const mode = request.modes ? mergeValue(before.mode, from.mode, to.mode) : to.mode;
  if (mode === undefined || seen.kind !== "present") return undefined;
  // The user changed only the mode: no merge is needed, however large the file is.
  if (seen.content.object === from.object)
    return { path, before, after: { mode, sha256: after, object: to.object }, merged: true };
  const there = await readFileState(request.root, path, mostBytes);
  if (there.kind !== "present" || sha256(there.content.bytes) !== before.sha256) return undefined;
  const base = await checkedOut(request.git, { ...from, path }, mostBytes);
  const theirs = base && (await checkedOut(request.git, { ...to, path }, mostBytes));
  if (base === undefined || theirs === undefined) return undefined;
  const merged = await mergeText(request.git, request.kept, { ours: there.content.bytes, base, theirs });
  if (merged === undefined) return undefined;
  await keepBytes(request.kept, there.content.bytes);
  const hash = await keepBytes(request.kept, merged);
  return { path, before, after: { mode, sha256: hash, object: to.object }, merged: true };
};

/** The new index entry where the user has staged a change; null: no entry; undefined: cannot be merged. */
const indexOf = async (
  { git, kept }: MergeEditRequest,
  { from, to }: Change,
  entry: IndexEntry | null,
): Promise<IndexEntry | null | undefined> => {
  if (entry?.mode === to?.mode && entry?.object === to?.object) return to;
  if (entry === null || from === null || to === null || entry.mode === "conflict") return undefined;
  if ([entry.mode, from.mode, to.mode].some(isLink)) return undefined;
  const mode = mergeValue(entry.mode, from.mode, to.mode);
  const ours = await blobOf(git, entry.object, mostBytes);
  const base = await blobOf(git, from.object, mostBytes);
  const theirs = await blobOf(git, to.object, mostBytes);
  if (ours === undefined || base === undefined || theirs === undefined) return undefined;
  const merged = await mergeText(git, kept, { ours, base, theirs });
  if (mode === undefined || merged === undefined) return undefined;
  // An object that no index entry names yet changes nothing that the user sees.
  const { stdout } = await git.run(["hash-object", "-w", "--stdin"], { input: merged });
  return { mode, object: stdout.toString("latin1").trim() };
};
