import { type Kysely, sql } from "kysely";
import type { Kind, Tables } from "../schema.ts";

/**
 * The table of migration 0009 and the triggers that maintain it. They are in the database, not in the code that
 * commits, so that a node of the previous version, which does not know the table, maintains it, too.
 */

const states = ["need", "run", "queue"] as const;

/** What one row of `tasks` adds to its project's counts: the columns, and their values. */
const columns = ["tasks", "active", ...states];

const valuesOf = (kind: Kind, row: "old" | "new"): string[] => {
  const one = (condition: string) => (kind === "sqlite" ? `(${condition})` : `(${condition})::int`);
  return [
    "1",
    one(`${row}.lifecycle = 'active'`),
    ...states.map((state) => one(`coalesce(${row}.overview, '') = '${state}'`)),
  ];
};

const added = (kind: Kind): string => `
  insert into project_counts (project, latest, ${columns.join(", ")})
  values (new.project, new.stream, ${valuesOf(kind, "new").join(", ")})
  on conflict (project) do update set latest = excluded.latest,
    ${columns.map((name) => `${name} = project_counts.${name} + excluded.${name}`).join(", ")};`;

const removed = (kind: Kind): string => {
  const less = valuesOf(kind, "old").map((value, index) => `${columns[index]} = ${columns[index]} - ${value}`);
  return `
  update project_counts set ${less.join(", ")},
    latest = case when latest = old.stream then (
      select stream from tasks where tasks.project = old.project order by updated desc, stream desc limit 1
    ) else latest end
   where project = old.project;
  delete from project_counts where project = old.project and tasks = 0 and counted = 1;`;
};

const changed = (kind: Kind): string => {
  const [before, after] = [valuesOf(kind, "old"), valuesOf(kind, "new")];
  const sums = columns.map((name, index) => `${name} = ${name} + ${after[index]} - ${before[index]}`).slice(1);
  return `
  update project_counts set ${sums.join(", ")} where project = new.project;`;
};

const counts = (kind: Kind): string => {
  const differs = kind === "sqlite" ? "is not" : "is distinct from";
  return `old.lifecycle ${differs} new.lifecycle or old.overview ${differs} new.overview`;
};

const triggersOf = (kind: Kind): string[] => {
  const moved = "old.project <> new.project";
  const stays = `old.project = new.project and (${counts(kind)})`;
  const all: [name: string, on: string, when: string | undefined, work: string][] = [
    ["tasks_counted_insert", "insert", undefined, added(kind)],
    ["tasks_counted_delete", "delete", undefined, removed(kind)],
    ["tasks_counted_update", "update", stays, changed(kind)],
    ["tasks_counted_move", "update", moved, removed(kind) + added(kind)],
  ];
  return all.flatMap(([name, on, condition, work]) => {
    const when = condition === undefined ? "" : `when (${condition})`;
    if (kind === "sqlite")
      return [`create trigger ${name} after ${on} on tasks for each row ${when} begin ${work} end`];
    return [
      `create function ${name}() returns trigger language plpgsql set search_path from current
         as $work$ begin ${work} return null; end $work$`,
      `create trigger ${name} after ${on} on tasks for each row ${when} execute function ${name}()`,
    ];
  });
};

/**
 * Creates the triggers first: on PostgreSQL, no other node can write from then to the end of the migration, which
 * counts no Tasks.
 */
export const addProjectCounts = async (db: Kysely<Tables>, kind: Kind): Promise<void> => {
  await db.schema
    .createTable("project_counts")
    .addColumn("project", "text", (column) => column.primaryKey())
    .addColumn("latest", "text")
    .addColumn("counted", "integer", (column) => column.notNull().defaultTo(1))
    .$call((table) =>
      columns.reduce((made, name) => made.addColumn(name, "integer", (column) => column.notNull().defaultTo(0)), table),
    )
    .execute();
  if (kind === "postgres")
    await sql`alter table project_counts set (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02)`.execute(db);
  for (const text of triggersOf(kind)) await sql.raw(text).execute(db);
  await sql`
    insert into project_counts (project, counted)
    with recursive known (project) as (
      select min(project) from tasks
      union all select (select min(project) from tasks where tasks.project > known.project) from known
       where known.project is not null
    ) select project, 0 from known where project is not null`.execute(db);
};
