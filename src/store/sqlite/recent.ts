import type { Position, Recorded, StreamID } from "../../domain/event.ts";
import type { Changes } from "../batch/batch.ts";

/**
 * The newest events, as they were written. Several followers read each commit at once, and it need not be read from the
 * file and parsed for each of them.
 */
export type RecentEvents = {
  /** Adds a batch that is on disk. `bytes`: the size of its events' data, as text. */
  add(batch: Pick<Changes, "position" | "events" | "erased">, bytes: number): void;
  /** At most `limit` events after a position, in order; undefined: not all of them are known here. */
  since(after: Position, limit: number, stream: StreamID | undefined): Recorded[] | undefined;
};

const mostBatches = 32;
const mostBytes = 256 * 1024;

/** `start`: the position of the newest event. */
export const createRecentEvents = (start: Position): RecentEvents => {
  let batches: { events: readonly Recorded[]; position: Position; bytes: number }[] = [];
  let bytes = 0;
  /** All events after this position are known. */
  let from = start;
  return {
    add({ position, events, erased }, size) {
      if (erased.size > 0)
        batches = batches.map((batch) => ({
          ...batch,
          events: batch.events.filter((event) => !erased.has(event.stream)),
        }));
      batches.push({ events, position, bytes: size });
      bytes += size;
      while (batches.length > mostBatches || bytes > mostBytes) {
        const oldest = batches.shift();
        if (oldest === undefined) return;
        bytes -= oldest.bytes;
        from = oldest.position;
      }
    },
    since(after, limit, stream) {
      if (after < from) return undefined;
      const found: Recorded[] = [];
      for (const { events, position } of batches) {
        if (position <= after) continue;
        for (const event of events) {
          if (event.position <= after || (stream !== undefined && event.stream !== stream)) continue;
          found.push(event);
          if (found.length === limit) return found;
        }
      }
      return found;
    },
  };
};
