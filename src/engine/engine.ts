import type { StreamID } from "../domain/event.ts";
import type { Due } from "../store/store.ts";

/**
 * Who runs what is due. The due row is the truth, an engine is only fast: a nudge may be lost, doubled or reordered
 * and every active stream still runs.
 */
export interface Engine extends AsyncDisposable {
  /** After the commit that made the stream due. */
  nudge(stream: StreamID, due: Due): void;
  /** Begins to run what is due; the handler starts with `store.claim` and returns when that gives undefined. */
  start(handler: (stream: StreamID, signal: AbortSignal) => Promise<void>): void;
  /** Asks the running handler to stop; a hint, the claim's epoch is what counts. Resolves when it returned. */
  interrupt(stream: StreamID): Promise<void>;
  /** Streams whose handler runs now; all, or those that are meant. */
  running(of?: (stream: StreamID) => boolean): number;
}
