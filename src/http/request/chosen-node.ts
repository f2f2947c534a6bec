import { AsyncLocalStorage } from "node:async_hooks";

/**
 * The node whose directory a request means: its header `x-service-node`. Nothing of it is left outside of the request.
 */
export const chosenNode = new AsyncLocalStorage<string>();

/** The path of an idempotency key, which holds for this node alone. */
export const atChosen = (path: string): string => {
  const node = chosenNode.getStore();
  return node === undefined ? path : `${path} at ${node}`;
};
