import { type CompiledQuery, type Kysely, type RawBuilder, sql } from "kysely";
import type { Position, StreamID } from "../../domain/event.ts";
import type { Filter } from "../store.ts";
import type { Reader } from "./reader.ts";
import { hash } from "./row.ts";
import type { Kind, Tables } from "./schema.ts";

/**
 * Finds the events of the whole log that match a filter. A search walks along the log in short windows where much of it
 * matches, and along the streams of a project or a Mission where little does: no query reads the whole log.
 */

/** An event by its position, and the bytes of its data. */
export type Match = { position: Position; size: number };

/** Events that one query reads. */
const window = 5000;

type Wanted = { after: Position; limit: number; filter: Filter };

/** At most `limit` matching events after a position, in ascending order; an empty page only if there are none. */
export const createMatches = (db: Kysely<Tables>, reader: Reader, kind: Kind) => {
  const run = <R>(query: RawBuilder<R>, signal: AbortSignal | undefined) => reader.rows(query.compile(db), signal);
  const log: CompiledQuery<Pick<Tables["log"], "position" | "old">> = db
    .selectFrom("log")
    .select(["position", "old"])
    .compile();

  /** All matching events, if only these streams can have any. */
  const ofStreams = async (streams: RawBuilder<unknown>, { after, limit, filter }: Wanted, signal?: AbortSignal) => {
    const types = ofTypes(filter);
    return run(
      kind === "postgres"
        ? // Takes the first events of each stream by the index; PostgreSQL would otherwise walk along the log.
          sql<Match>`
            select e.position, e.size from (${streams}) s cross join lateral (
              select position, octet_length(data) as size from events
               where stream = s.stream and position > ${after} ${types} order by position limit ${limit}) e
             order by e.position limit ${limit}`
        : // The index has positions only, so the events are looked up for this page alone.
          sql<Match>`
            select position, octet_length(data) as size from events where position in (
              select position from (${streams}) s cross join events on events.stream = s.stream
               where position > ${after} ${types} order by position limit ${limit})
             order by position`,
      signal,
    );
  };

  const ofStream = (stream: StreamID, { after, limit, filter }: Wanted, signal?: AbortSignal) =>
    run(
      sql<Match>`
        select position, octet_length(data) as size from events
         where stream = ${stream} and position > ${after} ${otherwise(filter)} order by position limit ${limit}`,
      signal,
    );

  /** The matching events within a window of the log. */
  const near = ({ after, limit, filter }: Wanted, signal?: AbortSignal) =>
    run(
      sql<Match>`
        select position, octet_length(data) as size from events
         where position > ${after} and position <= ${after + window} ${otherwise(filter)}
         order by position limit ${limit}`,
      signal,
    );

  return async (after: Position, limit: number, filter: Filter, signal?: AbortSignal): Promise<Match[]> => {
    if (filter.stream !== undefined) return ofStream(filter.stream, { after, limit, filter }, signal);
    const [{ position: head, old } = { position: 0, old: 0 }] = await reader.rows(log, signal);
    for (let from = after; from < head; from += window) {
      const found = await near({ after: from, limit, filter }, signal);
      const next = from + window;
      if (found.length === limit || next >= head) return found;
      const streams = streamsOf(filter, next, old);
      const rest = { after: next, limit: limit - found.length, filter };
      if (streams !== undefined) return [...found, ...(await ofStreams(streams, rest, signal))];
      if (found.length > 0) return found;
    }
    return [];
  };
};

const ofTypes = ({ types }: Filter): RawBuilder<unknown> =>
  types === undefined ? sql`` : sql`and type in (${sql.join([...types])})`;

/** The conditions of a filter apart from the stream. */
const otherwise = (filter: Filter): RawBuilder<unknown> => {
  const { project, mission } = filter;
  const task = sql`select mission from tasks where tasks.stream = events.stream`;
  // A value that is looked up for each event: for an `exists`, PostgreSQL would first collect all Tasks of the project.
  const ofProject =
    project === undefined
      ? sql``
      : sql`and ((select project from tasks where tasks.stream = events.stream) = ${hash(project)} or (
          select project from missions where missions.stream = events.stream) = ${hash(project)})`;
  const ofMission = mission === undefined ? sql`` : sql`and (stream = ${mission} or (${task}) = ${mission})`;
  return sql`${ofProject} ${ofMission} ${ofTypes(filter)}`;
};

/**
 * The streams that may have matching events after the position; undefined: the filter names no project and no Mission.
 */
const streamsOf = ({ project, mission }: Filter, after: Position, old: Position): RawBuilder<unknown> | undefined => {
  const unknown = after < old ? sql`or position is null` : sql``;
  const ofProject =
    project &&
    sql`select stream from tasks where project = ${hash(project)} and (position > ${after} ${unknown})
        union all select stream from missions where project = ${hash(project)}`;
  // PostgreSQL must be told the type of a value in a `select`.
  const ofMission =
    mission &&
    sql`select cast(${mission} as text) as stream union all select stream from tasks where mission = ${mission}`;
  if (!ofProject || !ofMission) return ofProject || ofMission || undefined;
  return sql`select stream from (${ofMission}) own where stream in (${ofProject})`;
};
