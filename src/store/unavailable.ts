import { messageOf, ServiceError } from "../error.ts";

/** The error for a write that failed; nothing of it was kept. */
export const unavailable = (cause: unknown): ServiceError =>
  new ServiceError("store_unavailable", `The store could not be written: ${messageOf(cause)}.`, { cause });
