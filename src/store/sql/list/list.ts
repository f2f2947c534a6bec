import { setImmediate } from "node:timers/promises";
import { type Expression, type Kysely, type SqlBool, sql } from "kysely";
import type { StreamID } from "../../../domain/event.ts";
import { taskRevision } from "../../../domain/task/evolve.ts";
import { missionRevision } from "../../../domain/mission/evolve.ts";
import { type MissionRow, rowOf } from "../../../domain/mission/status.ts";
import { summarise } from "../../../domain/view/summary.ts";
import type { TaskSummary } from "../../../protocol/task/status.ts";
import { before, createKeys, entry, matches, unindexed } from "./list-key.ts";
import { createTextSearch, hasTrigrams } from "./text-index.ts";
import type { Reader } from "../reader.ts";
import { hash, nameOf, storableText } from "../row.ts";
import type { Kind, Tables } from "../schema.ts";
import type { Store } from "../../store.ts";

/** Lists of Tasks, Missions and projects, with the same SQL for both databases. */

/**
 * The summary in a row. If an older revision of the fold wrote the row, the summary is computed from the events
 * instead; the next commit of its stream updates the row.
 */
const taskOf = async (
  { stream, revision, summary }: { stream: StreamID; revision: number; summary: string },
  state: Store["state"],
): Promise<TaskSummary> => {
  const fold = revision === taskRevision ? undefined : await state(stream);
  return fold === undefined ? (JSON.parse(summary) as TaskSummary) : summarise(fold);
};

/** One after the other, so that folding rows of an older revision lets other work have its turn. */
const inTurn = async <Row, T>(rows: readonly Row[], make: (row: Row) => Promise<T>): Promise<T[]> => {
  const made: T[] = [];
  let begun = performance.now();
  for (const row of rows) {
    made.push(await make(row));
    if (performance.now() - begun < turnMs) continue;
    await setImmediate();
    begun = performance.now();
  }
  return made;
};

const turnMs = 10;

const none = { active: 0, completed: 0, failed: 0, cancelled: 0, asking: 0 };

export const createLists = (
  db: Kysely<Tables>,
  reader: Reader,
  kind: Kind,
  folds: Pick<Store, "state" | "mission">,
): Pick<Store, "list" | "aged" | "missions" | "projects" | "missionsNamed" | "dispatched" | "productions"> => {
  const { state, mission } = folds;
  const byText = createTextSearch(db, reader);
  const keys = createKeys(db, reader, kind, byText);
  return {
    async list(query, signal) {
      const streams = await keys(query, signal);
      if (streams.length === 0) return [];
      const rows = await reader.rows(
        db
          .selectFrom("tasks")
          .select(["stream", "revision", "summary"])
          .where("stream", "in", streams)
          .orderBy("updated", "desc")
          .orderBy("stream", "desc")
          .compile(),
        signal,
      );
      return inTurn(rows, (row) => taskOf(row, state));
    },

    async aged({ before: edge, limit, after }, signal) {
      const rows =
        after === undefined
          ? []
          : await reader.rows(
              sql<Pick<Tables["tasks"], "stream" | "revision" | "summary" | "updated">>`
                select stream, revision, summary, updated from tasks
                 where project = ${after.project} and updated < ${edge.getTime()}
                   and (updated, stream) > (${after.updated}, ${after.stream}) and lifecycle <> 'active'
                   and not exists (select 1 from missions where missions.stream = tasks.mission)
                 order by updated, stream limit ${limit}`.compile(db),
              signal,
            );
      const last = rows.at(-1);
      const tasks = await inTurn(rows, (row) => taskOf(row, state));
      if (after !== undefined && last !== undefined && rows.length === limit)
        return { tasks, next: { project: after.project, updated: last.updated, stream: last.stream } };
      const [found] = await reader.rows(
        sql<{ project: string | null }>`
          select min(project) as project from tasks where project > ${after?.project ?? ""}`.compile(db),
        signal,
      );
      return { tasks, next: found?.project == null ? undefined : { project: found.project, updated: 0, stream: "" } };
    },

    async missions(query, signal) {
      const { project, cursor, search = "" } = query;
      const among = kind === "sqlite" && hasTrigrams(search) ? await byText(search, "missions", signal) : undefined;
      const found = await reader.rows(
        db
          .selectFrom("missions")
          .select(["stream", "revision", "summary"])
          .where((row) => {
            const all: Expression<SqlBool>[] = [];
            if (project !== undefined)
              all.push(sql<SqlBool>`${unindexed(among !== undefined)}project = ${hash(project)}`);
            if (among !== undefined) all.push(sql<SqlBool>`missions.stream in (${among})`);
            if (query.archived !== true) all.push(row("archived", "=", 0));
            if (cursor !== undefined) all.push(before(cursor.updated, cursor.sessionID));
            if (search !== "") all.push(matches("missions", search));
            if (query.priority !== undefined) all.push(row("priority", "=", query.priority));
            for (const [key, value] of Object.entries(query.metadata ?? {})) {
              const one = entry(storableText(key), storableText(value));
              all.push(sql<SqlBool>`missions.stream in (select stream from metadata where ${one})`);
            }
            return row.and(all);
          })
          .orderBy(sql`${unindexed(among !== undefined)}updated`, "desc")
          .orderBy("missions.stream", "desc")
          .limit(query.limit)
          .compile(),
        signal,
      );
      if (found.length === 0) return [];
      const counted = await reader.rows(
        db
          .selectFrom("tasks")
          .select(["mission", "lifecycle", "overview", (count) => count.fn.countAll<number>().as("count")])
          .where(
            "mission",
            "in",
            found.map(({ stream }) => stream),
          )
          .groupBy(["mission", "lifecycle", "overview"])
          .compile(),
        signal,
      );
      const stats = new Map(found.map(({ stream }) => [stream, { ...none }]));
      for (const { mission: of, lifecycle, overview, count } of counted) {
        const sums = stats.get(of ?? "");
        if (sums === undefined) continue;
        sums[lifecycle] += count;
        if (overview === "need") sums.asking += count;
      }
      return inTurn(found, async ({ stream, revision, summary }) => {
        const fold = revision === missionRevision ? undefined : await mission(stream);
        return {
          row: fold === undefined ? (JSON.parse(summary) as MissionRow) : rowOf(fold),
          stats: stats.get(stream) ?? none,
        };
      });
    },

    async projects(limit, signal) {
      // The counts are stored; the newest Task of each project comes from the index `tasks_page`. A project that is not
      // counted yet is counted here.
      const own = sql`from tasks where tasks.project = shown.project`;
      const rows = await reader.rows(
        sql<{ tasks: number; active: number; updated: number; summary: string }>`
          with shown as (
            select project, tasks, active, counted,
                   (select max(updated) from tasks where tasks.project = project_counts.project) as updated
              from project_counts order by updated desc ${sql.raw(kind === "postgres" ? "nulls last" : "")} limit ${limit}
          )
          select shown.updated,
                 case when counted = 1 then tasks else (select count(*) ${own}) end as tasks,
                 case when counted = 1 then active else (select count(*) ${own} and lifecycle = 'active') end as active,
                 (select summary ${own} order by tasks.updated desc, stream desc limit 1) as summary
            from shown where shown.updated is not null order by shown.updated desc`.compile(db),
        signal,
      );
      return rows.map(({ tasks, active, updated, summary }) => {
        const { directory, repository } = JSON.parse(summary) as TaskSummary;
        return { directory, repository: repository ?? null, tasks, active, updated };
      });
    },

    async missionsNamed(missionID, project) {
      const query = db.selectFrom("missions").select("stream");
      const found =
        project === undefined
          ? query.where("mission_id", "=", missionID)
          : query.where("name", "=", nameOf(project, missionID));
      return (await found.orderBy("stream").execute()).map(({ stream }) => stream);
    },

    async dispatched(mission) {
      const rows = await db
        .selectFrom("tasks")
        .select(["stream", "revision", "summary"])
        .where("mission", "=", mission)
        .orderBy("stream")
        .execute();
      return inTurn(rows, (row) => taskOf(row, state));
    },

    async productions(project) {
      const rows = await db
        .selectFrom("tasks")
        .select(["stream", "revision", "summary"])
        .where("project", "=", hash(project))
        .where("production", "is not", null)
        .where("lifecycle", "=", "active")
        .orderBy("stream")
        .execute();
      return inTurn(rows, (row) => taskOf(row, state));
    },
  };
};
