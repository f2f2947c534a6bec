import type { IncomingMessage } from "node:http";
import { type Auth, createAuth, isGuess, unauthorized } from "../guard/auth.ts";
import type { Logins } from "../guard/rate-limit.ts";
import { pathOf } from "../guard/request.ts";
import { createEndedSessions } from "../../store/ended-session.ts";
import type { Nodes } from "../../store/node.ts";
import { createSessions } from "../guard/session.ts";
import type { HttpAnswer, RequestContext } from "../response/response.ts";
import { logIn, loginForm, loginPath, logOut, logoutPath, opensPage } from "./login.ts";

/** Answers a request that is not let in. */
export type Stopped = () => HttpAnswer | Promise<HttpAnswer>;

type Door = (incoming: IncomingMessage, entry: RequestContext) => Stopped | undefined;

/**
 * Where a password is set, lets in requests with Basic credentials or with the session of a browser that logged in. A
 * person who opens a page gets the log-in form; every other request is refused. undefined: no password is set.
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
  /** The file that keeps ended sessions; undefined: they are kept in memory. */
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
    // A request without a guess at the password is answered 401 and does not count as a failed log-in.
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
