import type { Position, Recorded, StreamID } from "../../domain/event.ts";
import type { Store } from "../store.ts";

type Listener = (streams: ReadonlySet<StreamID> | undefined, erased: ReadonlySet<StreamID>) => void;

/** Signals followers that something was committed. A hint only: a listener then reads the log. */
export type CommitSignal = {
  /** `streams`: the streams that grew; undefined: any may have grown. `erased`: the streams that were erased. */
  ring(streams?: ReadonlySet<StreamID>, erased?: ReadonlySet<StreamID>): void;
  listen(listener: Listener): Disposable;
  listeners(): number;
  /** Ends every follower, because the store is closed. */
  close(): void;
  readonly closed: boolean;
};

export const createCommitSignal = (): CommitSignal => {
  const listeners = new Set<Listener>();
  const commits = {
    closed: false,
    ring(streams?: ReadonlySet<StreamID>, erased: ReadonlySet<StreamID> = new Set()) {
      for (const listener of listeners) listener(streams, erased);
    },
    listen(listener: Listener) {
      listeners.add(listener);
      return { [Symbol.dispose]: () => void listeners.delete(listener) };
    },
    listeners: () => listeners.size,
    close() {
      commits.closed = true;
      commits.ring();
    },
  };
  return commits;
};

/** Events held in memory per follower. */
const pageSize = 200;

export const createFollow = (commits: CommitSignal, store: Pick<Store, "since" | "position">): Store["follow"] =>
  async function* follow(after, signal, filter): AsyncGenerator<Recorded, void> {
    let wake = () => {};
    let rung = false;
    let erased = false;
    const whole = filter?.stream ?? filter?.mission;
    /**
     * Every event of the log, or of the stream, matches: an empty page is then its end, and there is no need to know
     * its position.
     */
    const everyMatches = filter?.types === undefined && filter?.project === undefined && filter?.mission === undefined;
    using _listener = commits.listen((streams, gone) => {
      erased ||= whole !== undefined && gone.has(whole);
      if (erased) return wake();
      if (streams !== undefined && filter?.stream !== undefined && !streams.has(filter.stream)) return;
      rung = true;
      wake();
    });
    const onAbort = () => wake();
    signal.addEventListener("abort", onAbort);
    const over = () => signal.aborted || commits.closed || erased;
    const pageAfter = async (cursor: Position): Promise<Recorded[]> => {
      try {
        return await store.since(cursor, pageSize, filter, signal);
      } catch (error) {
        if (over()) return [];
        throw error;
      }
    };
    try {
      let cursor = after;
      while (!over()) {
        rung = false;
        // Read before the page, so that whatever is committed in between is found with the next page.
        const head = everyMatches ? undefined : await store.position();
        const page = head === undefined || head > cursor ? await pageAfter(cursor) : [];
        for (const event of page) {
          if (over()) return;
          cursor = event.position;
          yield event;
        }
        // Even a short page may have been cut because of its bytes, so more may follow.
        if (page.length > 0 && (head === undefined || cursor < head)) continue;
        cursor = Math.max(cursor, head ?? 0);
        if (!rung && !over())
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
      }
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  };
