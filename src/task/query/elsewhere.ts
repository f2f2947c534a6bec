import type { StreamID } from "../../domain/event.ts";
import type { TaskState } from "../../domain/state/task.ts";
import { commonOf } from "../../domain/view/summary.ts";
import { ServiceError } from "../../error.ts";
import { type Repositories, RepositoryAway } from "../../repository/repository.ts";
import { nodeAwayError } from "../../store/node.ts";
import type { Store } from "../../store/store.ts";
import { bringCheckpoint } from "../checkpoint.ts";

/**
 * Reads the committed work of a Task that another node has. Commits of a repository by address are on the Task's branch
 * or in its checkpoint, and every node can reach both. Decision 0274.
 */

type Deps = {
  store: Pick<Store, "nodes" | "blobs">;
  repositories: Pick<Repositories, "local" | "has" | "fetch" | "unpack">;
};

type Wanted = Pick<TaskState, "repository"> & {
  stream: StreamID;
  /** The commits that the answer is read from. */
  commits: readonly string[];
  checkpoint?: TaskState["checkpoint"];
  /** Whether the files contain more than the commits. If so, only their node can answer, as long as it is up. */
  dirty: boolean;
};

/**
 * Resolves to "here" when this node has the stream's files, otherwise to "commits" once its mirror has the commits.
 * Rejects with `node_away` when the commits cannot be had, because they belong to a directory or were never kept.
 */
export const reachCommits = async (deps: Deps, wanted: Wanted, signal: AbortSignal): Promise<"here" | "commits"> => {
  const { nodes } = deps.store;
  const placed = (await nodes?.elsewhere([wanted.stream]))?.get(wanted.stream);
  if (placed === undefined) return "here";
  const isOnlyThere = wanted.dirty && (placed.isUp || wanted.commits.length === 0);
  if (wanted.repository === null || isOnlyThere || !(await bring(deps, wanted.repository, wanted, signal)))
    throw nodeAwayError(nodes, wanted.stream, placed);
  return "commits";
};

/**
 * For a Task that this node has taken over and whose run has not brought the files here yet, or never will because the
 * Task was ended first: the base and the newest commit that another node kept. Fetches both into the mirror, if it can.
 */
export const bringTakenOver = async (
  deps: Deps,
  { taskID, repository, workspace, moved, tree, checkpoint }: TaskState,
  signal: AbortSignal,
): Promise<{ from: string; to: string }> => {
  const from = workspace?.baseCommit ?? "";
  const to = moved?.commit ?? tree?.commit ?? from;
  const commits = [from, to].filter((commit) => commit !== "");
  if (repository !== null)
    await bring(deps, repository, { stream: taskID, repository, commits, checkpoint, dirty: false }, signal);
  return { from, to };
};

/** Whether the mirror has the commits, after asking the checkpoint and the remote if necessary. */
const bring = async (
  { store, repositories }: Deps,
  repository: NonNullable<Wanted["repository"]>,
  { commits, checkpoint = null }: Wanted,
  signal: AbortSignal,
): Promise<boolean> => {
  const place = repositories.local(repository);
  const hasAll = async () =>
    (await Promise.all(commits.map((commit) => repositories.has(place, commit)))).every((found) => found);
  const unpack = async () => {
    if (checkpoint !== null) await bringCheckpoint({ repositories, store }, place, checkpoint, signal);
  };
  if (await hasAll()) return true;
  // This needs no remote if the mirror has the base of the checkpoint.
  await unpack();
  if (await hasAll()) return true;
  await repositories.fetch(place, signal).catch((error: unknown) => {
    // What was fetched before the error counts, and a branch that has been removed since is no reason to fail.
    if (!(error instanceof RepositoryAway || error instanceof ServiceError)) throw error;
  });
  if (await hasAll()) return true;
  await unpack();
  return hasAll();
};

/**
 * The commits from which a Task's change is read: its base and its last commit. None when all its changes are
 * uncommitted, or when it has no base.
 */
export const committedOf = ({ repository, tree, workspace, checkpoint, touched, taskID }: TaskState): Wanted => {
  const base = workspace?.baseCommit ?? null;
  const commits = [base, tree?.commit ?? null].filter((commit) => commit !== null);
  return { stream: taskID, repository, commits: touched && tree === null ? [] : commits, checkpoint, dirty: touched };
};

/** The commit from which a Task's archive is built: the newest one alone. */
export const archivedOf = (state: TaskState): Wanted => {
  const committed = committedOf(state);
  const { headCommit } = commonOf(state).git;
  return headCommit === null || committed.commits.length === 0 ? committed : { ...committed, commits: [headCommit] };
};
