import { type Expression, type Kysely, type RawBuilder, type SqlBool, sql } from "kysely";
import type { StreamID } from "../../../domain/event.ts";
import type { ListQuery } from "../../store.ts";
import { indexedPart, indexedText } from "../migration/index-set.ts";
import type { Reader } from "../reader.ts";
import { hash, storableText } from "../row.ts";
import type { Kind, Tables } from "../schema.ts";
import { hasTrigrams, searched, type TextSearch } from "./text-index.ts";

/**
 * Which Tasks a list shows. Conditions on columns use an index that has the columns in the list's order. Texts and
 * metadata are not in it: on SQLite, a search looks through the first Tasks of the list, which is enough for a frequent
 * text; then it asks the index of texts. What that does not know (fewer than three letters, or too many texts) it looks
 * for along the rest of the list, in short queries, so that other reads get their turn.
 */

type Key = { updated: number; stream: StreamID };

/** Tasks whose texts one query reads, and how many it reads before the index of texts is asked. */
const window = 2000;
const firstWindow = 200;

/**
 * Up to this many Tasks with a value of metadata are looked up one by one; a more frequent value is soon met along the
 * list.
 */
const rare = 1000;

/** Whether the row comes after this place in the list. */
export const before = (updated: number, stream: StreamID): RawBuilder<SqlBool> =>
  sql<SqlBool>`(updated, stream) < (${updated}, ${stream})`;

/** Whether the texts of the row's stream contain this part. */
export const matches = (table: "tasks" | "missions", search: string): RawBuilder<SqlBool> => {
  const pattern = `%${searched(search).replaceAll(/[\\%_]/g, "\\$&")}%`;
  const own = sql.ref(`${table}.stream`);
  return sql<SqlBool>`exists (select 1 from texts where texts.stream = ${own} and texts.text like ${pattern} escape '\\')`;
};

/** Whether a row of `metadata` is this entry: compared by its index, and then in full. */
export const entry = (key: string, value: string): RawBuilder<SqlBool> => {
  const part = (column: string, text: string) => sql`${sql.raw(indexedPart(column))} = ${indexedText(text)}`;
  return sql<SqlBool>`${part("key", key)} and ${part("value", value)} and key = ${key} and value = ${value}`;
};

/** The streams of one page, in no particular order. */
export const createKeys = (db: Kysely<Tables>, reader: Reader, kind: Kind, byText: TextSearch) => {
  const isRare = async (one: RawBuilder<SqlBool>, signal?: AbortSignal): Promise<boolean> => {
    const found = sql<{ count: number }>`
      select count(*) as count from (select 1 from metadata where ${one} limit ${rare + 1}) found`;
    const [row] = await reader.rows(found.compile(db), signal);
    return (row?.count ?? 0) <= rare;
  };

  /** The place in the list, after `from`, at which the next query stops; undefined: at the end. */
  const edgeOf = async (
    project: string,
    from: Key | undefined,
    count: number,
    signal?: AbortSignal,
  ): Promise<Key | undefined> => {
    let query = db.selectFrom("tasks").select(["updated", "stream"]).where("project", "=", project);
    if (from !== undefined) query = query.where(before(from.updated, from.stream));
    const [edge] = await reader.rows(
      query
        .orderBy("updated", "desc")
        .orderBy("stream", "desc")
        .offset(count - 1)
        .limit(1)
        .compile(),
      signal,
    );
    return edge;
  };

  return async (query: ListQuery, signal?: AbortSignal): Promise<StreamID[]> => {
    const project = hash(query.project);
    const { search, cursor } = query;
    const entries = Object.entries(query.metadata ?? {}).map(([key, value]) =>
      entry(storableText(key), storableText(value)),
    );
    /** Conditions on texts and metadata, which are not in the index of Tasks. */
    const others: RawBuilder<SqlBool>[] = search === undefined || search === "" ? [] : [matches("tasks", search)];
    /** The condition that leads SQLite to the few Tasks that can match; PostgreSQL finds it by itself. */
    let lead: "mission" | "metadata" | undefined =
      kind === "sqlite" && query.missionID !== undefined ? "mission" : undefined;
    for (const one of entries)
      if (kind === "sqlite" && lead === undefined && (await isRare(one, signal))) {
        others.push(sql`stream in (select stream from metadata where ${one})`);
        lead = "metadata";
      } else others.push(sql`exists (select 1 from metadata where metadata.stream = tasks.stream and ${one})`);
    const walks = kind === "sqlite" && lead === undefined && others.length > 0;

    /** `among`: the streams that can match, as a subquery. */
    const page = (limit: number, from: Key | undefined, to: Key | undefined, among?: RawBuilder<unknown>) =>
      db
        .selectFrom("tasks")
        .select("stream")
        .where(sql<SqlBool>`${unindexed(lead === "metadata" || among !== undefined)}project = ${project}`)
        .where((row) => row.and([...columnsAsked(query), ...others]))
        .$if(among !== undefined, (rows) => rows.where(sql<SqlBool>`stream in (${among})`))
        .$if(from !== undefined, (rows) => rows.where(before(from?.updated ?? 0, from?.stream ?? "")))
        .$if(to !== undefined, (rows) => rows.where(sql<SqlBool>`(updated, stream) >= (${to?.updated}, ${to?.stream})`))
        .orderBy(sql`${unindexed(lead === "mission")}updated`, "desc")
        .orderBy("stream", "desc")
        .limit(limit)
        .compile();

    const found: StreamID[] = [];
    const add = async (from: Key | undefined, to: Key | undefined, among?: RawBuilder<unknown>): Promise<void> => {
      const rows = await reader.rows(page(query.limit - found.length, from, to, among), signal);
      found.push(...rows.map(({ stream }) => stream));
    };
    let from = cursor && { updated: cursor.updated, stream: cursor.taskID };
    if (!walks) {
      await add(from, undefined);
      return found;
    }
    let indexed = search !== undefined && hasTrigrams(search) ? search : undefined;
    for (;;) {
      const to = await edgeOf(project, from, indexed === undefined ? window : firstWindow, signal);
      await add(from, to);
      if (to === undefined || found.length >= query.limit) return found;
      from = to;
      const among = indexed === undefined ? undefined : await byText(indexed, "tasks", signal);
      indexed = undefined;
      if (among === undefined) continue;
      await add(from, undefined, among);
      return found;
    }
  };
};

/**
 * Keeps SQLite from using an index for the column that follows: it would otherwise use the one with the list's order.
 */
export const unindexed = (yes: boolean): RawBuilder<unknown> => (yes ? sql`+` : sql``);

/** Conditions on the columns of the list's index. */
const columnsAsked = (query: ListQuery): Expression<SqlBool>[] => {
  const { status, lifecycleStatus, productPillar, promptProfile, priority, missionID } = query;
  const all: RawBuilder<SqlBool>[] = [];
  if (status !== undefined) all.push(status === "running" ? sql`lifecycle = 'active'` : sql`lifecycle <> 'active'`);
  if (lifecycleStatus !== undefined) all.push(sql`lifecycle = ${lifecycleStatus}`);
  if (productPillar !== undefined) all.push(sql`pillar = ${productPillar}`);
  if (missionID !== undefined) all.push(sql`mission_id = ${missionID}`);
  if (promptProfile !== undefined) all.push(sql`squad = ${promptProfile}`);
  if (priority !== undefined) all.push(sql`priority = ${priority}`);
  if (query.archived !== true) all.push(sql`archived = 0`);
  return all;
};
