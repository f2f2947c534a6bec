import { type Kysely, sql } from "kysely";
import { summarise } from "../../../domain/view/summary.ts";
import { pendingOf, toPerson } from "../../../domain/session/ask.ts";
import { taskRevision } from "../../../domain/task/evolve.ts";
import type { Overview } from "../../../protocol/overview.ts";
import type { TaskSummary } from "../../../protocol/task/status.ts";
import type { Store } from "../../store.ts";
import type { Reader } from "../reader.ts";
import { hash } from "../row.ts";
import type { Kind, Tables } from "../schema.ts";

/**
 * Numbers over all projects, from an index that has only Tasks at work and failed ones: what has ended otherwise, however
 * much it is, costs nothing.
 */

type Counts = Overview["total"];
const none: Counts = { needsYou: 0, running: 0, queued: 0, failed: 0 };
const fields = { need: "needsYou", run: "running", queue: "queued", failed: "failed" } as const;

type Place = Pick<Overview["projects"][number], "directory" | "repository">;
const nowhere: Place = { directory: "", repository: null };
const placeOf = ({ directory, repository }: Pick<TaskSummary, "directory" | "repository">): Place => ({
  directory,
  // A Mission's has its branch, too.
  repository: repository == null ? null : { url: repository.url, ref: repository.ref },
});

/** Asks that are shown. */
const mostAsks = 200;

export const createOverview = (
  db: Kysely<Tables>,
  reader: Reader,
  kind: Kind,
  { state, mission }: Pick<Store, "state" | "mission">,
): Store["overview"] => {
  /** Narrows to a project. SQLite would else walk along all of it, by another index. */
  const within = (project: string | undefined) =>
    project === undefined ? sql`` : sql`and ${sql.raw(kind === "sqlite" ? "+" : "")}project = ${project}`;

  /** Where each project is: by its newest Task. */
  const placesOf = async (projects: readonly string[], signal?: AbortSignal) => {
    if (projects.length === 0) return new Map<string, Place>();
    const rows = await reader.rows(
      sql<{ project: string; summary: string }>`
        with shown (project) as (values ${sql.join(projects.map((project) => sql`(${project})`))})
        select shown.project, (select summary from tasks where tasks.project = shown.project
          order by tasks.updated desc, stream desc limit 1) as summary from shown`.compile(db),
      signal,
    );
    return new Map(
      rows.flatMap(({ project, summary }): [string, Place][] =>
        summary === null ? [] : [[project, placeOf(JSON.parse(summary) as TaskSummary)]],
      ),
    );
  };

  const missionAsks = async (project: string | undefined, signal?: AbortSignal) => {
    const rows = await reader.rows(
      sql<{ stream: string; project: string }>`
        select stream, project from missions
         where (asks is null or asks > 0) ${within(project)} order by stream`.compile(db),
      signal,
    );
    const found = [];
    for (const row of rows) {
      const fold = await mission(row.stream);
      if (fold === undefined || pendingOf(fold).length === 0) continue;
      const { missionID, title, directory } = fold;
      const about = { taskID: null, missionID, title, directory };
      found.push({
        project: row.project,
        place: placeOf(fold),
        asks: pendingOf(fold).map((ask) => ({ ...ask, ...about })),
      });
    }
    return found;
  };

  return async ({ since, project: wanted }, signal) => {
    const project = wanted === undefined ? undefined : hash(wanted);
    const own = within(project);
    const [counted, waiting, missions] = await Promise.all([
      reader.rows(
        sql<{ project: string; overview: keyof typeof fields; count: number }>`
          select project, overview, count(*) as count from tasks
           where overview in ('need', 'run', 'queue') ${own} group by project, overview
          union all
          select project, overview, count(*) as count from tasks
           where overview = 'failed' and settled >= ${since.getTime()} ${own} group by project, overview`.compile(db),
        signal,
      ),
      reader.rows(
        sql<{ stream: string; revision: number; summary: string }>`
          select stream, revision, summary from tasks where overview = 'need' ${own}
           order by stream limit ${mostAsks}`.compile(db),
        signal,
      ),
      missionAsks(project, signal),
    ]);
    const sums = new Map<string, Counts>();
    const add = (of: string, field: keyof Counts, count: number) => {
      const before = sums.get(of) ?? none;
      sums.set(of, { ...before, [field]: before[field] + count });
    };
    for (const { project: of, overview, count } of counted) add(of, fields[overview], count);
    for (const { project: of } of missions) add(of, "needsYou", 1);
    const places = await placesOf([...sums.keys()], signal);
    for (const { project: of, place } of missions) if (!places.has(of)) places.set(of, place);

    const asks: Overview["pending"] = [];
    for (const { stream, revision, summary } of waiting) {
      const fold = revision === taskRevision ? undefined : await state(stream);
      const { taskID, title, directory, pending } =
        fold === undefined ? (JSON.parse(summary) as TaskSummary) : summarise(fold);
      asks.push(...toPerson(pending).map((ask) => ({ ...ask, taskID, missionID: null, title, directory })));
    }
    const all = [...sums.values()];
    const sum = (field: keyof Counts) => all.reduce((total, counts) => total + counts[field], 0);
    return {
      since: since.toISOString(),
      total: { needsYou: sum("needsYou"), running: sum("running"), queued: sum("queued"), failed: sum("failed") },
      projects: [...sums]
        .map(([of, counts]) => ({ ...(places.get(of) ?? nowhere), ...counts }))
        .toSorted((one, other) => (one.directory < other.directory ? -1 : 1)),
      pending: [...asks, ...missions.flatMap((one) => one.asks)].slice(0, mostAsks),
    };
  };
};
