import type { TaskState } from "../domain/state/task.ts";
import { ServiceError } from "../error.ts";
import type { Repositories, RepositoryPlace } from "../repository/repository.ts";
import type { Run } from "./run.ts";

/**
 * Where a Task's result is pushed; undefined: it lands on this machine. Throws when the operator no longer allows that
 * repository.
 */
export const placeOfTask = (
  repositories: Pick<Repositories, "local" | "place">,
  { repository, remote }: Pick<TaskState, "repository" | "remote">,
): RepositoryPlace | undefined => {
  if (remote !== null) return repositories.place(remote.url, remote.ref ?? undefined);
  return repository === null ? undefined : repositories.local(repository);
};

export const repositoryPlace = (run: Pick<Run, "state" | "repositories">): RepositoryPlace => {
  const { directory } = run.state();
  const place = placeOfTask(run.repositories, run.state());
  if (place === undefined)
    throw new ServiceError(
      "repository_unavailable",
      `Expected the files of a repository in ${directory}, got nothing.`,
    );
  return place;
};
