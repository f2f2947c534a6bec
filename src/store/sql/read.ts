import { setImmediate } from "node:timers/promises";
import { type CompiledQuery, type Kysely, sql } from "kysely";
import type { Position, Recorded } from "../../domain/event.ts";
import type { Filter, Json, Store } from "../store.ts";
import { createMatches, type Match } from "./match.ts";
import type { Reader } from "./reader.ts";
import { answerID, eventOf } from "./row.ts";
import type { Kind, Tables } from "./schema.ts";

/** Queries on the log. */

/** Events of a stream that are read at a time. */
const pageSize = 1000;

/** The most bytes of events' data in a page of the whole log. */
export const pageBytes = 2 * 1024 ** 2;

/** Characters of data that are parsed before other work gets its turn. */
const slice = 256 * 1024;

export type EventReads = Pick<Store, "read" | "since">;

/** `db` builds the queries, `reader` runs them. `atOnce`: how many events of a stream are read at a time. */
export const createEventReads = (db: Kysely<Tables>, reader: Reader, kind: Kind, atOnce = pageSize): EventReads => {
  const matches = createMatches(db, reader, kind);

  /**
   * The query for a page on which every event matches: a single one, because each follower of the log runs it after
   * each commit. undefined: the page is found by `matches`.
   */
  const wholePage = (after: Position, limit: number, filter: Filter): CompiledQuery<Tables["events"]> | undefined => {
    const { stream, types, project, mission } = filter;
    // On SQLite, such pages mostly come from memory, and otherwise from prepared statements.
    if (kind === "sqlite" || types !== undefined || project !== undefined || mission !== undefined) return undefined;
    const own = stream === undefined ? sql`` : sql`and stream = ${stream}`;
    return sql<Tables["events"]>`
      select position, stream, version, type, at, data from (
        select found.*, sum(octet_length(data)) over (order by position) as bytes, row_number() over (order by position) as nth
          from (select * from events where position > ${after} ${own} order by position limit ${limit}) found
      ) sized where bytes <= ${pageBytes} or nth = 1 order by position`.compile(db);
  };

  return {
    async read(stream, { after = 0, limit = Number.POSITIVE_INFINITY, types, last = false, signal } = {}) {
      const events: Recorded[] = [];
      for (let edge = last ? undefined : after; events.length < limit; ) {
        const size = Math.min(limit - events.length, atOnce);
        let query = db
          .selectFrom("events")
          .selectAll()
          .where("stream", "=", stream)
          .where("version", ">", last ? after : (edge ?? after))
          .orderBy("version", last ? "desc" : "asc")
          .limit(size);
        if (last && edge !== undefined) query = query.where("version", "<", edge);
        if (types !== undefined) query = query.where("type", "in", types);
        const rows = await reader.rows(query.compile(), signal);
        events.push(...(await parsed(rows)));
        if (rows.length < size) break;
        edge = rows.at(-1)?.version;
        await setImmediate();
      }
      return last ? events.reverse() : events;
    },

    async since(after, limit, filter = {}, signal) {
      const whole = wholePage(after, limit, filter);
      if (whole !== undefined) return parsed(await reader.rows(whole, signal));
      for (let edge = after; ; ) {
        const found = await matches(edge, limit, filter, signal);
        const wanted = within(found, pageBytes);
        if (wanted.length === 0) return [];
        const query = db.selectFrom("events").selectAll().where("position", "in", wanted).orderBy("position");
        const rows = await reader.rows(query.compile(), signal);
        if (rows.length > 0) return parsed(rows);
        // All of them were erased meanwhile.
        edge = wanted.at(-1) ?? edge;
      }
    },
  };
};

/** The first matches, as far as their data fits into `bytes`; at least one. */
const within = (found: readonly Match[], bytes: number): Position[] => {
  const wanted: Position[] = [];
  let sum = 0;
  for (const { position, size } of found) {
    sum += size;
    if (sum > bytes && wanted.length > 0) break;
    wanted.push(position);
  }
  return wanted;
};

const parsed = async (rows: readonly Tables["events"][]): Promise<Recorded[]> => {
  const events: Recorded[] = [];
  let done = 0;
  for (const row of rows) {
    events.push(eventOf(row));
    done += row.data.length;
    if (done < slice) continue;
    await setImmediate();
    done = 0;
  }
  return events;
};

export const createReads = (db: Kysely<Tables>): Pick<Store, "position" | "once"> => ({
  async position() {
    const row = await db.selectFrom("log").select("position").executeTakeFirstOrThrow();
    return row.position;
  },

  async once(scope, key) {
    const row = await db
      .selectFrom("answers")
      .select(["body_hash", "status", "body"])
      .where("id", "=", answerID(scope, key))
      .executeTakeFirst();
    return row && { bodyHash: row.body_hash, stored: { status: row.status, body: JSON.parse(row.body) as Json } };
  },
});
