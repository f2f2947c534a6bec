import { isIP } from "node:net";
import { isPublic } from "../../outbound/address.ts";

/**
 * What commands may reach: nothing (false), everything (true), or the hosts of a list, as `host`, `*.host`, `host:port`
 * or `[address]:port`.
 */
export type Network = boolean | readonly string[];

type Entry = { host: string; below: boolean; port: number | undefined };

const parsed = (text: string): Entry => {
  const found = /^(\*\.)?(\[[^\]]+\]|[^:]+)(?::(\d+))?$/.exec(text);
  const host = (found?.[2] ?? text).toLowerCase().replace(/^\[|\]$/g, "");
  return { host, below: found?.[1] !== undefined, port: found?.[3] === undefined ? undefined : Number(found[3]) };
};

/** Whether a host and port are named; if so, which of its addresses may be connected to. undefined: not named. */
export type Judge = (host: string, port: number) => ((address: string) => boolean) | undefined;

/**
 * An entry without a port is for 80 and 443 of public addresses. What is inside (this machine, its network) is reached
 * only where the operator has named its port, or the address itself: a name of somebody else's could lead anywhere.
 */
export const judgeOf = (list: readonly string[]): Judge => {
  const entries = list.map(parsed);
  return (given, port) => {
    const host = given.toLowerCase().replace(/\.$/, "");
    const found = entries.filter(
      (entry) =>
        (entry.port === undefined ? port === 80 || port === 443 : entry.port === port) &&
        (entry.below ? host.endsWith(`.${entry.host}`) : host === entry.host),
    );
    if (found.length === 0) return undefined;
    const inside = found.some((entry) => !entry.below && (entry.port !== undefined || isIP(entry.host) !== 0));
    return (address) => inside || isPublic(address);
  };
};
