import { messageOf, ServiceError } from "../error.ts";
import { isFull } from "./disk/full.ts";

/** The connection was lost during a commit, and its outcome could not be found out since. */
export class OutcomeUnknown extends Error {}

/** The error for a write that failed: nothing of it was kept, unless `details` says that its outcome is unknown. */
export const unavailable = (cause: unknown): ServiceError => failed("written", cause);

/** The error for a read that failed. */
export const unreadable = (cause: unknown): ServiceError => failed("read", cause);

const failed = (what: string, cause: unknown): ServiceError => {
  if (cause instanceof ServiceError) return cause;
  if (cause instanceof OutcomeUnknown)
    return new ServiceError(
      "store_unavailable",
      `The store was lost while it wrote (${cause.message}), and it is not known whether this was written. Check before you send it again, or send it with the same Idempotency-Key.`,
      { details: { outcome: "unknown" }, cause },
    );
  const remedy = isFull(cause) ? " Cancel and delete Tasks, which still works, or free space in another way." : "";
  return new ServiceError("store_unavailable", `The store could not be ${what}: ${messageOf(cause)}.${remedy}`, {
    cause,
  });
};

const isAbort = (error: unknown): boolean => error instanceof Error && error.name === "AbortError";

/** The same operations. Every error with which one rejects is passed through `made`, except an abort of its signal. */
export const withErrors = <Port extends object>(
  port: Port,
  made: (cause: unknown, name: string) => ServiceError,
): Port =>
  Object.fromEntries(
    (Object.entries(port) as [string, (...given: unknown[]) => Promise<unknown>][]).map(([name, operation]) => [
      name,
      async (...given: unknown[]) => {
        try {
          return await operation(...given);
        } catch (error) {
          throw isAbort(error) ? error : made(error, name);
        }
      },
    ]),
  ) as Port;
