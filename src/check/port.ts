import { createKeyedMutex } from "../mutex.ts";
import { shellQuote } from "../shell-quote.ts";

/** Where a check's server listens: nobody else may answer there in its place. */

/** Where servers share this machine's network, those on one port run one after another. */
export const ports = createKeyedMutex();

export const portOf = (url: URL): string => (url.port === "" ? "80" : url.port);
const hostOf = (url: URL): string => url.hostname.replace(/^\[(.*)\]$/, "$1");

/** Bash that opens a connection as descriptor 3. */
export const connectTo = (url: URL): string =>
  `{ exec 3<>${shellQuote(`/dev/tcp/${hostOf(url)}/${portOf(url)}`)}; } 2>/dev/null`;

export const taken = "already answers, before the server was started";

/** What helps when somebody does. */
export const takenBy = (url: URL): string =>
  `${url.host} ${taken}. End what runs there, or give the check another port`;
