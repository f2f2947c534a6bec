import { loadOnce } from "../../async/load-once.ts";
import type { Peers } from "../../http/peer/forward.ts";
import type { Log } from "../../log.ts";
import type { Data } from "../../store/open.ts";

/** How this node reaches the others; undefined: it shares its database with none. */
export const peersOf = ({ member }: Pick<Data, "member">, log: Log): Peers | undefined => {
  if (member === undefined) return undefined;
  const { name } = member;
  return {
    name,
    async addressOf(node) {
      if (node === name) return undefined;
      const found = (await member.nodes()).find((one) => one.name === node);
      const isThere = found?.state === "up" || found?.state === "draining";
      return isThere ? (found?.url ?? undefined) : undefined;
    },
    key: loadOnce(() => member.key()),
    now: member.now,
    log,
  };
};
