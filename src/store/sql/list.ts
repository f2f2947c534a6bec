import { type Expression, type Kysely, type SqlBool, sql } from "kysely";
import type { StreamID } from "../../domain/event.ts";
import { taskRevision } from "../../domain/task/evolve.ts";
import { missionRevision } from "../../domain/mission/evolve.ts";
import { type MissionRow, rowOf } from "../../domain/mission/status.ts";
import { summarise } from "../../domain/view/summary.ts";
import type { TaskSummary } from "../../protocol/task/status.ts";
import { hash, nameOf, plain } from "./row.ts";
import type { Tables } from "./schema.ts";
import type { Store } from "../store.ts";

/** Lists of Tasks, Missions and projects, with the same SQL for both databases. */

/** The `like` pattern that matches the text anywhere. */
const patternOf = (search: string): string =>
  `%${plain(search)
    .toLowerCase()
    .replaceAll(/[\\%_]/g, "\\$&")}%`;

/**
 * A row written by an older revision of the fold is computed from the events instead; the next commit of its stream
 * updates the row.
 */
const taskOf = async (
  { stream, revision, summary }: { stream: StreamID; revision: number; summary: string },
  state: Store["state"],
): Promise<TaskSummary> => {
  const fold = revision === taskRevision ? undefined : await state(stream);
  return fold === undefined ? (JSON.parse(summary) as TaskSummary) : summarise(fold);
};

export const createLists = (
  db: Kysely<Tables>,
  state: Store["state"],
  mission: Store["mission"],
): Pick<Store, "list" | "missions" | "projects" | "missionsNamed" | "dispatched" | "productions"> => ({
  async list(query) {
    const rows = await db
      .selectFrom("tasks")
      .select(["stream", "revision", "summary"])
      .where("project", "=", hash(query.project))
      .where((row) => {
        const all: Expression<SqlBool>[] = [];
        const { status, lifecycleStatus, productPillar, promptProfile, priority, cursor, search } = query;
        if (status !== undefined) all.push(row("lifecycle", status === "running" ? "=" : "<>", "active"));
        if (lifecycleStatus !== undefined) all.push(row("lifecycle", "=", lifecycleStatus));
        if (productPillar !== undefined) all.push(row("pillar", "=", productPillar));
        if (query.missionID !== undefined) all.push(row("mission_id", "=", query.missionID));
        if (promptProfile !== undefined) all.push(row("squad", "=", promptProfile));
        if (priority !== undefined) all.push(row("priority", "=", priority));
        if (query.archived !== true) all.push(row("archived", "=", 0));
        if (cursor !== undefined)
          all.push(
            row.or([
              row("updated", "<", cursor.updated),
              row.and([row("updated", "=", cursor.updated), row("tasks.stream", "<", cursor.taskID)]),
            ]),
          );
        if (search !== undefined && search !== "") {
          const texts = row.selectFrom("texts").select("texts.stream").whereRef("texts.stream", "=", "tasks.stream");
          all.push(row.exists(texts.where(sql<SqlBool>`texts.text like ${patternOf(search)} escape '\\'`)));
        }
        for (const [key, value] of Object.entries(query.metadata ?? {})) {
          const entries = row
            .selectFrom("metadata")
            .select("metadata.stream")
            .whereRef("metadata.stream", "=", "tasks.stream")
            .where("metadata.key", "=", plain(key))
            .where("metadata.value", "=", plain(value));
          all.push(row.exists(entries));
        }
        return row.and(all);
      })
      .orderBy("updated", "desc")
      .orderBy("tasks.stream", "desc")
      .limit(query.limit)
      .execute();
    return Promise.all(rows.map((row) => taskOf(row, state)));
  },

  async missions(query) {
    const found = await db
      .selectFrom("missions")
      .select(["stream", "revision", "summary"])
      .where((row) => {
        const all: Expression<SqlBool>[] = [];
        const { project, cursor, search } = query;
        if (project !== undefined) all.push(row("project", "=", hash(project)));
        if (query.archived !== true) all.push(row("archived", "=", 0));
        if (cursor !== undefined)
          all.push(
            row.or([
              row("updated", "<", cursor.updated),
              row.and([row("updated", "=", cursor.updated), row("missions.stream", "<", cursor.sessionID)]),
            ]),
          );
        if (search !== undefined && search !== "") {
          const texts = row.selectFrom("texts").select("texts.stream").whereRef("texts.stream", "=", "missions.stream");
          all.push(row.exists(texts.where(sql<SqlBool>`texts.text like ${patternOf(search)} escape '\\'`)));
        }
        return row.and(all);
      })
      .orderBy("updated", "desc")
      .orderBy("missions.stream", "desc")
      .limit(query.limit)
      .execute();
    if (found.length === 0) return [];
    const counted = await db
      .selectFrom("tasks")
      .select(["mission", "lifecycle", (count) => count.fn.countAll<number>().as("count")])
      .where(
        "mission",
        "in",
        found.map(({ stream }) => stream),
      )
      .groupBy(["mission", "lifecycle"])
      .execute();
    const stats = new Map(found.map(({ stream }) => [stream, { active: 0, completed: 0, failed: 0, cancelled: 0 }]));
    for (const { mission: of, lifecycle, count } of counted) {
      const sums = stats.get(of ?? "");
      if (sums !== undefined) sums[lifecycle] = count;
    }
    return Promise.all(
      found.map(async ({ stream, revision, summary }) => {
        const fold = revision === missionRevision ? undefined : await mission(stream);
        return {
          row: fold === undefined ? (JSON.parse(summary) as MissionRow) : rowOf(fold),
          stats: stats.get(stream) ?? { active: 0, completed: 0, failed: 0, cancelled: 0 },
        };
      }),
    );
  },

  async projects(limit) {
    const rows = await db
      .selectFrom("tasks")
      .select(({ fn }) => [
        "project",
        fn.countAll<number>().as("tasks"),
        fn.sum<number>(sql<number>`case when lifecycle = 'active' then 1 else 0 end`).as("active"),
        fn.max("updated").as("updated"),
      ])
      .groupBy("project")
      .orderBy(({ fn }) => fn.max("updated"), "desc")
      .limit(limit)
      .execute();
    return Promise.all(
      rows.map(async ({ project, tasks, active, updated }) => {
        const { summary } = await db
          .selectFrom("tasks")
          .select("summary")
          .where("project", "=", project)
          .orderBy("updated", "desc")
          .orderBy("stream", "desc")
          .limit(1)
          .executeTakeFirstOrThrow();
        const { directory } = JSON.parse(summary) as TaskSummary;
        return { directory, tasks, active, updated };
      }),
    );
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
    return Promise.all(rows.map((row) => taskOf(row, state)));
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
    return Promise.all(rows.map((row) => taskOf(row, state)));
  },
});
