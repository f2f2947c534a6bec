import { createKeyedMutex } from "../async/mutex.ts";
import { shellQuote } from "../shell-quote.ts";

/** The port of a check's server, and how to make sure that no other process answers on it. */

/** Serializes servers on one port where commands share this machine's network. */
export const portLock = createKeyedMutex();

export const portOf = (url: URL): string => (url.port === "" ? "80" : url.port);
const hostOf = (url: URL): string => url.hostname.replace(/^\[(.*)\]$/, "$1");

/** A bash command that opens a connection as descriptor 3. */
export const connectCommand = (url: URL): string =>
  `{ exec 3<>${shellQuote(`/dev/tcp/${hostOf(url)}/${portOf(url)}`)}; } 2>/dev/null`;

export const portTaken = "already answers before the server is started";

/** The error for a port that is in use, with its remedy. */
export const portTakenRemedy = (url: URL): string =>
  `${url.host} ${portTaken}. Stop what is running there, or give the check another port`;
