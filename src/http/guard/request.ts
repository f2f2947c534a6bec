import type { IncomingMessage } from "node:http";
import { ServiceError } from "../../error.ts";
import { quote } from "../../protocol/issue.ts";

/**
 * Refusals before any byte of a body is read, in this order: critical headers sent twice, Host, Origin and
 * Sec-Fetch-Site, the form of the target. Refusing a malformed request closes the connection, so that nothing smuggled
 * behind it is read as a second request.
 */

export type GuardPolicy = {
  /** Empty: local names only, or any Host when a password is set. */
  allowedHosts: readonly string[];
  allowedOrigins: readonly string[];
  password: boolean;
  /** Paths of HTML pages, which other sites may link to. */
  isPage(path: string): boolean;
};

/** `preflight`: answer 204 with these headers and stop. `cors`: headers for every answer to an allowed origin. */
export type Passed = { preflight: boolean; cors: Record<string, string> | undefined };

const close = { connection: "close" };

const malformed = (message: string): ServiceError => new ServiceError("invalid_request", message, { headers: close });

const once = [
  "host",
  "authorization",
  "content-length",
  "content-type",
  "transfer-encoding",
  "origin",
  "x-service-directory",
  "x-service-node",
  "idempotency-key",
  "last-event-id",
  "expect",
];
const bits = new Map(once.map((name, index) => [name, 1 << index]));

/** When one of these headers is sent twice, two programs along the way may each use a different one. */
export const refuseDuplicates = (rawHeaders: readonly string[]): void => {
  let seen = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] as string;
    const bit = bits.get(name) ?? bits.get(name.toLowerCase());
    if (bit === undefined) continue;
    if ((seen & bit) !== 0) throw malformed(`Expected the header ${name.toLowerCase()} at most once, got it twice.`);
    seen |= bit;
  }
};

const hostForm = /^(?:[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i;
const localHost = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?$/i;

const refuseHost = (host: string | undefined, policy: GuardPolicy): void => {
  if (host !== undefined && localHost.test(host)) return;
  if (host === undefined || !hostForm.test(host))
    throw malformed(`Expected a Host header of the form name:port, got ${host === undefined ? "none" : quote(host)}.`);
  if (policy.allowedHosts.length === 0 && policy.password) return;
  const lower = host.toLowerCase();
  const name = lower.replace(/:\d+$/, "");
  if (policy.allowedHosts.some((allowed) => allowed.toLowerCase() === lower || allowed.toLowerCase() === name)) return;
  throw new ServiceError(
    "host_not_allowed",
    `Expected the Host localhost, 127.0.0.1, [::1] or one of SERVICE_ALLOWED_HOSTS, got ${quote(host)}.`,
  );
};

const corsOf = (origin: string): Record<string, string> => ({
  "access-control-allow-origin": origin,
  "access-control-expose-headers": "content-disposition, etag, idempotent-replayed, link, retry-after, x-request-id",
  vary: "origin",
});

const preflightHeaders = {
  "access-control-allow-methods": "GET, HEAD, POST, PATCH, DELETE",
  "access-control-allow-headers":
    "authorization, content-type, idempotency-key, if-none-match, last-event-id, mcp-method, mcp-name, mcp-protocol-version, x-service-directory, x-service-node",
  "access-control-max-age": "600",
};

const notOurs = (got: string): ServiceError =>
  new ServiceError(
    "origin_not_allowed",
    `Expected a request of this service's own origin or one of SERVICE_ALLOWED_ORIGINS, got ${got}.`,
  );

const checkOrigin = (incoming: IncomingMessage, policy: GuardPolicy): Passed => {
  const { headers, method } = incoming;
  const { origin, host } = headers;
  if (origin !== undefined && policy.allowedOrigins.includes(origin)) {
    const cors = corsOf(origin);
    if (method !== "OPTIONS") return { preflight: false, cors };
    if (headers["access-control-request-method"] !== undefined)
      return { preflight: true, cors: { ...cors, ...preflightHeaders } };
  }
  if (method === "OPTIONS") throw notOurs(`OPTIONS from ${origin === undefined ? "no origin" : quote(origin)}`);
  if (origin !== undefined) {
    const lower = origin.toLowerCase();
    const own = host?.toLowerCase();
    if (lower !== `http://${own}` && lower !== `https://${own}`) throw notOurs(quote(origin));
  }
  const site = headers["sec-fetch-site"];
  if (site !== undefined && site !== "same-origin" && site !== "none" && !isNavigation(incoming, policy))
    throw notOurs(`Sec-Fetch-Site ${quote(site)}`);
  return open;
};

const open: Passed = { preflight: false, cors: undefined };

/** A link on another site may open a page, because that site cannot read the answer. */
const isNavigation = ({ method, url, headers }: IncomingMessage, policy: GuardPolicy): boolean =>
  (method === "GET" || method === "HEAD") &&
  headers["sec-fetch-mode"] === "navigate" &&
  headers["sec-fetch-dest"] === "document" &&
  policy.isPage(pathOf(url ?? ""));

export const pathOf = (target: string): string => {
  const end = target.indexOf("?");
  return end < 0 ? target : target.slice(0, end);
};

const plainPath = /^\/[A-Za-z0-9_\-/.~]*$/;
const targetForm = /^\/[!-"$-[\]-~]*$/;
const dotSegment = /\/\.{1,2}(?:\/|$)/;

const refuseTarget = ({ url = "", headers }: IncomingMessage): void => {
  if (headers.upgrade !== undefined) throw malformed("Expected a plain HTTP request, got one with Upgrade.");
  if (!targetForm.test(url))
    throw malformed(`Expected a target that starts with "/" and is printable ASCII, got ${quote(url)}.`);
  const path = pathOf(url);
  if (plainPath.test(path) && !path.includes("/.")) return;
  let decoded: string;
  try {
    decoded = decodeURIComponent(path);
  } catch {
    throw malformed(`Expected valid percent-encoding in the path, got ${quote(path)}.`);
  }
  if (/%2f|%5c|%00/i.test(path) || dotSegment.test(decoded))
    throw malformed(`Expected a path without encoded separators or dot segments, got ${quote(path)}.`);
};

/** Throws the refusal. The caller authenticates. */
export const guard = (incoming: IncomingMessage, policy: GuardPolicy): Passed => {
  refuseDuplicates(incoming.rawHeaders);
  refuseHost(incoming.headers.host, policy);
  const passed = checkOrigin(incoming, policy);
  refuseTarget(incoming);
  return passed;
};
