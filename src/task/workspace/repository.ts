import { setTimeout as wait } from "node:timers/promises";
import { ServiceError, messageOf } from "../../error.ts";
import { RepositoryAway, type Fetched } from "../../repository/repository.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { repositoryPlace } from "../repository-place.ts";
import type { Run } from "../run.ts";

/**
 * The repository to which a Task's result is pushed: where the work begins, where it continues on another node, and
 * waiting while the remote is away.
 */

const longestPauseMs = 30_000;

/**
 * Tries again while the remote cannot be reached, for as long as one fetch may take; then rejects with the last error.
 * Records what the Task waits for, and lets others have its place meanwhile.
 */
export const retryWhileRemoteAway = <T>(run: Run, attempt: () => Promise<T>): Promise<T> =>
  waitThrough(run, repositoryPlace(run).url, attempt);

/** Like `retryWhileRemoteAway`, for anything that runs under a claim and uses a repository by address. */
export const waitThrough = async <T>(
  run: Pick<Run, "repositories" | "record" | "engine" | "stream" | "signal" | "log" | "now">,
  url: string,
  attempt: () => Promise<T>,
): Promise<T> => {
  let since: Date | undefined;
  for (let pauseMs = 1000; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs))
    try {
      const done = await attempt();
      if (since !== undefined)
        await run.record([
          { type: "run.resumed", data: { code: "repository_unavailable", since: since.toISOString() } },
        ]);
      return done;
    } catch (error) {
      if (!(error instanceof RepositoryAway) || error.lasting) throw error;
      const now = run.now();
      const reason = `waits for ${url}: ${messageOf(error)}`.slice(0, 500);
      if (since === undefined) {
        await run.record([{ type: "run.paused", data: { code: "repository_unavailable", reason } }]);
        since = now;
      }
      const { retryAfterMs = 0 } = error;
      const left = since.getTime() + run.repositories.patienceSeconds * 1000 - now.getTime();
      if (left < 0 || retryAfterMs > left) throw error;
      run.log.warn({ stream: run.stream, repository: url, error: messageOf(error) }, "a repository is away");
      using _aside = run.engine.standAside(run.stream);
      await wait(Math.max(pauseMs, retryAfterMs), undefined, { signal: run.signal });
    }
};

/** The user's clone for which a pull request is made; undefined: the Task has none. */
const cloneOf = async (run: Run): Promise<{ commonDir: string; head: string } | undefined> => {
  const { directory, remote } = run.state();
  if (remote === null) return undefined;
  const { git, project } = await run.workspaces.inspect(directory);
  if (git?.head == null)
    throw new ServiceError("repository_unsupported", `Expected a clone of ${remote.url} in ${directory}, got none.`);
  return { commonDir: project, head: git.head };
};

/**
 * Fetches what the remote has now. Rejects with `repository_unsupported` when the Task is to land on a ref that is not
 * a branch.
 */
export const fetchBase = async (run: Run): Promise<Fetched> => {
  const place = repositoryPlace(run);
  const clone = await cloneOf(run);
  const fetched = await retryWhileRemoteAway(run, () =>
    clone === undefined
      ? run.repositories.fetch(place, run.signal)
      : run.repositories.fetchInto(place, clone, run.signal),
  ).catch((error: unknown) => {
    if (!(error instanceof RepositoryAway)) throw error;
    throw new ServiceError(
      "repository_unavailable",
      `${place.url} could not be fetched: ${messageOf(error).replace(/\.$/, "")}.`,
    );
  });
  if (run.state().landing === "commit" && fetched.branch === null)
    throw new ServiceError(
      "repository_unsupported",
      `Expected a branch to land on, got "${place.ref}", which is a tag or a commit of ${place.url}. Ask for landing "branch".`,
    );
  return fetched;
};

/** The remote's own commit, when the Task's base was filled in with content from elsewhere. */
export const baseOf = (run: Run, baseCommit: string): { of?: string } => {
  if (run.state().repository === null) return {};
  const of = run.repositories.filledFrom(repositoryPlace(run), baseCommit);
  return of === null || of === baseCommit ? {} : { of };
};

/** Where a Task without a checkpoint begins again: its own base, or what the remote has now if that base is gone. */
export const baseLeft = async (run: Run): Promise<{ commit: string; isOwn: boolean }> => {
  const own = run.state().workspace?.baseCommit;
  if (own != null && (await run.repositories.has(repositoryPlace(run), own))) return { commit: own, isOwn: true };
  return { commit: (await run.base()).commit, isOwn: false };
};

/** Recreates the files of a Task that was taken over, from its checkpoint or from what is left of its base. */
export const restore = async (run: Run): Promise<Workspace> => {
  const { taskID, directory, isolation, landing, moved, checkpoint } = run.state();
  const { tracking } = await run.base();
  const kept = [checkpoint, checkpoint?.before ?? null].find((each) => each !== null && each.commit === moved?.commit);
  const isKept = kept != null && (await run.repositories.has(repositoryPlace(run), kept.commit));
  // Files that this node still has from an earlier run are older.
  await run.workspaces.remove(taskID);
  return run.workspaces.prepare({
    taskID,
    directory,
    isolation,
    landing: landing === "commit" ? "commit" : "branch",
    base: {
      commit: isKept ? kept.base : (await baseLeft(run)).commit,
      targetRef: landing === "commit" ? tracking : null,
      ...(isKept ? { tip: kept.commit, unfinished: kept.upTo !== undefined } : {}),
    },
  });
};
