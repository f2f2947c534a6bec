/**
 * Indexes of migrations since 0005: an aid, not the schema, as every query gives the same answer without them. SQLite
 * builds them in the migration. PostgreSQL builds those of a log in use after the start, without locking out writes
 * (`postgres/late-index.ts`).
 */

export type Index = {
  name: string;
  on: string;
  /** Columns and expressions, as SQL that both databases read. */
  columns: string;
  where?: string;
  /** The migration that adds it. */
  by: "0005-large" | "0006-overview" | "0010-text-index";
  /** An older index that this one makes superfluous. */
  replaces?: string;
};

/** Characters of a key or a value that the index has: PostgreSQL refuses entries above 2,704 bytes. */
const indexed = 100;

/** The part of a column of `metadata` that the index `metadata_value` has. */
export const indexedPart = (column: string): string => `substr(${column}, 1, ${indexed})`;

/** The same part of a given text; the databases count characters, not UTF-16 units. */
export const indexedText = (text: string): string => Array.from(text).slice(0, indexed).join("");

export const indexes: readonly Index[] = [
  {
    // Has everything that the filters of a list ask for, in the list's order: a Task that does not match costs an
    // entry, not a row.
    name: "tasks_page",
    by: "0005-large",
    on: "tasks",
    columns: "project, updated, stream, lifecycle, pillar, squad, priority, archived, position",
    replaces: "tasks_list",
  },
  {
    name: "tasks_mission_id",
    by: "0005-large",
    on: "tasks",
    columns: "mission_id, project",
    where: "mission_id is not null",
  },
  {
    name: "metadata_value",
    by: "0005-large",
    on: "metadata",
    columns: `${indexedPart("key")}, ${indexedPart("value")}, stream`,
  },
  {
    name: "streams_waiting",
    by: "0005-large",
    on: "streams",
    columns: "rank, due_at, stream",
    where: "due_at is not null and holder is null",
    replaces: "streams_rank",
  },
  {
    name: "tasks_overview",
    by: "0006-overview",
    on: "tasks",
    columns: "overview, settled, project, stream",
    where: "overview is not null",
  },
  {
    name: "missions_asks",
    by: "0006-overview",
    on: "missions",
    columns: "stream, asks",
    where: "asks is null or asks > 0",
  },
  { name: "missions_priority", by: "0010-text-index", on: "missions", columns: "priority, updated, stream" },
];

export const createIndex = ({ name, on, columns, where }: Omit<Index, "by">, how = ""): string =>
  `create index ${how} ${name} on ${on} (${columns})${where === undefined ? "" : ` where ${where}`}`;
