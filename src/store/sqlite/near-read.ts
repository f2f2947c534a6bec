import type { Position, Recorded } from "../../domain/event.ts";
import { type EventReads, pageBytes } from "../sql/read.ts";
import type { RecentEvents } from "./recent.ts";
import type { prepareStatements } from "./statement.ts";

/**
 * Chooses where events are read: the newest ones, which engines and followers ask for at each step, from memory; on the
 * service's own connection if there are only few to look at; and otherwise on the reader's.
 */

/** The most events that a read may look at on the service's own connection. */
const few = 100;

/** Events read there at a time: an event has up to 64 KiB. */
export const eventsAtOnce = 16;

export const withNearReads = (options: {
  here: EventReads;
  apart: EventReads;
  recent: RecentEvents;
  rows: Pick<ReturnType<typeof prepareStatements>, "since" | "head">;
  position: () => Position;
}): EventReads => {
  const { here, apart, recent, rows, position } = options;
  const synced = (found: Recorded[]): Recorded[] => {
    const newest = position();
    return (found.at(-1)?.position ?? 0) <= newest ? found : found.filter((event) => event.position <= newest);
  };
  return {
    async read(stream, asked = {}) {
      const { after = 0, limit = Number.POSITIVE_INFINITY, types, last = false } = asked;
      const version = rows.head(stream)?.version ?? 0;
      const bound = Math.min(version - after, types === undefined ? limit : Number.POSITIVE_INFINITY);
      if (bound <= few) return here.read(stream, asked);
      if (!last || limit > few) return apart.read(stream, asked);
      // The last events of these types are mostly near the end.
      const found = await here.read(stream, { ...asked, after: Math.max(after, version - few) });
      return found.length === limit ? found : apart.read(stream, asked);
    },

    async since(after, limit, filter = {}, signal) {
      const { types, project, mission, stream } = filter;
      // Events that are not on disk yet are not shown: nobody may continue from them (decision 109).
      if (after >= position()) return [];
      if (types === undefined && project === undefined && mission === undefined)
        return recent.since(after, limit, stream) ?? synced(rows.since(after, limit, stream, pageBytes));
      const bound = Math.min(
        position() - after,
        stream === undefined ? Number.POSITIVE_INFINITY : (rows.head(stream)?.version ?? 0),
      );
      return synced(await (bound <= few ? here : apart).since(after, limit, filter, signal));
    },
  };
};
