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
 * Numbers over all projects: Tasks at work from the counts that are stored for each project, failed ones from an index
 * that has little else. Ended Tasks cost nothing, however many there are.
 */

type Counts = Overview["total"];
const none: Counts = { needsYou: 0, running: 0, queued: 0, failed: 0 };
const fields = { need: "needsYou", run: "running", queue: "queued", failed: "failed" } as const;

type Place = Pick<Overview["projects"][number], "directory" | "repository">;
const nowhere: Place = { directory: "", repository: null };
const placeOf = ({ directory, repository }: Pick<TaskSummary, "directory" | "repository">): Place => ({
  directory,
  // The repository of a Mission has its branch, too.
  repository: repository == null ? null : { url: repository.url, ref: repository.ref },
});

/** The most asks that are shown. */
const mostAsks = 200;

const states = ["need", "run", "queue"] as const;

const mostKnown = 10_000;

/** The most values of one query. */
const chunk = 500;
const chunks = <T>(all: readonly T[]): T[][] =>
  Array.from({ length: Math.ceil(all.length / chunk) }, (_, index) => all.slice(index * chunk, (index + 1) * chunk));

export const createOverview = (
  db: Kysely<Tables>,
  reader: Reader,
  kind: Kind,
  { state, mission }: Pick<Store, "state" | "mission">,
): Store["overview"] => {
  /**
   * Narrows a query to a project. With `+`, because SQLite would otherwise walk along the whole project, by another
   * index.
   */
  const within = (project: string | undefined) =>
    project === undefined ? sql`` : sql`and ${sql.raw(kind === "sqlite" ? "+" : "")}project = ${project}`;

  /** The places of Tasks that are the latest of their projects; a Task's place does not change. */
  const known = new Map<string, Place>();

  /** The place of each project, by its latest Task; most of these are known already. */
  const placesOf = async (projects: readonly string[], signal?: AbortSignal) => {
    const latest: { project: string; stream: string }[] = [];
    for (const part of chunks(projects))
      latest.push(
        ...(await reader.rows(
          sql<{ project: string; stream: string }>`
            select project, stream from (
              select project, coalesce(latest, (select stream from tasks where tasks.project = project_counts.project
                order by updated desc, stream desc limit 1)) as stream
                from project_counts where project in (${sql.join(part)})) found
             where stream is not null`.compile(db),
          signal,
        )),
      );
    if (known.size > mostKnown) known.clear();
    for (const part of chunks(latest.map(({ stream }) => stream).filter((stream) => !known.has(stream))))
      for (const { stream, summary } of await reader.rows(
        db.selectFrom("tasks").select(["stream", "summary"]).where("stream", "in", part).compile(),
        signal,
      ))
        known.set(stream, placeOf(JSON.parse(summary) as TaskSummary));
    return new Map(
      latest.flatMap(({ project, stream }): [string, Place][] => {
        const place = known.get(stream);
        return place === undefined ? [] : [[project, place]];
      }),
    );
  };

  const atWork = async (project: string | undefined, signal?: AbortSignal) => {
    type Row = Pick<Tables["project_counts"], "project" | "counted" | "need" | "run" | "queue">;
    const own = project === undefined ? sql`` : sql`and project = ${project}`;
    const kept = await reader.rows(
      sql<Row>`
        select project, counted, need, run, queue from project_counts
         where (counted = 0 or need > 0 or run > 0 or queue > 0) ${own}`.compile(db),
      signal,
    );
    const uncounted = new Set(kept.filter(({ counted }) => counted === 0).map((row) => row.project));
    const found = kept
      .filter(({ counted }) => counted === 1)
      .flatMap((row) => states.map((state) => ({ project: row.project, overview: state, count: row[state] })));
    if (uncounted.size === 0) return found;
    const rest = await reader.rows(
      sql<(typeof found)[number]>`
        select project, overview, count(*) as count from tasks
         where overview in ('need', 'run', 'queue') ${within(project)} group by project, overview`.compile(db),
      signal,
    );
    return [...found, ...rest.filter((row) => uncounted.has(row.project))];
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
    const [working, failed, waiting, missions] = await Promise.all([
      atWork(project, signal),
      reader.rows(
        sql<{ project: string; overview: "failed"; count: number }>`
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
    for (const { project: of, overview, count } of [...working, ...failed])
      if (count > 0) add(of, fields[overview], count);
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
