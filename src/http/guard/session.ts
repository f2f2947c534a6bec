import { createHmac, hash, scryptSync, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Auth } from "./auth.ts";

/**
 * Log-ins of browsers. A session is a cookie that says when it ends, signed for one Host with a key that is made of the
 * name and password: nothing is stored, and another password ends it. What was logged out is remembered until it ends.
 */

export interface Sessions {
  /** Whether the request carries a session of this service, and may: no other origin than its own can use it. */
  holds(incoming: IncomingMessage): boolean;
  /** The `set-cookie` headers of a new session. */
  begin(incoming: IncomingMessage): string[];
  /** Ends the request's session; the `set-cookie` headers that remove it. */
  end(incoming: IncomingMessage): string[];
}

const lastsMs = 12 * 60 * 60 * 1000;
/** The page's own mark, without any secret: gone a little before the session, so that the page asks in time. */
const markedSeconds = lastsMs / 1000 - 60;
const mostEnded = 10_000;

export const createSessions = ({ username, password }: Auth & { password: string }, now: () => number): Sessions => {
  // Slow, so that who has a cookie cannot try passwords against it; made at the first log-in.
  let made: Buffer | undefined;
  const key = (): Buffer => (made ??= scryptSync(password, `sortie session ${username}`, 32));
  const ended = new Map<string, number>();

  const signed = (host: string, until: string): string =>
    createHmac("sha256", key()).update(`${host}\n${until}`).digest("base64url");

  const untilOf = (host: string, token: string): number | undefined => {
    const [until = "", signature = "", ...more] = token.split(".");
    if (more.length > 0 || !/^\d{1,15}$/.test(until) || Number(until) <= now()) return undefined;
    const expected = hash("sha256", signed(host, until), "buffer");
    return timingSafeEqual(expected, hash("sha256", signature, "buffer")) ? Number(until) : undefined;
  };

  const held = (incoming: IncomingMessage): { token: string; until: number } | undefined => {
    const host = hostOf(incoming);
    const token = cookieOf(incoming, nameOf(host));
    if (token === undefined || ended.has(token)) return undefined;
    const until = untilOf(host, token);
    return until === undefined ? undefined : { token, until };
  };

  return {
    holds: (incoming) => isOwn(incoming) && held(incoming) !== undefined,
    begin(incoming) {
      const host = hostOf(incoming);
      const until = String(now() + lastsMs);
      return cookies(incoming, `${until}.${signed(host, until)}`, lastsMs / 1000, markedSeconds);
    },
    end(incoming) {
      const session = held(incoming);
      for (const [token, until] of ended) if (until <= now() || ended.size > mostEnded) ended.delete(token);
      if (session !== undefined) ended.set(session.token, session.until);
      return cookies(incoming, "", 0, 0);
    },
  };
};

const hostOf = ({ headers }: IncomingMessage): string => (headers.host ?? "").toLowerCase();

/** Cookies are shared by all ports of a host: each service has a name of its own. */
const nameOf = (host: string): string => `sortie${/:(\d+)$/.exec(host)?.[1] ?? ""}`;

const cookieOf = ({ headers }: IncomingMessage, name: string): string | undefined =>
  (headers.cookie ?? "")
    .split(";")
    .map((pair) => pair.trim())
    .find((pair) => pair.startsWith(`${name}=`))
    ?.slice(name.length + 1);

const cookies = (incoming: IncomingMessage, value: string, seconds: number, marked: number): string[] => {
  const name = nameOf(hostOf(incoming));
  // Behind a proxy only the browser knows that the way is encrypted.
  const secure = incoming.headers.origin?.toLowerCase().startsWith("https:") === true ? "; Secure" : "";
  const common = `Path=/; SameSite=Strict${secure}`;
  return [
    `${name}=${value}; Max-Age=${seconds}; HttpOnly; ${common}`,
    `${name}-in=${value === "" ? "" : "1"}; Max-Age=${marked}; ${common}`,
  ];
};

/**
 * The service's own page sent it, as the browser says. Other ports of the host are the same site to a browser, so SameSite
 * alone does not tell; what changes something has to say where it comes from.
 */
const isOwn = ({ method, headers }: IncomingMessage): boolean => {
  const { origin, host = "", "sec-fetch-site": site } = headers;
  const own = origin !== undefined && [`http://${host}`, `https://${host}`].includes(origin.toLowerCase());
  if (origin !== undefined && !own) return false;
  if (site !== undefined && site !== "same-origin" && site !== "none") return false;
  return method === "GET" || method === "HEAD" || own || site === "same-origin";
};
