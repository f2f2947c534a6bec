import type { StreamID } from "../domain/event.ts";
import type { Due } from "../store/store.ts";

/**
 * The port of the engine, which runs the streams that are due. The due times in the store decide what runs; the engine
 * only makes it prompt. A nudge may be lost, repeated or reordered, and every active stream still runs. The engine
 * keeps no state that a crash could lose.
 *
 * Disposal aborts all handlers and waits for them for a bounded time.
 */
export interface Engine extends AsyncDisposable {
  /**
   * Begins to run what is due, one handler per stream at a time. The handler begins with `store.claim` and returns when
   * that resolves to undefined. If it throws, or returns with the due time unchanged, the stream runs again after a
   * growing delay. `signal` aborts when the handler is to stop. Throws if the engine was started before.
   */
  start(handler: (stream: StreamID, signal: AbortSignal) => Promise<void>): void;

  /** Reports a new due time, after the commit that set it. Returns at once. */
  nudge(stream: StreamID, due: Due): void;

  /**
   * Aborts the stream's handler, if one runs, and resolves when it has returned. A hint only: to keep the old handler
   * from writing, revoke its claim in a commit.
   */
  interrupt(stream: StreamID): Promise<void>;

  /**
   * Until disposed, the stream's running handler does not count towards the engine's limit of running handlers, because
   * it only waits. Afterwards it continues at once, even if that exceeds the limit.
   */
  standAside(stream: StreamID): Disposable;

  /**
   * While paused, the engine begins only runs that end their streams (`dueToEnd`); running handlers continue.
   * Afterwards it begins whatever is due, including runs that threw before.
   */
  pause(pauses: boolean): void;

  /**
   * Begins nothing more, for good. A running handler is aborted at the end of its step (`betweenSteps`), one that
   * stands aside at once, and all others when `until` aborts. Resolves when all have returned.
   */
  drain(until: AbortSignal): Promise<void>;

  /** Whether the engine drains. */
  drains(): boolean;

  /** Called by a stream's handler between two of its steps: while the engine drains, aborts the handler's signal. */
  betweenSteps(stream: StreamID): void;

  /** How many connections to a database server the engine itself has open. Absent if it never opens any. */
  readonly connections?: () => number;

  /** The number of streams whose handler is running: all of them, or those for which `of` is true. */
  running(of?: (stream: StreamID) => boolean): number;
}
