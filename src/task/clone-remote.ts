import { ServiceError } from "../error.ts";
import type { Repositories, RepositoryPlace } from "../repository/repository.ts";
import { originOf } from "../workspace/git/origin.ts";
import type { Project } from "../workspace/workspace.ts";

/**
 * The remote of the clone in a directory, as the target of a pull request. The operator decides what is allowed, as for
 * a repository by address; only the address and the branch come from the clone's settings. Throws a `ServiceError` when
 * no pull request is possible.
 */
export const cloneRemote = (
  { directory, git }: Project,
  repositories: Repositories,
): { url: string; ref: string | null } => {
  const refuse = (expected: string, got: string) =>
    new ServiceError("repository_unsupported", `Expected ${expected} for a pull request, got ${got}.`);
  if (git?.branch == null) throw refuse(`a branch to be checked out in ${directory}`, "a commit");
  const origin = originOf(git.toplevel, git.branch);
  if (origin === undefined)
    throw refuse(`a clone with a remote in ${directory}`, "none (`git remote add origin <url>`)");
  if (origin.shallow) throw refuse(`a whole clone in ${directory}`, "a shallow one (`git fetch --unshallow`)");
  const place = remotePlaceOf(directory, () => repositories.place(origin.url, origin.branch ?? undefined));
  const { allowed, proposes } = repositories.landing(place);
  if (!allowed.includes("pull-request"))
    throw new ServiceError(
      "repository_not_allowed",
      `Expected one of commit, branch: the operator allows no pull requests (repositories.landing of config.jsonc).`,
    );
  if (proposes !== undefined)
    throw new ServiceError(
      "repository_not_allowed",
      `Expected one of commit, branch: no pull request can be opened for ${place.url}, because ${proposes}.`,
    );
  return { url: place.url, ref: place.ref };
};

/** Names the directory in the error: the caller gave a directory and may not know its remote. */
const remotePlaceOf = (directory: string, find: () => RepositoryPlace): RepositoryPlace => {
  try {
    return find();
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    throw new ServiceError(error.code, `The remote of ${directory} cannot have a pull request. ${error.message}`);
  }
};
