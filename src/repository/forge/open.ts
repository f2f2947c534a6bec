import { isPublic } from "../../outbound/address.ts";
import { createCall } from "./call.ts";
import type { ForgeKind } from "../repository.ts";
import type { Forge, ForgePlace } from "./forge.ts";

/** The forge of a repository; its client is loaded with the first one that needs it. */
export const openForge = async (
  kind: ForgeKind,
  place: ForgePlace,
  options: {
    /** The operator named the host: it may be inside. */
    vouched: boolean;
    resolve: ((host: string) => Promise<readonly string[]>) | undefined;
  },
): Promise<Forge> => {
  const call = createCall(place.api, {
    vouched: () => options.vouched,
    allowed: (address) => options.vouched || isPublic(address),
    ...(options.resolve === undefined ? {} : { resolve: options.resolve }),
  });
  switch (kind) {
    case "github":
      return (await import("./github.ts")).createGitHub(place, call);
    case "gitlab":
      return (await import("./gitlab.ts")).createGitLab(place, call);
    case "gitea":
      return (await import("./gitea.ts")).createGitea(place, call);
  }
};
