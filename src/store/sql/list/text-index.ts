import { type Kysely, type RawBuilder, sql } from "kysely";
import { firstMissionID } from "../migration/text-index.ts";
import type { Reader } from "../reader.ts";
import { storableText } from "../row.ts";
import type { Tables } from "../schema.ts";

/** Searches by the trigrams of SQLite (`migration/text-index.ts`). PostgreSQL uses its own index without being told. */

/** Up to this many texts are looked up one by one; a more frequent part is soon met along a list. */
const rare = 1000;

/** Letters of a trigram; anything shorter is in no index. */
const letters = 3;

/** The most trigrams of one search: more would narrow it down little, and for each one a list is read. */
const most = 12;

/** The search in the form that texts have: in lower case, and only with characters that a database can hold. */
export const searched = (search: string): string => storableText(search).toLowerCase();

/** Whether the search is long enough for the index. */
export const hasTrigrams = (search: string): boolean => Array.from(searched(search)).length >= letters;

/** Trigrams that every text with this part has, side by side, as a query. A text that has them may still not match. */
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
 * The streams whose texts can match a search of three letters or more, as a subquery; undefined: they are too many, or
 * older texts are not indexed yet.
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
    // A literal, because SQLite takes a parameter as a floating-point number, which the index does not look for.
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
