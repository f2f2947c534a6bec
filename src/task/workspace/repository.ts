import { setTimeout as wait } from "node:timers/promises";
import type { TaskState } from "../../domain/state/task.ts";
import { ServiceError, messageOf } from "../../error.ts";
import { RepositoryAway, type Fetched, type Repositories, type RepositoryPlace } from "../../repository/repository.ts";
import type { Run } from "../run.ts";

/** The repository that a Task's result is pushed to: where its work begins, and patience while the remote is away. */

/** Where a Task's result is pushed; undefined: it lands on this machine. Rejects where the operator allows it no more. */
export const placeOfTask = (
  repositories: Pick<Repositories, "at" | "place">,
  { directory, remote }: Pick<TaskState, "directory" | "remote">,
): RepositoryPlace | undefined =>
  remote === null ? repositories.at(directory) : repositories.place(remote.url, remote.ref ?? undefined);

export const repositoryPlace = (run: Run): RepositoryPlace => {
  const { directory } = run.state();
  const place = placeOfTask(run.repositories, run.state());
  if (place === undefined)
    throw new ServiceError(
      "repository_unavailable",
      `Expected the files of a repository in ${directory}, got nothing.`,
    );
  return place;
};

const longestPauseMs = 30_000;

/**
 * Tries again while the remote cannot be asked, for as long as one fetch may take; then rejects with the last error. The
 * Task says what it waits for, and takes nobody's place meanwhile.
 */
export const throughAbsence = <T>(run: Run, attempt: () => Promise<T>): Promise<T> =>
  waitThrough(run, repositoryPlace(run).url, attempt);

/** The same for whatever runs under a claim, of a repository by its address. */
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

/** The user's clone that a pull request is made for. */
const cloneOf = async (run: Run): Promise<{ commonDir: string; head: string } | undefined> => {
  const { directory, remote } = run.state();
  if (remote === null) return undefined;
  const { git, project } = await run.workspaces.inspect(directory);
  if (git?.head == null)
    throw new ServiceError("repository_unsupported", `Expected a clone of ${remote.url} in ${directory}, got none.`);
  return { commonDir: project, head: git.head };
};

/** What the remote has now. A ref on which nothing can land fails a Task that is to land there. */
export const fetchBase = async (run: Run): Promise<Fetched> => {
  const place = repositoryPlace(run);
  const clone = await cloneOf(run);
  const fetched = await throughAbsence(run, () =>
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

/** What the remote has in the place of a base that was filled in. */
export const baseOf = (run: Run, baseCommit: string): { of?: string } => {
  if (run.state().repository === null) return {};
  const of = run.repositories.filledFrom(repositoryPlace(run), baseCommit);
  return of === null || of === baseCommit ? {} : { of };
};
