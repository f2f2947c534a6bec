import { type Kysely, sql, type SqlBool } from "kysely";
import { projectOf } from "../../../domain/state/project.ts";
import type { TaskSummary } from "../../../protocol/task/status.ts";
import { hash, nameOf, overviewOf } from "../row.ts";
import { createIndex, type Index, indexes } from "./index-set.ts";
import { addProjectCounts } from "./project-count.ts";
import { addTextIndex } from "./text-index.ts";
import type { Kind, Tables } from "../schema.ts";

/**
 * The migrations, oldest first. Append only: a migration that has been released is never changed.
 *
 * The previous version may work on the same database meanwhile, as a node that has not been replaced yet. So a
 * migration only adds: tables, columns that may be absent or have a default, indexes. Later readers must do without the
 * values that it fills in, because rows written by the previous version lack them. Names of migrations end with `.r`
 * and the release that brings them; names without it belong to release 1.
 */

/** Raised with the first migration after a version was published. */
export const release = 1;

export const releaseOf = (name: string): number => Number(/\.r(\d+)$/.exec(name)?.[1] ?? 1);

export type Migration = { name: string; up(db: Kysely<Tables>, kind: Kind): Promise<void> };

export const migrations: readonly Migration[] = [
  {
    name: "0001-log",
    async up(db, kind) {
      await db.schema
        .createTable("log")
        .addColumn("id", "integer", (column) => column.primaryKey())
        .addColumn("position", "bigint", (column) => column.notNull())
        .addColumn("clean", "integer", (column) => column.notNull())
        .execute();
      await db
        .insertInto("log")
        .values({ id: 1, position: 0, clean: 1 } as Tables["log"])
        .execute();

      await db.schema
        .createTable("events")
        // A rowid column must be declared exactly `integer` in SQLite; in PostgreSQL that type has only 32 bits.
        .addColumn("position", kind === "sqlite" ? "integer" : "bigint", (column) => column.primaryKey())
        .addColumn("stream", "text", (column) => column.notNull())
        .addColumn("version", "integer", (column) => column.notNull())
        .addColumn("type", "text", (column) => column.notNull())
        .addColumn("at", "text", (column) => column.notNull())
        .addColumn("data", "text", (column) => column.notNull())
        .execute();
      await db.schema.createIndex("events_version").unique().on("events").columns(["stream", "version"]).execute();
      await db.schema.createIndex("events_stream").on("events").columns(["stream", "position"]).execute();

      await db.schema
        .createTable("streams")
        .addColumn("stream", "text", (column) => column.primaryKey())
        .addColumn("version", "integer", (column) => column.notNull())
        .addColumn("epoch", "bigint", (column) => column.notNull())
        .addColumn("holder", "text")
        .addColumn("lease_until", "bigint")
        .addColumn("due_at", "bigint")
        .addColumn("rank", "double precision", (column) => column.notNull())
        .addColumn("due_seq", "bigint", (column) => column.notNull())
        .addColumn("fruitless", "integer", (column) => column.notNull())
        .addColumn("lifecycle", "text", (column) => column.notNull())
        .execute();
      await db.schema
        .createIndex("streams_due")
        .on("streams")
        .columns(["due_at", "holder"])
        .where("due_at", "is not", null)
        .execute();
      await db.schema
        .createIndex("streams_rank")
        .on("streams")
        .columns(["rank", "due_at", "stream"])
        .where("due_at", "is not", null)
        .execute();
      await db.schema
        .createIndex("streams_held")
        .on("streams")
        .columns(["lease_until", "holder"])
        .where("holder", "is not", null)
        .execute();

      await db.schema
        .createTable("tasks")
        .addColumn("stream", "text", (column) => column.primaryKey())
        .addColumn("project", "text", (column) => column.notNull())
        .addColumn("updated", "bigint", (column) => column.notNull())
        .addColumn("lifecycle", "text", (column) => column.notNull())
        .addColumn("pillar", "text", (column) => column.notNull())
        .addColumn("squad", "text", (column) => column.notNull())
        .addColumn("priority", "text", (column) => column.notNull())
        .addColumn("archived", "integer", (column) => column.notNull())
        .addColumn("revision", "integer", (column) => column.notNull())
        .addColumn("summary", "text", (column) => column.notNull())
        .execute();
      await db.schema.createIndex("tasks_list").on("tasks").columns(["project", "updated", "stream"]).execute();

      await db.schema
        .createTable("texts")
        .addColumn("stream", "text", (column) => column.primaryKey())
        .addColumn("text", "text", (column) => column.notNull())
        .execute();
      await db.schema
        .createTable("metadata")
        .addColumn("stream", "text", (column) => column.notNull())
        .addColumn("key", "text", (column) => column.notNull())
        .addColumn("value", "text", (column) => column.notNull())
        .execute();
      await db.schema.createIndex("metadata_stream").on("metadata").column("stream").execute();
      await db.schema
        .createTable("snapshots")
        .addColumn("stream", "text", (column) => column.primaryKey())
        .addColumn("version", "integer", (column) => column.notNull())
        .addColumn("revision", "integer", (column) => column.notNull())
        .addColumn("state", "text", (column) => column.notNull())
        .execute();
      await db.schema
        .createTable("answers")
        .addColumn("id", "text", (column) => column.primaryKey())
        .addColumn("body_hash", "text", (column) => column.notNull())
        .addColumn("status", "integer", (column) => column.notNull())
        .addColumn("body", "text", (column) => column.notNull())
        .addColumn("at", "bigint", (column) => column.notNull())
        .execute();
      await db.schema.createIndex("answers_at").on("answers").column("at").execute();
    },
  },
  {
    name: "0002-missions",
    async up(db) {
      for (const column of ["mission", "mission_id", "call", "production"])
        await db.schema.alterTable("tasks").addColumn(column, "text").execute();
      await db.schema
        .createIndex("tasks_mission")
        .on("tasks")
        .columns(["mission", "stream"])
        .where("mission", "is not", null)
        .execute();
      // The dispatching commit checks this already; the index guarantees it in any case.
      await db.schema
        .createIndex("tasks_call")
        .unique()
        .on("tasks")
        .columns(["mission", "call"])
        .where("call", "is not", null)
        .execute();
      await db.schema
        .createIndex("tasks_production")
        .on("tasks")
        .columns(["project", "production"])
        .where("production", "is not", null)
        .execute();
      await db.schema
        .createTable("missions")
        .addColumn("stream", "text", (column) => column.primaryKey())
        .addColumn("name", "text", (column) => column.notNull())
        .addColumn("project", "text", (column) => column.notNull())
        .addColumn("mission_id", "text", (column) => column.notNull())
        .addColumn("updated", "bigint", (column) => column.notNull())
        .addColumn("archived", "integer", (column) => column.notNull())
        .addColumn("revision", "integer", (column) => column.notNull())
        .addColumn("summary", "text", (column) => column.notNull())
        .execute();
      await db.schema.createIndex("missions_name").unique().on("missions").column("name").execute();
      await db.schema.createIndex("missions_id").on("missions").column("mission_id").execute();
      await db.schema.createIndex("missions_list").on("missions").columns(["updated", "stream"]).execute();
      await db.schema
        .createIndex("missions_project")
        .on("missions")
        .columns(["project", "updated", "stream"])
        .execute();
    },
  },
  {
    name: "0003-webhooks",
    async up(db) {
      await db.schema
        .createTable("webhook_log")
        .addColumn("id", "integer", (column) => column.primaryKey())
        .addColumn("position", "bigint", (column) => column.notNull())
        .addColumn("secrets", "text", (column) => column.notNull())
        .execute();
      const { position } = await db.selectFrom("log").select("position").executeTakeFirstOrThrow();
      await db.insertInto("webhook_log").values({ id: 1, position, secrets: "[]" }).execute();
      await db.schema
        .createTable("webhooks")
        .addColumn("id", "text", (column) => column.primaryKey())
        .addColumn("url", "text", (column) => column.notNull())
        .addColumn("events", "text", (column) => column.notNull())
        .addColumn("project", "text")
        .addColumn("directory", "text")
        .addColumn("description", "text", (column) => column.notNull())
        .addColumn("state", "text", (column) => column.notNull())
        .addColumn("reason", "text")
        .addColumn("secrets", "text", (column) => column.notNull())
        .addColumn("since", "bigint", (column) => column.notNull())
        .addColumn("failing_since", "bigint")
        .addColumn("created", "bigint", (column) => column.notNull())
        .addColumn("updated", "bigint", (column) => column.notNull())
        .execute();
      await db.schema
        .createTable("callbacks")
        .addColumn("stream", "text", (column) => column.primaryKey())
        .addColumn("url", "text", (column) => column.notNull())
        .execute();
      await db.schema
        .createTable("deliveries")
        .addColumn("id", "text", (column) => column.primaryKey())
        .addColumn("webhook", "text", (column) => column.notNull())
        .addColumn("target", "text", (column) => column.notNull())
        .addColumn("stream", "text", (column) => column.notNull())
        .addColumn("message", "text", (column) => column.notNull())
        .addColumn("type", "text", (column) => column.notNull())
        .addColumn("position", "bigint", (column) => column.notNull())
        .addColumn("body", "text", (column) => column.notNull())
        .addColumn("state", "text", (column) => column.notNull())
        .addColumn("attempts", "integer", (column) => column.notNull())
        .addColumn("due_at", "bigint", (column) => column.notNull())
        .addColumn("holder", "text")
        .addColumn("lease_until", "bigint")
        .addColumn("status", "integer")
        .addColumn("reason", "text")
        .addColumn("duration", "integer")
        .addColumn("created", "bigint", (column) => column.notNull())
        .addColumn("updated", "bigint", (column) => column.notNull())
        .execute();
      // At most one delivery per webhook and message, however often the log is searched.
      await db.schema
        .createIndex("deliveries_once")
        .unique()
        .on("deliveries")
        .columns(["webhook", "message"])
        .execute();
      await db.schema
        .createIndex("deliveries_due")
        .on("deliveries")
        .columns(["due_at", "position"])
        .where(sql<SqlBool>`state = 'pending'`)
        .execute();
      await db.schema
        .createIndex("deliveries_target")
        .on("deliveries")
        .columns(["target", "due_at", "position"])
        .where(sql<SqlBool>`state = 'pending'`)
        .execute();
      await db.schema
        .createIndex("deliveries_held")
        .on("deliveries")
        .columns(["target", "lease_until"])
        .where(sql<SqlBool>`state = 'pending' and lease_until is not null`)
        .execute();
      await db.schema.createIndex("deliveries_state").on("deliveries").columns(["state", "id"]).execute();
      await db.schema.createIndex("deliveries_stream").on("deliveries").column("stream").execute();
    },
  },
  {
    name: "0004-orphans",
    async up(db) {
      await db.schema
        .createTable("orphans")
        .addColumn("sha256", "text", (column) => column.primaryKey())
        .execute();
    },
  },
  {
    name: "0005-large",
    async up(db, kind) {
      await db.schema
        .alterTable("log")
        .addColumn("old", "bigint", (column) => column.notNull().defaultTo(0))
        .execute();
      await db.schema
        .alterTable("log")
        .addColumn("named", "bigint", (column) => column.notNull().defaultTo(0))
        .execute();
      await sql`update log set old = position`.execute(db);
      await db.schema.alterTable("tasks").addColumn("position", "bigint").execute();
      await db.schema
        .createTable("blob_names")
        .addColumn("sha256", "text", (column) => column.notNull())
        .addColumn("stream", "text", (column) => column.notNull())
        .addPrimaryKeyConstraint("blob_names_key", ["sha256", "stream"])
        .$call((table) => (kind === "sqlite" ? table.modifyEnd(sql`without rowid`) : table))
        .execute();
      await db.schema.createIndex("blob_names_stream").on("blob_names").column("stream").execute();

      if (kind === "postgres")
        // Rows of these tables change with every step of a Task. By default, a fifth of the rows may be dead before a
        // vacuum, which is too much for a million.
        for (const table of ["tasks", "streams"])
          await sql`alter table ${sql.table(table)} set (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02)`.execute(
            db,
          );

      const { position } = await db.selectFrom("log").select("position").executeTakeFirstOrThrow();
      // A large table of PostgreSQL gets its indexes later, without a lock that others wait for
      // (postgres/late-index.ts).
      if (kind === "postgres" && position > 0) return;
      await addIndexes(db, "0005-large");
    },
  },
  {
    name: "0006-overview",
    async up(db, kind) {
      await db.schema.alterTable("tasks").addColumn("overview", "text").execute();
      await db.schema.alterTable("tasks").addColumn("settled", "bigint").execute();
      await db.schema.alterTable("missions").addColumn("asks", "integer").execute();
      for (let after = ""; ; ) {
        const rows = await db
          .selectFrom("tasks")
          .select(["stream", "summary"])
          .where("lifecycle", "=", "active")
          .where("stream", ">", after)
          .orderBy("stream")
          .limit(500)
          .execute();
        for (const { stream, summary } of rows)
          await db
            .updateTable("tasks")
            .set(overviewOf(JSON.parse(summary) as TaskSummary))
            .where("stream", "=", stream)
            .execute();
        after = rows.at(-1)?.stream ?? "";
        if (rows.length < 500) break;
      }
      // Only the newest failures are asked for, so a month is enough; a row's last update is at or after the Task's
      // end.
      const month = Date.now() - 30 * 24 * 3600_000;
      await sql`update tasks set overview = 'failed', settled = updated
                 where lifecycle = 'failed' and archived = 0 and updated > ${month}`.execute(db);
      // A Mission with an open ask is active, so the others have none.
      await sql`update missions set asks = 0 where exists (
        select 1 from streams where streams.stream = missions.stream and lifecycle <> 'active')`.execute(db);
      const { position } = await db.selectFrom("log").select("position").executeTakeFirstOrThrow();
      if (kind === "sqlite" || position === 0) await addIndexes(db, "0006-overview");
    },
  },
  {
    // The rows of repositories by address had the hash of a path in one data folder.
    name: "0007-repositories",
    async up(db) {
      await eachProject(db, "tasks", async (before, identity) => {
        await db.updateTable("tasks").set({ project: identity.hash }).where("project", "=", before).execute();
      });
      await eachProject(db, "missions", async (before, { hash: project, identity }) => {
        const rows = await db
          .selectFrom("missions")
          .select(["stream", "mission_id"])
          .where("project", "=", before)
          .execute();
        for (const { stream, mission_id } of rows) {
          const name = nameOf(identity, mission_id);
          // Two data folders had a Mission with this id for the same repository: the second one appears only in lists.
          const taken = await db.selectFrom("missions").select("stream").where("name", "=", name).executeTakeFirst();
          await db
            .updateTable("missions")
            .set({ project, ...(taken === undefined ? { name } : {}) })
            .where("stream", "=", stream)
            .execute();
        }
      });
    },
  },
  {
    name: "0008-mission-priority",
    async up(db) {
      await db.schema
        .alterTable("missions")
        .addColumn("priority", "text", (column) => column.notNull().defaultTo("normal"))
        .execute();
    },
  },
  { name: "0009-project-counts", up: addProjectCounts },
  {
    name: "0010-text-index",
    async up(db, kind) {
      if (kind === "sqlite") await addTextIndex(db);
      const { position } = await db.selectFrom("log").select("position").executeTakeFirstOrThrow();
      if (kind === "sqlite" || position === 0) await addIndexes(db, "0010-text-index");
    },
  },
];

/**
 * Calls `change` for each project that is a repository by address and has another hash now. Takes as many steps as
 * there are projects.
 */
const eachProject = async (
  db: Kysely<Tables>,
  table: "tasks" | "missions",
  change: (before: string, after: { hash: string; identity: string }) => Promise<void>,
): Promise<void> => {
  for (let after = ""; ; ) {
    const found = await db
      .selectFrom(table)
      .select(["project", "stream"])
      .where("project", ">", after)
      .orderBy("project")
      .limit(1)
      .executeTakeFirst();
    if (found === undefined) return;
    after = found.project;
    const first = await db
      .selectFrom("events")
      .select("data")
      .where("stream", "=", found.stream)
      .where("version", "=", 1)
      .executeTakeFirst();
    const created = JSON.parse(first?.data ?? "{}") as Parameters<typeof projectOf>[0];
    if (created.repository == null) continue;
    const identity = projectOf(created);
    if (hash(identity) !== after) await change(after, { hash: hash(identity), identity });
  }
};

const addIndexes = async (db: Kysely<Tables>, by: Index["by"]): Promise<void> => {
  for (const index of indexes.filter((one) => one.by === by)) {
    await sql.raw(createIndex(index)).execute(db);
    if (index.replaces !== undefined) await sql.raw(`drop index if exists ${index.replaces}`).execute(db);
  }
};
