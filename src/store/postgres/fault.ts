import { setTimeout as pause } from "node:timers/promises";
import { DatabaseError } from "pg";
import { OutcomeUnknown } from "../unavailable.ts";

/** Which errors of PostgreSQL pass by themselves, and how what met one is tried again. */

/**
 * The server ends the session with this error: it is stopped, or the session was idle in a transaction for too long.
 */
const ends = /^(?:57P0[1-5]|25P0[34]|08)/;

/**
 * Besides those: serialization failure and deadlock, too many connections and other shortages (not that of disk space,
 * which `disk/full.ts` knows), a lock that was not free in time, a statement that took too long, a server that takes no
 * writes because another one is about to.
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

/** What the driver says of a connection that it lost, or did not get. */
const ofDriver =
  /^(?:Connection terminated|timeout exceeded when trying to connect|timeout expired|Query read timeout|Client has encountered a connection error|Client was closed and is not queryable|Postgres connection has been discarded)/;

/** The one connection of its kind is lost, and is being made again. */
export class NotConnected extends Error {}

export const endsSession = (error: DatabaseError): boolean => ends.test(error.code ?? "");

/** Another transaction was first: serialization failure, deadlock, or a row that was just inserted. */
export const isClash = (error: unknown): boolean =>
  error instanceof DatabaseError && ["40001", "40P01", "23505"].includes(error.code ?? "");

/** Whether an error, or what caused it, may be gone when the same is tried again. */
export const isPassing = (error: unknown): boolean => {
  for (let cause = error, depth = 0; cause instanceof Error && depth < 8; cause = cause.cause, depth += 1) {
    // Done again, it might be done twice.
    if (cause instanceof OutcomeUnknown) return false;
    if (cause instanceof NotConnected) return true;
    if (cause instanceof DatabaseError) return endsSession(cause) || passing.test(cause.code ?? "");
    if (("code" in cause && ofSystem.has(cause.code)) || ofDriver.test(cause.message)) return true;
  }
  return false;
};

/** Waits before the next try, from 50 ms on up to a second. */
export const pauseAfter = (tries: number, signal: AbortSignal): Promise<void> =>
  pause(Math.min(1000, 50 * 2 ** tries) * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => {});

/** How long somebody who asked over HTTP waits for a database that cannot be reached, in milliseconds. */
export const requestMs = 10_000;

/** Tries until it works, fails for good, or `requestMs` have passed. */
export const again = async <T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> => {
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

/** The same operations, each tried again. Only for what does the same when it is done twice. */
export const eachAgain = <Port extends object>(port: Port, signal: AbortSignal): Port =>
  Object.fromEntries(
    (Object.entries(port) as [string, (...given: unknown[]) => Promise<unknown>][]).map(([name, operation]) => [
      name,
      (...given: unknown[]) => again(() => operation(...given), signal),
    ]),
  ) as Port;
