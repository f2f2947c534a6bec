import { AsyncLocalStorage } from "node:async_hooks";

/**
 * The node named in a request's header `x-service-node`: the one whose directory is meant. Set only while that request
 * is served.
 */
export const chosenNode = new AsyncLocalStorage<string>();

/** The path in an idempotency key's scope: with a chosen node, the key holds for that node alone. */
export const atChosen = (path: string): string => {
  const node = chosenNode.getStore();
  return node === undefined ? path : `${path} at ${node}`;
};
