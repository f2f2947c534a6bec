import { messageOf, ServiceError } from "../error.ts";
import type { Repositories, RepositoryPlace } from "./repository.ts";

/**
 * What is looked for among the files of a repository: they may never have been fetched by this node, or be older than
 * what is looked for.
 */

type Fetching = Pick<Repositories, "fetch" | "patienceSeconds">;

const fetch = (repositories: Fetching, place: RepositoryPlace, most = Number.POSITIVE_INFINITY) =>
  repositories.fetch(place, AbortSignal.timeout(Math.min(repositories.patienceSeconds, most) * 1000));

/** Whoever lists what there is waits so long at most. */
const listSeconds = 20;

/** Looks again after a fetch, where a squad is not there. `place`: undefined: in no repository. */
export const orFetched = async <T>(
  repositories: Fetching,
  place: RepositoryPlace | undefined,
  look: () => Promise<T>,
): Promise<T> => {
  try {
    return await look();
  } catch (error) {
    if (place === undefined || !(error instanceof ServiceError) || error.code !== "squad_not_available") throw error;
    try {
      await fetch(repositories, place);
    } catch (failed) {
      const words = `${error.message} ${place.url} could not be fetched to look for it there: ${messageOf(failed)}`;
      throw new ServiceError("squad_not_available", words);
    }
    return look();
  }
};

/** Fetches what never was. Resolves to why it could not be. */
export const fetchedOnce = async (
  repositories: Fetching & Pick<Repositories, "isFetched">,
  place: RepositoryPlace | undefined,
): Promise<string | undefined> => {
  if (place === undefined || repositories.isFetched(place)) return undefined;
  try {
    await fetch(repositories, place, listSeconds);
    return undefined;
  } catch (error) {
    return `${place.url} could not be fetched: ${messageOf(error)}`;
  }
};
