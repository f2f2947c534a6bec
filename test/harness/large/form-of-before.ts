import { indexes } from "../../../src/store/sql/migration/index-set.ts";

/** Takes away what migration 0005 added. */
export const formOfBefore = `
  ${indexes.map(({ name }) => `drop index if exists ${name};`).join("\n")}
  drop index if exists texts_search;
  create index tasks_list on tasks (project, updated, stream);
  create index streams_rank on streams (rank, due_at, stream) where due_at is not null;
  drop table blob_names;
  alter table tasks drop column position;
  alter table log drop column old;
  alter table log drop column named;
  delete from migrations where name = '0005-large';`;
