import type { client } from "../api.ts";
import { clock } from "../format.ts";

type Models = NonNullable<Awaited<ReturnType<typeof client.service.models>>["data"]>;

/** Why a provider is not called now, since when and until when; undefined: it is called. */
export const pausedWords = (breaker: Models["providers"][number]["breaker"]): string | undefined => {
  const { state, failures, since, retryAt } = breaker;
  if (state === "closed") return undefined;
  const begun = since === null ? "" : `, since ${clock(since)}`;
  const next = state === "half-open" ? ", next try now" : retryAt === null ? "" : `, next try at ${clock(retryAt)}`;
  return `Paused after ${failures === 1 ? "a failure" : `${failures} failures in a row`}${begun}${next}`;
};
