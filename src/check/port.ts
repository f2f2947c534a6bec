import { createKeyedMutex } from "../mutex.ts";
import { shellQuote } from "../shell-quote.ts";

/** Where a check's server listens: nobody else may answer there in its place. */

/** Where servers share this machine's network, those on one port run one after another. */
export const portLock = createKeyedMutex();

export const portOf = (url: URL): string => (url.port === "" ? "80" : url.port);
const hostOf = (url: URL): string => url.hostname.replace(/^\[(.*)\]$/, "$1");

/** Bash that opens a connection as descriptor 3. */
export const connectCommand = (url: URL): string =>
  `{ exec 3<>${shellQuote(`/dev/tcp/${hostOf(url)}/${portOf(url)}`)}; } 2>/dev/null`;

export const portTaken = "already answers, before the server was started";

/** What helps when somebody does. */
export const portTakenRemedy = (url: URL): string =>
  `${url.host} ${portTaken}. End what runs there, or give the check another port`;
