/** Which project a stream belongs to. */

/** Equal for all spellings of one repository; `url`: its address in normal form. */
export const repositoryIdentity = (url: string): string => url.replace(/\.git$/, "");

/**
 * The identity of a stream's project: of a repository its address, which every node knows it by. Earlier versions wrote
 * the path of its mirror in one data folder down instead.
 */
export const projectOf = ({
  project,
  repository,
}: {
  project: string;
  repository?: { url: string } | null | undefined;
}): string => (repository == null ? project : repositoryIdentity(repository.url));
