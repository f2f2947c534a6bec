import { BlockList, isIP } from "node:net";
import { checkURL, hostOf, isPublic, type OutboundOptions, OutboundRefused } from "../outbound/address.ts";

/**
 * Where webhooks may be sent: https on the public internet, and what the operator lists. A listed host is allowed with
 * whatever address it has; a listed network allows the addresses in it.
 */

export type AllowedTargets = { hosts: readonly { host: string; port: string | undefined }[]; networks: BlockList };

/** Parses the operator's list; a string says which entry is wrong, and why. */
export const parseAllowed = (entries: readonly string[]): AllowedTargets | string => {
  const networks = new BlockList();
  const hosts: { host: string; port: string | undefined }[] = [];
  for (const entry of entries) {
    const [, net = "", bits = ""] = /^([0-9a-fA-F.:]+)\/(\d{1,3})$/.exec(entry) ?? [];
    const family = isIP(net);
    if (family > 0) {
      if (Number(bits) > (family === 4 ? 32 : 128)) return wrong(entry);
      networks.addSubnet(net, Number(bits), family === 4 ? "ipv4" : "ipv6");
      continue;
    }
    const url = /[/@?#\s]/.test(entry) ? null : URL.parse(`http://${isIP(entry) === 6 ? `[${entry}]` : entry}`);
    if (url === null || url.hostname === "") return wrong(entry);
    // The URL parser drops a scheme's default port, so take it from the text.
    const port = /:(\d+)$/.exec(isIP(entry) === 6 ? "" : entry)?.[1];
    hosts.push({ host: hostOf(url), port });
  }
  return { hosts, networks };
};

const wrong = (entry: string): string =>
  `expected a host, host:port, an address or a network such as 10.0.0.0/8, got ${JSON.stringify(entry)}`;

const isIn = (networks: BlockList, address: string): boolean => {
  const family = isIP(address);
  return family > 0 && networks.check(address, family === 4 ? "ipv4" : "ipv6");
};

export type TargetOptions = Pick<OutboundOptions, "resolve" | "dial" | "ca" | "timeoutMs">;

/** Options for a request to a target. `way`: replaces the network in tests. */
export const optionsFor = (
  text: string,
  { hosts, networks }: AllowedTargets,
  way: TargetOptions = {},
): OutboundOptions => {
  const isListed = (url: URL): boolean => {
    const port = url.port === "" ? (url.protocol === "https:" ? "443" : "80") : url.port;
    return hosts.some((one) => one.host === hostOf(url) && (one.port === undefined || one.port === port));
  };
  const target = URL.parse(text);
  const listed = target !== null && isListed(target);
  return {
    timeoutMs: 15_000,
    ...way,
    maxBytes: 1024,
    vouched: (url) => isListed(url) || isIn(networks, hostOf(url)),
    allowed: (address) => listed || isPublic(address) || isIn(networks, address),
  };
};

/** The normalized URL, or why it is refused. Only checks what needs no network. */
export const checkTarget = (text: string, allowed: AllowedTargets): URL | string => {
  try {
    const options = optionsFor(text, allowed);
    const url = checkURL(text, options);
    if (url.hash !== "") return "Expected a URL without a fragment, got one";
    const host = hostOf(url);
    if (isIP(host) > 0 && options.allowed?.(host) === false) return `Expected a public address, got ${host}`;
    return url;
  } catch (error) {
    if (error instanceof OutboundRefused) return error.message;
    throw error;
  }
};

/** The URL without its query, which may hold a secret. */
export const shownURL = (text: string): string => {
  const url = new URL(text);
  return `${url.origin}${url.pathname}`;
};
