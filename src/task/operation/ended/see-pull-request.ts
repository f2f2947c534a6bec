import { repositoryIdentity } from "../../../domain/state/project.ts";
import { isActive } from "../../../domain/state/task.ts";
import { hourly } from "../../../async/hourly.ts";
import { messageOf } from "../../../error.ts";
import type { Log } from "../../../log.ts";
import type { Project } from "../../../protocol/task/board.ts";
import { ForgeRefused, RepositoryAway } from "../../../repository/repository.ts";
import { placeOfTask } from "../../repository-place.ts";
import type { Tasks, TasksDeps } from "../../tasks.ts";
import type { Change } from "../commit-change.ts";

/**
 * Follows the pull request of an ended Task: asked hourly, and when the forge sends an event. Records a state other
 * than open. Once the pull request is merged, its branch is removed, if it is still as the service pushed it.
 */
export const createSeeRequest =
  (
    { repositories, store, log }: Pick<TasksDeps, "repositories" | "store" | "log">,
    { change }: Change,
  ): Tasks["refreshPullRequest"] =>
  async (taskID, signal) => {
    const state = await store.state(taskID);
    const place = state && placeOfTask(repositories, state);
    // While the Task works, its run follows the pull request.
    if (state === undefined || place === undefined || isActive(state)) return;
    const { pullRequest, pushed } = state;
    if (pullRequest?.state !== "open" || pushed === null) return;
    try {
      const found = await repositories.proposed(place, pullRequest.number, signal);
      if (found === undefined || found.state === "open") return;
      // Before the record, so that a service that dies in between tries again.
      if (found.state === "merged") await repositories.removeBranch(place, pushed, signal);
      await change(taskID, undefined, (now) => ({
        status: 200,
        body: {},
        events:
          isActive(now) || now.pullRequest?.number !== found.number || now.pullRequest.state !== "open"
            ? []
            : [{ type: "landing.proposed", data: { ...found, commit: now.pullRequest.commit } }],
      }));
    } catch (error) {
      if (!(error instanceof ForgeRefused || error instanceof RepositoryAway)) throw error;
      log.warn({ taskID, error: messageOf(error) }, "the state of a pull request could not be read");
    }
  };

const dayMs = 24 * 3_600_000;
/** An older pull request is looked up only when its Task is followed up. */
const longestMs = 30 * dayMs;
const projectsAtMost = 200;
const tasksAtMost = 200;

/** Looks up the pull requests of the newest Tasks that are still open according to the log, one after the other. */
export const createRequestSweep = ({
  tasks,
  store,
  workspaces,
  log,
  now,
}: Pick<TasksDeps, "store" | "workspaces" | "now"> & { tasks: Pick<Tasks, "refreshPullRequest">; log: Log }) => {
  /** undefined: the directory is no longer a project. */
  const projectOf = async ({ directory, repository }: Project): Promise<string | undefined> =>
    repository === null
      ? (await workspaces.inspect(directory).catch(() => undefined))?.project
      : repositoryIdentity(repository.url);
  const sweep = async (signal: AbortSignal): Promise<void> => {
    const since = now().getTime() - longestMs;
    for (const known of await store.projects(projectsAtMost, signal)) {
      if (known.updated < since) continue;
      const project = await projectOf(known);
      if (project === undefined) continue;
      const listed = await store.list(
        { project, lifecycleStatus: "completed", archived: true, limit: tasksAtMost },
        signal,
      );
      for (const { taskID, landing, updated: at } of listed) {
        signal.throwIfAborted();
        if (landing !== "pull-request" || at < since) continue;
        // Rejects, for example, for a repository that the operator no longer lists.
        await tasks.refreshPullRequest(taskID, signal).catch((error: unknown) => {
          signal.throwIfAborted();
          log.warn({ taskID, error: messageOf(error) }, "the state of a pull request could not be read");
        });
      }
    }
  };
  return hourly(sweep, (error) => log.warn({ error: messageOf(error) }, "pull requests could not be checked"));
};
