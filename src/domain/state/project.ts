/** Which project a stream belongs to. */

/** The same for all spellings of a repository's address. `url`: the address in normal form. */
export const repositoryIdentity = (url: string): string => url.replace(/\.git$/, "");

/**
 * The identity of a stream's project. A repository is identified by its address, which every node knows. Earlier
 * versions recorded the path of its mirror in one data folder instead.
 */
export const projectOf = ({
  project,
  repository,
}: {
  project: string;
  repository?: { url: string } | null | undefined;
}): string => (repository == null ? project : repositoryIdentity(repository.url));
