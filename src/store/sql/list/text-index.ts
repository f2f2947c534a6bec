import { type Kysely, type RawBuilder, sql } from "kysely";
import { firstMissionID } from "../migration/text-index.ts";
import type { Reader } from "../reader.ts";
import { plain } from "../row.ts";
import type { Tables } from "../schema.ts";

/** Searches by the trigrams of SQLite (`migration/text-index.ts`). PostgreSQL uses its own without being told. */

/** Texts that are looked up one by one; a part of more is common enough to be met along a list. */
const rare = 1000;

/** Letters of a trigram: less is in no index. */
const letters = 3;

/** Trigrams of one search; more narrow it down little, and each is a list that is read. */
const most = 12;

/** What is searched, as texts have it: in lower case, and only what a database can hold. */
export const searched = (search: string): string => plain(search).toLowerCase();

/** Whether the index can know of it. */
export const hasTrigrams = (search: string): boolean => Array.from(searched(search)).length >= letters;

/**
 * Trigrams that every text with this part has, one beside the other, as a query. A text that has them may still not
 * match.
 */
const trigramsOf = (search: string): string => {
  const text = Array.from(searched(search));
  const last = text.length - letters;
  const count = Math.min(most, Math.ceil(text.length / letters));
  const starts = Array.from({ length: count }, (_, index) => Math.round((index * last) / Math.max(1, count - 1)));
  return starts
    .map(
      (at) =>
        `"${text
          .slice(at, at + letters)
          .join("")
          .replaceAll('"', '""')}"`,
    )
    .join(" ");
};

/**
 * The streams whose texts can match a search of three letters or more, as a subquery; undefined where they are many,
 * and while older texts are not indexed yet.
 */
export type TextSearch = (
  search: string,
  of: "tasks" | "missions",
  signal?: AbortSignal,
) => Promise<RawBuilder<unknown> | undefined>;

export const createTextSearch = (db: Kysely<Tables>, reader: Reader): TextSearch => {
  let whole = false;
  const isWhole = async (signal: AbortSignal | undefined): Promise<boolean> => {
    const query = db.selectFrom("text_index").select("upto").compile();
    whole ||= (await reader.rows(query, signal)).every(({ upto }) => upto === null);
    return whole;
  };
  return async (search, of, signal) => {
    if (!(await isWhole(signal))) return undefined;
    // As a literal: a parameter is a floating-point number to SQLite, which the index does not look for.
    const own = sql.raw(`rowid ${of === "tasks" ? "<" : ">="} ${firstMissionID}`);
    const ids = sql`select rowid from text_trigrams where text_trigrams match ${trigramsOf(search)} and ${own}`;
    const [found] = await reader.rows(
      sql<{ count: number }>`select count(*) as count from (${ids} limit ${rare + 1}) found`.compile(db),
      signal,
    );
    return found !== undefined && found.count <= rare
      ? sql`select stream from text_ids where id in (${ids}) union all select stream from text_pending`
      : undefined;
  };
};
