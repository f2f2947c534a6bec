import { messageOf, ServiceError } from "../error.ts";

/** What callers are told while the store cannot be written; nothing of their write was kept. */
export const unavailable = (cause: unknown): ServiceError =>
  new ServiceError("store_unavailable", `The store could not be written: ${messageOf(cause)}.`, { cause });
