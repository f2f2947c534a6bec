import { isIP } from "node:net";
import { isPublic } from "../../outbound/address.ts";

/**
 * The network access of commands: none (false), everything (true), or the hosts of a list, as `host`, `*.host`,
 * `host:port` or `[address]:port`.
 */
export type Network = boolean | readonly string[];

type Entry = { host: string; below: boolean; port: number | undefined };

const parsed = (text: string): Entry => {
  const found = /^(\*\.)?(\[[^\]]+\]|[^:]+)(?::(\d+))?$/.exec(text);
  const host = (found?.[2] ?? text).toLowerCase().replace(/^\[|\]$/g, "");
  return { host, below: found?.[1] !== undefined, port: found?.[3] === undefined ? undefined : Number(found[3]) };
};

/**
 * Judges whether a list names a host and port. Returns which of its addresses may be connected to; undefined: not
 * named.
 */
export type AllowListMatcher = (host: string, port: number) => ((address: string) => boolean) | undefined;

/**
 * An entry without a port covers ports 80 and 443 of public addresses. Internal addresses (this machine, its network)
 * are reachable only if the operator named the port, or the address itself: someone else's host name could resolve to
 * anything.
 */
export const allowListOf = (list: readonly string[]): AllowListMatcher => {
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
