import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { LandedPath } from "../../protocol/event/workspace.ts";
import { pace } from "../../pace.ts";
import { sizeLimits, textAt } from "../file/bounded-read.ts";
import { holdsOnly, inspectFile, type InspectedFile } from "../file/inspect.ts";
import { removeTree } from "../file/remove-tree.ts";
import type { Git } from "../git/git.ts";
import { headOf, refOf } from "../git/repository.ts";
import { checkOut } from "../object/blob.ts";
import { type Change, changesOf, type Side } from "../object/tree-change.ts";
import { checkedOutAt } from "../object/branch.ts";
import type { Commit } from "../object/commit.ts";
import type { WorktreeRecord } from "../record.ts";
import type { LandingPlan, Refusal } from "../workspace.ts";
import { convertedIDs, entriesOf, type IndexEntry, isAtOrBelow } from "./index-entry.ts";
import { waitForIndex, whoHolds } from "./index-lock.ts";
import { sha256WithLineEnds } from "./line-ending.ts";
import { type EditedSides, mergeUserEdit } from "./merge-edit.ts";

/**
 * Plans a landing: what it would change, or why it cannot. Writes nothing of the user's. A file is clean only if its
 * bytes are: git's own assumptions (assume-unchanged, a coarse clock) do not count.
 */

export type PlanRequest = {
  taskID: string;
  record: WorktreeRecord;
  worktree: string;
  /** git in the project's own files. */
  git: Git;
  commit: Commit;
  base: string;
  ref: string | null;
  /** The caller named the branch: the project need not be on it. */
  named: boolean;
  /** The service's folder for the bytes of files that the user edited, and of their merges. */
  kept: string;
  lockWaitMs: number;
};

export const planLanding = async (request: PlanRequest): Promise<LandingPlan | Refusal> => {
  const { taskID, record, git, commit, base, ref } = request;
  if (ref === null) return { reason: "detached", message: "the project was on no branch when the Task started" };
  if (!existsSync(record.projectGitDir) || !existsSync(record.toplevel))
    return { reason: "gone", message: `${record.toplevel} is no longer a Git repository` };
  if (!(await waitForIndex(record.projectGitDir, taskID, request.lockWaitMs)))
    return { reason: "gone", message: whoHolds(record.projectGitDir) };

  const head = headOf(record.projectGitDir);
  const alone = head?.ref !== ref;
  if (alone && !request.named)
    return { reason: "detached", message: `the project is on ${head?.ref ?? "no branch"} now, not on ${ref}` };
  const present = refOf(record.commonDir, ref) ?? (await resolved(git, ref));
  if (present === null) return { reason: "gone", message: `the branch ${ref} is gone` };
  if (present !== base) return { reason: "moved", head: present };
  if (alone) {
    const where = await checkedOutAt(git, ref);
    if (where !== undefined) return { reason: "detached", message: `${ref} is checked out in ${where}` };
    return { commit: commit.commit, tree: commit.tree, from: base, ref, paths: [], alone };
  }

  const changes = await changesOf(git, base, commit.commit);
  const entries = await entriesOf(
    git,
    changes.map((change) => change.path),
  );
  const disk = new Map<string, InspectedFile>();
  for (const change of changes) {
    disk.set(change.path, await inspectFile(record.toplevel, change.path, base));
    // Gives way here, because a path without a file waits for no disk.
    await pace();
  }
  await removeTree(request.kept);
  const modes = keepsModes(record);
  const { blocked, edited } = await editsOf(request, changes, entries, disk, modes);
  const dirty = new Set(blocked);
  if (edited.size === 0 && dirty.size > 0) return { reason: "dirty", paths: [...dirty].sort() };

  const paths: LandedPath[] = [];
  const after = await afterOf(request, changes);
  const sides = { root: record.toplevel, git, kept: request.kept, modes };
  for (const change of changes) {
    const { path } = change;
    if (dirty.has(path)) continue;
    const seen = disk.get(path) ?? { kind: "absent" };
    const side = { change, seen, entry: entries.get(path) ?? null, after: after.get(path) ?? "" };
    const landed = await mergeUserEdit(sides, { ...side, edited: edited.get(path) ?? { disk: false, index: false } });
    await pace();
    if (landed === undefined) dirty.add(path);
    else paths.push(landed);
  }
  if (dirty.size > 0) return { reason: "dirty", paths: [...dirty].sort() };
  // Deletions first, to make room: a file may become a folder, and a folder a file.
  paths.sort((one, other) => Number(one.after !== null) - Number(other.after !== null));
  return { commit: commit.commit, tree: commit.tree, from: base, ref, paths };
};

const resolved = async (git: Git, ref: string): Promise<string | null> =>
  (await git.run(["rev-parse", "--verify", "-q", ref], { ok: [0, 1] })).stdout.toString("latin1").trim() || null;

/** Paths where the user's index or files differ from the branch: those that block the landing, and those to merge. */
const editsOf = async (
  { git, record }: PlanRequest,
  changes: readonly Change[],
  entries: ReadonlyMap<string, IndexEntry>,
  disk: ReadonlyMap<string, InspectedFile>,
  modes: boolean,
): Promise<{ blocked: Set<string>; edited: Map<string, EditedSides> }> => {
  const blocked = new Set<string>();
  const edited = new Map<string, EditedSides>();
  const edit = (path: string, what: Partial<EditedSides>) =>
    edited.set(path, { disk: false, index: false, ...edited.get(path), ...what });
  const unsure: { path: string; object: string }[] = [];
  const removed = new Set(changes.filter(({ from, to }) => from !== null && to === null).map(({ path }) => path));
  const added = new Set(changes.filter(({ from, to }) => from === null && to !== null).map(({ path }) => path));
  for (const staged of entries.keys()) {
    if (!added.has(staged) && !removed.has(staged) && isAtOrBelow(staged, added)) blocked.add(staged);
    await pace();
  }
  for (const { path, from } of changes) {
    await pace();
    const entry = entries.get(path);
    if (entry?.mode !== from?.mode || entry?.object !== from?.object) edit(path, { index: true });
    const there = disk.get(path) ?? { kind: "absent" };
    if (from === null) {
      const clear =
        there.kind === "absent" ||
        (there.kind === "blocked" && removed.has(there.by)) ||
        (there.kind === "folder" && (await holdsOnly(record.toplevel, path, removed)));
      if (there.kind === "present") edit(path, { disk: true });
      else if (!clear) blocked.add(there.kind === "blocked" ? there.by : path);
    } else if (there.kind === "absent") edit(path, { disk: true });
    else if (there.kind !== "present") blocked.add(path);
    else {
      const { mode, object } = there.content;
      const link = from.mode === "120000";
      if ((mode === "120000") !== link || (modes && mode !== from.mode)) edit(path, { disk: true });
      else if (object !== from.object) {
        if (link) edit(path, { disk: true });
        else unsure.push({ path, object: from.object });
      }
    }
  }
  const ids = await convertedIDs(
    git,
    unsure.map(({ path }) => path),
  );
  for (const [at, { path, object }] of unsure.entries()) if (ids[at] !== object) edit(path, { disk: true });
  return { blocked, edited };
};

/** Whether this repository honours the executable bit. */
const keepsModes = ({ commonDir }: WorktreeRecord): boolean =>
  !/^[ \t]*filemode[ \t]*=[ \t]*(false|no|off|0)[ \t\r]*$/im.test(
    textAt(join(commonDir, "config"), sizeLimits.config) ?? "",
  );

/**
 * SHA-256 of the bytes that each added or changed path will have on disk: those of the worktree, on which the checks
 * ran.
 */
const afterOf = async (request: PlanRequest, changes: readonly Change[]): Promise<Map<string, string>> => {
  const { git, worktree, base } = request;
  const hashes = new Map<string, string>();
  const unsure: { path: string; to: NonNullable<Side>; seen: InspectedFile }[] = [];
  for (const { path, to } of changes) {
    await pace();
    if (to === null) continue;
    if (to.mode === "160000") throw new Error(`Expected no submodule in a Task's commit, got "${path}".`);
    const seen = await inspectFile(worktree, path, base);
    if (seen.kind === "present" && seen.content.object === to.object) hashes.set(path, seen.content.sha256);
    else unsure.push({ path, to, seen });
  }
  for (const { path, to, seen } of unsure) {
    const isFile = seen.kind === "present" && seen.content.mode !== "120000" && to.mode !== "120000";
    const hash = isFile ? await sha256WithLineEnds(worktree, path, to.object) : undefined;
    if (hash !== undefined) hashes.set(path, hash);
  }
  for (const { path, to } of unsure) {
    if (hashes.has(path)) continue;
    const hash = createHash("sha256");
    await checkOut(git, { object: to.object, path, mode: to.mode }, (part) => hash.update(part));
    hashes.set(path, hash.digest("hex"));
  }
  return hashes;
};
