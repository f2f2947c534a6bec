import { AsyncLocalStorage } from "node:async_hooks";

/** The node whose directory a request means: its header `x-service-node`. Nothing of it is left outside of the request. */
export const chosenNode = new AsyncLocalStorage<string>();
