import { type Kysely, type RawBuilder, sql } from "kysely";
import type { StreamID } from "../../../domain/event.ts";
import type { Tables } from "../schema.ts";

/**
 * The index of `texts` by trigrams that migration 0010 adds to SQLite; PostgreSQL has one of its own (`texts_search`).
 * It has numbers instead of texts and streams: `text_ids` maps each number to its stream, and everything in that table
 * is in the index.
 *
 * Triggers record changes, whichever version writes. A new text waits in `text_pending`, since indexing it alone costs
 * five times as much as indexing it together with others. A removed text is not found from then on.
 */

/** Missions have numbers from here on, Tasks lower ones, so that a search for one kind reads nothing of the other. */
export const firstMissionID = 2 ** 40;

const nextID = `
  case when stream like 'task%'
    then 1 + coalesce((select max(id) from text_ids where id < ${firstMissionID}), 0)
    else 1 + coalesce((select max(id) from text_ids where id >= ${firstMissionID}), ${firstMissionID - 1}) end`;

/** Indexes the text of a stream. Does nothing if the text is gone, or is in the index already. */
export const indexText = (stream: StreamID): RawBuilder<unknown> => sql`
  insert into text_ids (id, stream) select ${sql.raw(nextID)}, stream from texts
   where stream = ${stream} and not exists (select 1 from text_ids where text_ids.stream = texts.stream)`;

/** Not `or ignore`: the conflict clause of the statement that fires a trigger applies in the trigger, too. */
const wait = `insert into text_pending (stream)
       select new.stream where not exists (select 1 from text_pending where stream = new.stream)`;

const triggers = [
  `create trigger text_ids_insert after insert on text_ids begin
     insert into text_trigrams (rowid, text) select new.id, text from texts where stream = new.stream; end`,
  `create trigger text_ids_delete after delete on text_ids begin
     delete from text_trigrams where rowid = old.id;
     update text_index set removed = removed + 1; end`,
  `create trigger texts_indexed_insert after insert on texts begin ${wait}; end`,
  `create trigger texts_indexed_update after update of text on texts when old.text <> new.text begin
     delete from text_ids where stream = new.stream;
     ${wait}; end`,
  `create trigger texts_indexed_delete after delete on texts begin
     delete from text_ids where stream = old.stream;
     delete from text_pending where stream = old.stream; end`,
];

/** Existing texts are indexed in the background (`list/text-upkeep.ts`): the migration reads no text. */
export const addTextIndex = async (db: Kysely<Tables>): Promise<void> => {
  await db.schema
    .createTable("text_ids")
    .addColumn("id", "integer", (column) => column.primaryKey())
    .addColumn("stream", "text", (column) => column.notNull().unique())
    .execute();
  await db.schema
    .createTable("text_pending")
    .addColumn("stream", "text", (column) => column.primaryKey())
    .modifyEnd(sql`without rowid`)
    .execute();
  await db.schema
    .createTable("text_index")
    .addColumn("id", "integer", (column) => column.primaryKey())
    .addColumn("upto", "text")
    .addColumn("removed", "integer", (column) => column.notNull().defaultTo(0))
    .addColumn("merged", "integer", (column) => column.notNull().defaultTo(0))
    .execute();
  await sql`insert into text_index (id, upto) select 1, case when exists (select 1 from texts) then '' end`.execute(db);
  // Texts and search terms are in lower case already, and are compared as they are.
  await sql`create virtual table text_trigrams using fts5(
    text, content = '', contentless_delete = 1, detail = none, tokenize = 'trigram case_sensitive 1')`.execute(db);
  // A commit must not wait for a merge; merges are made in the background, too.
  for (const setting of ["'automerge', 0", "'crisismerge', 1000"])
    await sql.raw(`insert into text_trigrams (text_trigrams, rank) values (${setting})`).execute(db);
  for (const text of triggers) await sql.raw(text).execute(db);
};
