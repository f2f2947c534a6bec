import { BlockList, isIP, type Socket } from "node:net";

/**
 * Decides which addresses chosen by others may be reached (security.md C9). A name is resolved once, every one of its
 * addresses is judged, and the connection goes to a judged address: there is no second lookup that could answer
 * differently.
 */

/** The address may not be reached; the message tells the caller why. */
export class OutboundRefused extends Error {}

export type OutboundOptions = {
  /** Allows plain http. */
  http?: boolean;
  /**
   * Hosts that the operator vouches for: plain http, any port and internal names are allowed. Their addresses are still
   * judged.
   */
  vouched?: (url: URL) => boolean;
  /** Resolves a name to all its addresses. */
  resolve?: (host: string) => Promise<readonly string[]>;
  /** Which addresses may be connected to; public ones by default. */
  allowed?: (address: string) => boolean;
  dial?: (address: string, port: number) => Socket;
  /** Certificates to trust in addition to the system's, as PEM. */
  ca?: string;
  maxBytes?: number;
  timeoutMs?: number;
  /** The permission rule that forbids a URL, if any. Asked for the first address and for each redirect. */
  against?: (url: URL) => string | undefined;
};

const refused = new BlockList();

for (const [net, bits] of [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 3],
] as const)
  refused.addSubnet(net, bits, "ipv4");

/** IPv6: only global unicast, minus the ranges that embed an IPv4 address or are reserved for documentation. */
const global6 = new BlockList();

global6.addSubnet("2000::", 3, "ipv6");

for (const [net, bits] of [
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
] as const)
  refused.addSubnet(net, bits, "ipv6");

/** Whether an address belongs to the public internet. */
export const isPublic = (address: string): boolean => {
  switch (isIP(address)) {
    case 4:
      return !refused.check(address, "ipv4");
    case 6:
      return !address.includes("%") && global6.check(address, "ipv6") && !refused.check(address, "ipv6");
    default:
      return false;
  }
};

/** Names that mean something only inside: on this machine, in a local network, or for a cloud's metadata service. */
const insideName =
  /^(?:metadata|instance-data)(?:\.|$)|(?:^|\.)(?:localhost|local|internal|intranet|lan|corp|home|home\.arpa)$/;

/** Parses the URL and checks that it may be requested at all, before its name is resolved. Throws `OutboundRefused`. */
export const checkURL = (text: string, options: OutboundOptions): URL => {
  const url = URL.parse(text);
  const refuse = (expected: string, got: string) => {
    throw new OutboundRefused(`Expected ${expected}, got ${got}`);
  };
  if (url === null) return refuse("an absolute URL", JSON.stringify(text.slice(0, 200)));
  const vouched = /^https?:$/.test(url.protocol) && options.vouched?.(url) === true;
  const http = vouched || options.http === true;
  if (url.protocol !== "https:" && !(http && url.protocol === "http:"))
    refuse(http ? "https or http" : "https", JSON.stringify(url.protocol.slice(0, 20)));
  if (url.username !== "" || url.password !== "") refuse("a URL without a user and password", "one with");
  if (vouched) return url;
  if (!["", "443", "80"].includes(url.port)) refuse("port 443 or 80", url.port);
  const host = hostOf(url);
  if (isIP(host) === 0 && (!host.includes(".") || insideName.test(host))) refuse("a public host", JSON.stringify(host));
  return url;
};

export const hostOf = (url: URL): string => {
  let host = url.hostname.replace(/^\[|\]$/g, "");
  while (host.endsWith(".")) host = host.slice(0, -1);
  return host;
};
