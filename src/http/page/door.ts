import type { IncomingMessage } from "node:http";
import { type Auth, createAuth, isGuess, unauthorized } from "../guard/auth.ts";
import type { Logins } from "../guard/rate-limit.ts";
import { pathOf } from "../guard/request.ts";
import { createEndedSessions } from "../../store/ended-session.ts";
import type { Nodes } from "../../store/node.ts";
import { createSessions } from "../guard/session.ts";
import type { HttpAnswer, RequestContext } from "../response/response.ts";
import { logIn, loginForm, loginPath, logOut, logoutPath, opensPage } from "./login.ts";

/** What answers a request that does not come in. */
export type Stopped = () => HttpAnswer | Promise<HttpAnswer>;

type Door = (incoming: IncomingMessage, entry: RequestContext) => Stopped | undefined;

/**
 * Who comes in where there is a password: with Basic credentials, or with the session of a browser that logged in. A
 * person who opens a page gets the form; everything else is refused. undefined: no password is set.
 */
export const createDoor = ({
  auth,
  logins,
  now,
  endedSessions,
  nodes,
  isPage,
}: {
  auth: Auth;
  logins: Logins;
  now: () => number;
  /** Where log-outs are kept; undefined: in memory. */
  endedSessions: string | undefined;
  nodes: Nodes | undefined;
  isPage: (path: string) => boolean;
}): Door | undefined => {
  const isRight = createAuth(auth);
  const { password } = auth;
  if (isRight === undefined || password === undefined) return undefined;
  const sessions = createSessions({ ...auth, password }, createEndedSessions(endedSessions, now, nodes), now);
  return (incoming, entry) => {
    const path = pathOf(incoming.url ?? "");
    if (incoming.method === "POST" && path === loginPath)
      return () => logIn(entry, incoming, { sessions, logins, isRight });
    const header = incoming.headers.authorization;
    if (header === undefined && sessions.holds(incoming))
      return incoming.method === "POST" && path === logoutPath ? () => logOut(entry, incoming, sessions) : undefined;
    if (header === undefined && isPage(path) && opensPage(incoming)) return () => loginForm(entry, incoming.url ?? "/");
    // What carries no guess is answered, and not counted.
    if (!isGuess(header)) throw unauthorized(header);
    logins.attempt(entry.address, incoming.socket);
    if (!isRight(header)) {
      logins.failed(entry.address, incoming.socket);
      throw unauthorized(header);
    }
    logins.succeeded(incoming.socket);
    return undefined;
  };
};
