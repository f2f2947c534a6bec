import { constants, fchmodSync, fchownSync, mkdirSync, statSync, unlinkSync } from "node:fs";
import { open, readdir } from "node:fs/promises";
import { join } from "node:path";
import { errorCode } from "../../error.ts";
import { pace } from "../../pace.ts";
import type { LandedPath } from "../../protocol/event/workspace.ts";
import { inspectFile, stampOf } from "../file/inspect.ts";
import { osPath } from "../file/path.ts";
import { removeTree } from "../file/remove-tree.ts";
import { moveIn, removeFile, removeLeftover, rightsAt, stampAt } from "../file/replace.ts";
import { landedContent, type LandedFile } from "./content.ts";
import { hasRoom, matchesState, stampIfMatches, stateOf, writeFile } from "./path-state.ts";
import type { LandRequest } from "./request.ts";

/**
 * Writes and syncs the new files of a landing inside the project's Git directory, where no `git add` of the user's
 * finds them, before the lock is taken: under the lock each takes one rename. The file that was at the path before is
 * kept beside them until the landing is over, so that taking it back is a rename, too.
 */

type NewFile = { file: string; stamp: string };
/**
 * `stamp`: of the file that may be replaced. `made`: the new file; undefined: there is none, or it is written under the
 * lock.
 */
type Ready = { stamp: string; made: NewFile | undefined };

export type Staged = {
  /** By path, without the paths that already are as planned. */
  ready: Map<string, Ready>;
  /** Paths that are not as they were for the plan: the user saved them since. */
  edited: string[];
};

const folderOf = ({ record, taskID }: LandRequest) => join(record.projectGitDir, `sortie-${taskID}.files`);

/** Names by the path's index in the plan, which is the same after a kill. */
const newOf = (request: LandRequest, at: number) => join(folderOf(request), `${at}.new`);
const oldOf = (request: LandRequest, at: number) => join(folderOf(request), `${at}.old`);

export const removeStaged = (request: LandRequest): Promise<void> => removeTree(folderOf(request));

/** Removes new files that are not needed; leaves the user's files that an earlier process kept. */
export const removeNew = async (request: LandRequest): Promise<void> => {
  const names = await readdir(folderOf(request)).catch((): string[] => []);
  if (!names.some((name) => name.endsWith(".old"))) return removeStaged(request);
  for (const name of names) if (name.endsWith(".new")) tryUnlink(join(folderOf(request), name));
};

/** Files whose bytes are made durable at the same time. */
const atOnce = 8;

/** Stages all files of the plan. Rejects with the signal's reason when it aborts. Changes no file of the user's. */
export const stage = async (request: LandRequest): Promise<Staged> => {
  const { record, plan, taskID, step, signal } = request;
  const root = record.toplevel;
  const staged: Staged = { ready: new Map(), edited: [] };
  mkdirSync(folderOf(request), { recursive: true, mode: 0o700 });
  const here = statSync(folderOf(request)).dev === statSync(osPath(root)).dev;
  const paths = plan.paths.entries();
  const worker = async () => {
    for (const [at, path] of paths) {
      signal?.throwIfAborted();
      step("file");
      await pace();
      removeLeftover(root, path.path, taskID);
      const state = await stateOf(root, path.path);
      if (matchesState(state, path.after, path)) continue;
      const stamp = stampIfMatches(state, path.before, path);
      if (stamp === undefined) staged.edited.push(path.path);
      else {
        const made = here && path.after !== null ? await writeNew(request, at, path, path.after) : undefined;
        staged.ready.set(path.path, { stamp, made });
      }
    }
  };
  // Waits for all workers, so that nobody is writing any more when an error is reported.
  for (const done of await Promise.allSettled(Array.from({ length: atOnce }, worker)))
    if (done.status === "rejected") throw done.reason;
  return staged;
};

/** The new file; undefined: it is a link, which is made in its place as quickly. */
const writeNew = async (
  request: LandRequest,
  at: number,
  { path }: LandedPath,
  wanted: LandedFile,
): Promise<NewFile | undefined> => {
  const source = await landedContent(request, path, wanted);
  if ("bytes" in source) return undefined;
  const file = newOf(request, at);
  tryUnlink(file);
  const executable = wanted.mode === "100755";
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  await using handle = await open(file, flags, executable ? 0o777 : 0o666);
  await source.fill(handle);
  const { mode, group } = rightsAt(request.record.toplevel, path);
  if (group !== undefined && (await handle.stat()).gid !== group) fchownSync(handle.fd, -1, group);
  if (mode !== undefined) fchmodSync(handle.fd, executable ? mode | ((mode & 0o444) >> 2) : mode);
  await handle.sync();
  return { file, stamp: stampOf(await handle.stat({ bigint: true })) };
};

const tryUnlink = (path: string) => {
  try {
    unlinkSync(path);
  } catch (error) {
    if (errorCode(error) !== "ENOENT") throw error;
  }
};

/** The paths that now have another stamp than `stampOfPath` gives. */
export const changedSince = async (
  { record, plan }: LandRequest,
  stampOfPath: (path: string) => string | undefined,
): Promise<string[]> => {
  const changed: string[] = [];
  for (const { path } of plan.paths) {
    await pace();
    const stamp = stampOfPath(path);
    if (stamp !== undefined && !isSame(stampAt(record.toplevel, path), stamp)) changed.push(path);
  }
  return changed;
};

/** Compares stamps without their last part, the time of the inode's change: a rename changes that, but not the file. */
const isSame = (one: string, other: string): boolean => withoutChange(one) === withoutChange(other);
const withoutChange = (stamp: string) => stamp.slice(0, stamp.lastIndexOf("."));

/**
 * Puts one path of the plan in its place. Resolves to the path's new stamp; undefined: the user saved it at this
 * moment, and nothing was changed.
 */
export const placeFile = async (
  request: LandRequest,
  at: number,
  path: LandedPath,
  { stamp, made }: Ready,
): Promise<string | undefined> => {
  const { record, step } = request;
  const root = record.toplevel;
  step("rename");
  const only = { stamp, aside: oldOf(request, at) };
  if (path.after === null) return (await removeFile(root, path.path, record.prefix, only)) ? "-" : undefined;
  if (made !== undefined)
    return (await hasRoom(root, path.path)) && (await moveIn(root, path.path, made.file, only))
      ? made.stamp
      : undefined;
  const still = async () => stampIfMatches(await stateOf(root, path.path), path.before, path);
  if (!(await writeFile(request, path.path, path.after, still))) return undefined;
  return stampIfMatches(await stateOf(root, path.path), path.after, path);
};

/** Puts back the old file of a path. false: it was not kept, or the path does not have the stamp now. */
export const restoreOldFile = async (request: LandRequest, path: LandedPath, stamp: string): Promise<boolean> => {
  const at = request.plan.paths.indexOf(path);
  const old = await inspectFile(folderOf(request), `${at}.old`);
  if (old.kind !== "present" || !matchesState(old.content, path.before, path)) return false;
  return moveIn(request.record.toplevel, path.path, oldOf(request, at), { stamp });
};
