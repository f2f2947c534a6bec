import { pace } from "../../pace.ts";
import type { LandedPath } from "../../protocol/event/workspace.ts";
import { inspectFile } from "../file/inspect.ts";
import { removeFile, removeLeftover, syncFolders } from "../file/replace.ts";
import { type Change, changesOf, type Side } from "../object/tree-change.ts";
import type { Landed } from "../workspace.ts";
import { convertedIDs, entriesOf } from "./index-entry.ts";
import { matchesState, stampIfMatches, stateOf, writeFile } from "./path-state.ts";
import { removeCopy } from "./new-index.ts";
import type { LandRequest } from "./request.ts";
import { restoreOldFile, removeStaged } from "./stage.ts";

/**
 * Takes a landing back whose commit is not in the branch: every path that is still as the landing wrote it gets the
 * user's bytes again. A path that the user has made their own since stays: a file as HEAD has it, or as they have
 * staged it. `wrote`: the paths that this process wrote; undefined: an earlier process may have written any path.
 *
 * If one path cannot be put back, the others still are; the call then rejects.
 */
export const takeBack = async (
  request: LandRequest,
  reason: string,
  wrote: ReadonlySet<string> | undefined,
): Promise<Landed> => {
  const { record, plan, taskID, step } = request;
  const root = record.toplevel;
  const errors: unknown[] = [];
  const touched: string[] = [];
  const own = await ownOf(request, await pathsStillAsWritten(request, wrote));
  for (const path of plan.paths.toReversed()) {
    step("put back");
    await pace();
    try {
      removeLeftover(root, path.path, taskID);
      const state = await stateOf(root, path.path);
      if (!isWritten(state, path, wrote) || own.has(path.path)) continue;
      const stamp = stampIfMatches(state, path.after, path);
      touched.push(path.path);
      if (stamp === undefined || (path.before !== null && (await restoreOldFile(request, path, stamp)))) continue;
      if (path.before === null) await removeFile(root, path.path, record.prefix, { stamp });
      else {
        const still = async () => stampIfMatches(await stateOf(root, path.path), path.after, path);
        await writeFile({ ...request, worktree: root }, path.path, path.before, still);
      }
    } catch (error) {
      errors.push(error);
    }
  }
  await syncFolders(root, touched);
  if (errors.length > 0) throw errors[0];
  removeCopy(request);
  await removeStaged(request);
  return { ok: false, reason };
};

const isWritten = (
  state: Awaited<ReturnType<typeof stateOf>>,
  path: LandedPath,
  wrote: ReadonlySet<string> | undefined,
): boolean =>
  (wrote?.has(path.path) ?? true) && !matchesState(state, path.before, path) && matchesState(state, path.after, path);

/** The paths that are on disk as the landing wrote them. */
export const pathsStillAsWritten = async (
  { record, plan }: Pick<LandRequest, "record" | "plan">,
  wrote: ReadonlySet<string> | undefined,
): Promise<LandedPath[]> => {
  const found: LandedPath[] = [];
  for (const path of plan.paths) {
    await pace();
    if (isWritten(await stateOf(record.toplevel, path.path), path, wrote)) found.push(path);
  }
  return found;
};

/**
 * The paths that the user has made their own: HEAD has the file as it is, or the index has it now and did not before.
 */
const ownOf = async ({ git, record, plan }: LandRequest, paths: readonly LandedPath[]): Promise<Set<string>> => {
  const own = new Set<string>();
  if (paths.length === 0) return own;
  const { stdout } = await git.run(["rev-parse", "--verify", "-q", "HEAD^{commit}"], { ok: [0, 1] });
  const head = stdout.toString("latin1").trim();
  const sidesOf = (changes: readonly Change[]) => new Map(changes.map((change) => [change.path, change]));
  const committed = sidesOf(head === "" ? [] : await changesOf(git, plan.from, head));
  const planned = sidesOf(await changesOf(git, plan.from, plan.commit));
  const entries = await entriesOf(
    git,
    paths.map(({ path }) => path),
  );
  const files = await sidesOnDisk(record.toplevel, plan.from, paths);
  const unsure: { path: string; object: string }[] = [];
  for (const landed of paths) {
    const { path, index } = landed;
    const there = files.get(path) ?? null;
    const before = index === undefined ? (planned.get(path)?.from ?? null) : index.before;
    const staged = entries.get(path) ?? null;
    const candidates = [
      ...(committed.has(path) ? [committed.get(path)?.to ?? null] : []),
      ...(staged?.object === before?.object && staged?.mode === before?.mode ? [] : [staged]),
    ];
    for (const candidate of candidates)
      if (isSame(there, landed.after, candidate)) own.add(path);
      else if (there !== null && candidate !== null) unsure.push({ path, object: candidate.object });
  }
  const open = unsure.filter(({ path }) => !own.has(path));
  const ids = await convertedIDs(
    git,
    open.map(({ path }) => path),
  );
  for (const [at, { path, object }] of open.entries()) if (ids[at] === object) own.add(path);
  return own;
};

/**
 * Whether a file has the content of a blob; `after`: what the landing made of the file, unless the user's edits are
 * merged in.
 */
const isSame = (there: string | null, after: LandedPath["after"], side: Side): boolean =>
  side === null || there === null
    ? side === null && there === null
    : side.object === there || side.object === after?.object;

/** The object id that the bytes of each path have as they are; null: no file. */
const sidesOnDisk = async (
  root: string,
  like: string,
  paths: readonly LandedPath[],
): Promise<Map<string, string | null>> => {
  const found = new Map<string, string | null>();
  for (const { path } of paths) {
    const seen = await inspectFile(root, path, like);
    found.set(path, seen.kind === "present" ? seen.content.object : null);
  }
  return found;
};
