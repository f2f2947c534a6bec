import type { StreamID } from "../../domain/event.ts";
import type { TaskState } from "../../domain/state/task.ts";
import { commonOf } from "../../domain/view/summary.ts";
import { ServiceError } from "../../error.ts";
import { type Repositories, RepositoryAway } from "../../repository/repository.ts";
import { away } from "../../store/node.ts";
import type { Store } from "../../store/store.ts";
import { bringCheckpoint } from "../checkpoint.ts";

/**
 * What another node's work came to, as far as it is committed: such commits of a repository by address are on its
 * branch or in the Task's checkpoint, both of which every node reaches. Decision 0274.
 */

type Deps = {
  store: Pick<Store, "nodes" | "blobs">;
  repositories: Pick<Repositories, "local" | "has" | "fetch" | "unpack">;
};

type Wanted = Pick<TaskState, "repository"> & {
  stream: StreamID;
  /** Those that the answer is read from. */
  commits: readonly string[];
  checkpoint?: TaskState["checkpoint"];
  /** Whether the files have more than the commits: then only their node tells it, as long as it is up. */
  dirty: boolean;
};

/**
 * Resolves to "here" where this node has the stream's files, else to "commits" once its mirror has the commits. Rejects
 * with `node_away` where they are not to be had: they are of a directory, or were never kept.
 */
export const reach = async (deps: Deps, wanted: Wanted, signal: AbortSignal): Promise<"here" | "commits"> => {
  const { nodes } = deps.store;
  const placed = (await nodes?.elsewhere([wanted.stream]))?.get(wanted.stream);
  if (placed === undefined) return "here";
  const isOnlyThere = wanted.dirty && (placed.isUp || wanted.commits.length === 0);
  if (wanted.repository === null || isOnlyThere || !(await bring(deps, wanted.repository, wanted, signal)))
    throw away(nodes, wanted.stream, placed);
  return "commits";
};

/** Whether the mirror has the commits, once the remote and the checkpoint were asked. */
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
  // Without the remote, if the mirror has what it was made on.
  await unpack();
  if (await hasAll()) return true;
  await repositories.fetch(place, signal).catch((error: unknown) => {
    // What came before it failed counts; a branch that was removed since is no reason either.
    if (!(error instanceof RepositoryAway || error instanceof ServiceError)) throw error;
  });
  if (await hasAll()) return true;
  await unpack();
  return hasAll();
};

/** What a Task has committed, on top of its base; none: nothing, or it has none. */
export const committedOf = ({ repository, tree, workspace, checkpoint, touched, taskID }: TaskState): Wanted => {
  const base = workspace?.baseCommit ?? null;
  const commits = [base, tree?.commit ?? null].filter((commit) => commit !== null);
  return { stream: taskID, repository, commits: touched && tree === null ? [] : commits, checkpoint, dirty: touched };
};

/** The same for what an archive holds: the newest of them alone. */
export const archivedOf = (state: TaskState): Wanted => {
  const committed = committedOf(state);
  const { headCommit } = commonOf(state).git;
  return headCommit === null || committed.commits.length === 0 ? committed : { ...committed, commits: [headCommit] };
};
