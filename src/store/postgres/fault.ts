import { setTimeout as pause } from "node:timers/promises";
import { DatabaseError } from "pg";
import { OutcomeUnknown } from "../unavailable.ts";

/** Which errors of PostgreSQL pass by themselves, and how an operation that met one is tried again. */

/**
 * The server ends the session with these errors: it is being stopped, or the session was idle in a transaction for too
 * long.
 */
const ends = /^(?:57P0[1-5]|25P0[34]|08)/;

/**
 * Other passing errors: serialization failure and deadlock, too many connections and other shortages (except of disk
 * space, which `disk/full.ts` knows), a lock that was not free in time, a statement that took too long, a server that
 * accepts no writes because another one is about to take over.
 */
const passing = /^(?:40001|40P01|53[02-9]|55P03|57014|25006)/;

const ofSystem = new Set<unknown>([
  "ECONNREFUSED",
  "ECONNRESET",
  "ECONNABORTED",
  "EPIPE",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENETDOWN",
  "ENOTFOUND",
  "EAI_AGAIN",
  "ENOENT",
  "EMFILE",
  "ENFILE",
]);

/** The driver's messages about a connection that it lost or could not open. */
const ofDriver =
  /^(?:Connection terminated|timeout exceeded when trying to connect|timeout expired|Query read timeout|Client has encountered a connection error|Client was closed and is not queryable|Postgres connection has been discarded)/;

/** The one connection of its kind is lost, and is being opened again. */
export class NotConnected extends Error {}

export const endsSession = (error: DatabaseError): boolean => ends.test(error.code ?? "");

/** Another transaction came first: serialization failure, deadlock, or a row that was just inserted. */
export const isClash = (error: unknown): boolean =>
  error instanceof DatabaseError && ["40001", "40P01", "23505"].includes(error.code ?? "");

/** Whether an error, or one of its causes, may be gone on the next try. */
export const isPassing = (error: unknown): boolean => {
  for (let cause = error, depth = 0; cause instanceof Error && depth < 8; cause = cause.cause, depth += 1) {
    // Its outcome is unknown: a second try might do it twice.
    if (cause instanceof OutcomeUnknown) return false;
    if (cause instanceof NotConnected) return true;
    if (cause instanceof DatabaseError) return endsSession(cause) || passing.test(cause.code ?? "");
    if (("code" in cause && ofSystem.has(cause.code)) || ofDriver.test(cause.message)) return true;
  }
  return false;
};

/** Waits before the next try: 50 ms at first, at most a second, up to half of it random. Never rejects. */
export const pauseAfter = (tries: number, signal: AbortSignal): Promise<void> =>
  pause(Math.min(1000, 50 * 2 ** tries) * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => {});

/** How long an HTTP request waits for a database that cannot be reached, in milliseconds. */
export const requestMs = 10_000;

/** Tries until it works, fails for good, `requestMs` have passed, or the signal aborts. */
export const retry = async <T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> => {
  const until = performance.now() + requestMs;
  for (let tries = 0; ; tries += 1) {
    try {
      return await work();
    } catch (error) {
      if (!isPassing(error) || performance.now() > until || signal.aborted) throw error;
      await pauseAfter(tries, signal);
    }
  }
};

/** The same operations, each tried again. Only for operations that may be done twice with the same result. */
export const retryingEach = <Port extends object>(port: Port, signal: AbortSignal): Port =>
  Object.fromEntries(
    (Object.entries(port) as [string, (...given: unknown[]) => Promise<unknown>][]).map(([name, operation]) => [
      name,
      (...given: unknown[]) => retry(() => operation(...given), signal),
    ]),
  ) as Port;
