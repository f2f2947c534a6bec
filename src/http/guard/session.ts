import { createHmac, hash, randomBytes, scryptSync, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Auth } from "./auth.ts";
import type { EndedSessions } from "../../store/ended-session.ts";

/**
 * Log-ins of browsers. A session is a cookie with an expiry time, signed for one Host with a key derived from the user
 * name and password: it is not stored, and changing the password ends it. Sessions that were logged out are remembered
 * until they would have expired.
 */

export interface Sessions {
  /** Whether the request carries a valid session and comes from the service's own origin, as `isOwn` decides. */
  holds(incoming: IncomingMessage): boolean;
  /** The `set-cookie` headers of a new session. */
  begin(incoming: IncomingMessage): string[];
  /** Ends the request's session; returns the `set-cookie` headers that remove it. */
  end(incoming: IncomingMessage): string[];
}

const lastsMs = 12 * 60 * 60 * 1000;
/** How many cookies of the service's name are tried. */
const mostTried = 8;
/**
 * Lifetime of the second cookie, which holds no secret and tells the page that it is logged in. It expires a minute
 * before the session, so that the page asks in time.
 */
const markedSeconds = lastsMs / 1000 - 60;

export const createSessions = (
  { username, password }: Auth & { password: string },
  ended: EndedSessions,
  now: () => number,
): Sessions => {
  // Derived by a slow function, so that a stolen cookie cannot be used to guess the password; computed at the first
  // log-in.
  let made: Buffer | undefined;
  const key = (): Buffer => (made ??= scryptSync(password, `sortie session ${username}`, 32));

  const signed = (host: string, said: string): string =>
    createHmac("sha256", key()).update(`${host}\n${said}`).digest("base64url");

  const untilOf = (host: string, token: string): number | undefined => {
    const [until = "", nonce = "", signature = "", ...more] = token.split(".");
    if (more.length > 0 || !/^\d{1,15}$/.test(until) || Number(until) <= now()) return undefined;
    const expected = hash("sha256", signed(host, `${until}.${nonce}`), "buffer");
    return timingSafeEqual(expected, hash("sha256", signature, "buffer")) ? Number(until) : undefined;
  };

  const held = (incoming: IncomingMessage): { token: string; until: number } | undefined => {
    const host = hostOf(incoming);
    for (const token of cookiesOf(incoming, nameOf(host)).slice(0, mostTried)) {
      const until = untilOf(host, token);
      if (until !== undefined && !ended.has(token)) return { token, until };
    }
    return undefined;
  };

  return {
    holds: (incoming) => isOwn(incoming) && held(incoming) !== undefined,
    begin(incoming) {
      const host = hostOf(incoming);
      const said = `${now() + lastsMs}.${randomBytes(16).toString("base64url")}`;
      return cookies(incoming, `${said}.${signed(host, said)}`, lastsMs / 1000, markedSeconds);
    },
    end(incoming) {
      const session = held(incoming);
      if (session !== undefined) ended.add(session.token, session.until);
      return cookies(incoming, "", 0, 0);
    },
  };
};

const hostOf = ({ headers }: IncomingMessage): string => (headers.host ?? "").toLowerCase();

/** Browsers share cookies between all ports of a host, so each service's cookie has the port in its name. */
const nameOf = (host: string): string => `sortie${/:(\d+)$/.exec(host)?.[1] ?? ""}`;

/** All cookies of that name: another port of the host can set one for a longer path, which browsers send first. */
const cookiesOf = ({ headers }: IncomingMessage, name: string): string[] =>
  (headers.cookie ?? "")
    .split(";")
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1));

const cookies = (incoming: IncomingMessage, value: string, seconds: number, marked: number): string[] => {
  const name = nameOf(hostOf(incoming));
  // Behind a proxy only the browser knows that the connection is encrypted.
  const secure = incoming.headers.origin?.toLowerCase().startsWith("https:") === true ? "; Secure" : "";
  const common = `Path=/; SameSite=Strict${secure}`;
  return [
    `${name}=${value}; Max-Age=${seconds}; HttpOnly; ${common}`,
    `${name}-in=${value === "" ? "" : "1"}; Max-Age=${marked}; ${common}`,
  ];
};

/**
 * Whether the service's own page sent the request, according to the browser's headers. To a browser, other ports of the
 * host are the same site, so SameSite alone does not suffice; a request that changes something needs a header that
 * names its origin.
 */
const isOwn = ({ method, headers }: IncomingMessage): boolean => {
  const { origin, host = "", "sec-fetch-site": site } = headers;
  const own = origin !== undefined && [`http://${host}`, `https://${host}`].includes(origin.toLowerCase());
  if (origin !== undefined && !own) return false;
  if (site !== undefined && site !== "same-origin" && site !== "none") return false;
  return method === "GET" || method === "HEAD" || own || site === "same-origin";
};
