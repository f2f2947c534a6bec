import { type Call, createCall, type CallOptions } from "./call.ts";
import { ForgeRefused, type ForgeKind } from "../repository.ts";
import type { Forge, ForgePlace } from "./forge.ts";

/** The forge of a repository; its client is loaded with the first one that needs it. */
export const openForge = async (
  kind: ForgeKind,
  place: ForgePlace,
  options: CallOptions & {
    /** Resolves to another token if this one was refused, and undefined if there is none. */
    renew: (signal: AbortSignal) => Promise<string | undefined>;
  },
): Promise<Forge> => {
  const call = createCall(place.api, options);
  switch (kind) {
    case "github":
      return (await import("./github.ts")).createGitHub(place, renewing(call, options.renew));
    case "gitlab":
      return (await import("./gitlab.ts")).createGitLab(place, call);
    case "gitea":
      return (await import("./gitea.ts")).createGitea(place, call);
  }
};

/**
 * Repeats a call with a new token, since a token of an app may be revoked before it expires. A request that was refused
 * for its token was not carried out.
 */
const renewing =
  (call: Call, renew: (signal: AbortSignal) => Promise<string | undefined>): Call =>
  async (request, signal) => {
    try {
      return await call(request, signal);
    } catch (error) {
      if (!(error instanceof ForgeRefused) || error.status !== 401) throw error;
      const token = await renew(signal);
      if (token === undefined) throw error;
      return call({ ...request, headers: { ...request.headers, authorization: `Bearer ${token}` } }, signal);
    }
  };
