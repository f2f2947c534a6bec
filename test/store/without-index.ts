/** Takes away what migration 0010 added to SQLite: a log of a version before the index of texts. */
export const withoutIndex = `
  drop trigger texts_indexed_insert; drop trigger texts_indexed_update; drop trigger texts_indexed_delete;
  drop table text_trigrams; drop table text_ids; drop table text_pending; drop table text_index;
  drop index missions_priority; delete from migrations where name = '0010-text-index'`;
