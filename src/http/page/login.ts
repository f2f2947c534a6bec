import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { ServiceError } from "../../error.ts";
import { pathOf } from "../guard/request.ts";
import type { Logins } from "../guard/rate-limit.ts";
import type { Sessions } from "../guard/session.ts";
import { answer, empty, type HttpAnswer, type RequestContext } from "../response/response.ts";
import { isScreen } from "./page.ts";

/** The log-in form that a browser gets instead of a page while it is not logged in, and the requests it sends. */

export const loginPath = "/login";
export const logoutPath = "/logout";

const style = `:root{color-scheme:light dark;font:15px/1.5 ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",Arial,sans-serif}
body{margin:0;min-height:100vh;display:grid;place-items:center;background:light-dark(#faf9f7,#101114);color:light-dark(#1c2028,#f0f1f4)}
form{box-sizing:border-box;width:min(360px,calc(100vw - 32px));padding:28px;border-radius:16px;border:1px solid light-dark(#e5e3df,#2c2f36);background:light-dark(#fff,#191b20)}
h1{margin:0 0 20px;font-size:20px;display:flex;gap:10px;align-items:center}
label{display:block;margin:14px 0 4px;font-size:13px;color:light-dark(#50555f,#b6bac4)}
input{box-sizing:border-box;width:100%;padding:8px 10px;font:inherit;border-radius:8px;border:1px solid light-dark(#8a8f99,#6a6f7a);background:transparent;color:inherit}
button{margin-top:20px;width:100%;padding:9px;font:inherit;font-weight:600;border:0;border-radius:8px;background:light-dark(#1c2028,#f0f1f4);color:light-dark(#fff,#16181c);cursor:pointer}
p{margin:0 0 4px;color:light-dark(#b3261e,#ffb4ab)}
:focus-visible{outline:2px solid light-dark(#3b4fd0,#9fb0ff);outline-offset:2px}`;

const policy = [
  "default-src 'none'",
  `style-src 'sha256-${createHash("sha256").update(style).digest("base64")}'`,
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join("; ");

const headers = {
  "content-security-policy": policy,
  "cross-origin-opener-policy": "same-origin",
  "x-frame-options": "DENY",
  // Without it the browser would send the form with `Origin: null`, and the guard would refuse it.
  "referrer-policy": "same-origin",
};

const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

const documentOf = (to: string, trouble: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log in · Sortie</title>
<style>${style}</style>
</head>
<body>
<main>
<form method="post" action="${loginPath}">
<h1><svg viewBox="0 0 20 20" width="22" height="22" aria-hidden="true" fill="currentColor"><path d="M10 1.5 17.5 18 10 14.2 2.5 18Z"/></svg>Log in to Sortie</h1>
${trouble === "" ? "" : `<p role="alert">${escaped(trouble)}</p>`}
<label for="username">Name</label>
<input id="username" name="username" autocomplete="username" required value="service">
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" required autofocus>
<input type="hidden" name="to" value="${escaped(to)}">
<button>Log in</button>
</form>
</main>
</body>
</html>
`;

/** A scheme that browsers do not know, so that they show no password prompt of their own. */
const challenge = { "www-authenticate": 'Form realm="service"' };

export const loginForm = (entry: RequestContext, to: string, trouble = "", status = 401): HttpAnswer =>
  answer(entry, status, documentOf(to, trouble), "text/html; charset=utf-8", { ...headers, ...challenge });

/** Whether a person waits for a page: browsers say so in Sec-Fetch-Mode, older ones only accept text/html. */
export const opensPage = ({ method, headers: given }: IncomingMessage): boolean => {
  if (method !== "GET" && method !== "HEAD") return false;
  const mode = given["sec-fetch-mode"];
  return mode === undefined ? /\btext\/html\b/.test(given.accept ?? "") : mode === "navigate";
};

const mostBytes = 8192;

const readForm = async (incoming: IncomingMessage): Promise<URLSearchParams> => {
  if (!/^application\/x-www-form-urlencoded\b/i.test(incoming.headers["content-type"] ?? ""))
    throw new ServiceError("unsupported_media_type", "Expected the log-in form, got a body of another type.");
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of incoming as AsyncIterable<Buffer>) {
    bytes += piece.length;
    if (bytes > mostBytes)
      throw new ServiceError("body_too_large", `Expected at most ${mostBytes} bytes of a log-in form, got more.`);
    pieces.push(piece);
  }
  return new URLSearchParams(Buffer.concat(pieces).toString("utf8"));
};

/** The path to redirect to after the log-in: a screen of the page, or `/` for anything else. */
const placeOf = (to: string | null): string =>
  to !== null && /^\/(?![/\\])[\x21-\x7e]*$/.test(to) && isScreen(pathOf(to)) ? to : "/";

/** `POST /login`: exchanges the user name and password of the form for a session cookie. */
export const logIn = async (
  entry: RequestContext,
  incoming: IncomingMessage,
  { sessions, logins, isRight }: { sessions: Sessions; logins: Logins; isRight: (header: string) => boolean },
): Promise<HttpAnswer> => {
  const form = await readForm(incoming);
  const to = placeOf(form.get("to"));
  try {
    logins.attempt(entry.address, incoming.socket);
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    return loginForm(entry, to, "Too many failed log-ins. Try again in a minute.", 429);
  }
  const given = `${form.get("username") ?? ""}:${form.get("password") ?? ""}`;
  if (!isRight(`Basic ${Buffer.from(given).toString("base64")}`)) {
    logins.failed(entry.address, incoming.socket);
    return loginForm(entry, to, "Wrong name or password.");
  }
  logins.succeeded(incoming.socket);
  return empty(entry, 303, { location: to }, sessions.begin(incoming));
};

export const logOut = (entry: RequestContext, incoming: IncomingMessage, sessions: Sessions): HttpAnswer =>
  empty(entry, 204, {}, sessions.end(incoming));
