import { messageOf, ServiceError } from "../error.ts";
import type { Repositories, RepositoryPlace } from "./repository.ts";

/**
 * Looks for something among the files of a repository, which this node may never have fetched, or which may be older
 * than what is looked for.
 */

type Fetching = Pick<Repositories, "fetch" | "patienceSeconds">;

const fetch = (repositories: Fetching, place: RepositoryPlace, most = Number.POSITIVE_INFINITY) =>
  repositories.fetch(place, AbortSignal.timeout(Math.min(repositories.patienceSeconds, most) * 1000));

/** The longest wait for a fetch of a caller that only lists what there is. */
const listSeconds = 20;

/** Calls `look` again after a fetch if it found no such squad. `place` undefined: there is no repository to fetch. */
export const retryAfterFetch = async <T>(
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

/** Fetches a repository that was never fetched. Resolves to the reason if that failed, else to undefined. */
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
