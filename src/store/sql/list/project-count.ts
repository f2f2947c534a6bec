import { type Kysely, sql } from "kysely";
import type { Log } from "../../../log.ts";
import type { Kind, Tables } from "../schema.ts";
import type { Atomically } from "../write.ts";
import { inSteps, type Steps } from "./background-steps.ts";

/**
 * Counts the Tasks of projects from before counts were stored, one project at a time, in the background. Until then,
 * readers count for themselves. If a process ends in between, the next one does the rest.
 */
export const countProjects = (options: { db: Kysely<Tables>; kind: Kind; atomically: Atomically; log: Log }): Steps => {
  const { db, log } = options;
  let counted = 0;
  const step = async (): Promise<number | undefined> => {
    const { rows } = await sql<{ project: string }>`
      select project from project_counts where counted = 0 order by project limit 1`.execute(db);
    const [next] = rows;
    if (next === undefined) {
      if (counted > 0) log.info({ projects: counted }, "the Tasks of all projects are counted");
      return undefined;
    }
    if (counted === 0)
      log.info({}, "the Tasks of all projects are being counted; lists of projects take longer until then");
    await countProject(options, next.project);
    counted += 1;
    if (counted % 1000 === 0) log.info({ projects: counted }, "Tasks are being counted");
    return 0;
  };
  return inSteps({ step, failed: "the Tasks of a project could not be counted; it is tried again", log });
};

/**
 * What concurrent commits add waits for the row (PostgreSQL) or for the transaction, and is then added to the count. So
 * the row is locked first, and the statement after that sees everything that was added before.
 */
const countProject = async (
  { db, kind, atomically }: Parameters<typeof countProjects>[0],
  project: string,
): Promise<void> => {
  const own = sql`from tasks where tasks.project = ${project}`;
  const active = sql`${own} and lifecycle = 'active'`;
  const lock = sql`select 1 from project_counts where project = ${project} for update`.compile(db);
  await atomically([
    ...(kind === "postgres" ? [lock] : []),
    sql`
      update project_counts set counted = 1,
        tasks = (select count(*) ${own}),
        active = (select count(*) ${active}),
        need = (select count(*) ${active} and overview = 'need'),
        run = (select count(*) ${active} and overview = 'run'),
        queue = (select count(*) ${active} and overview = 'queue'),
        latest = (select stream ${own} order by updated desc, stream desc limit 1)
       where project = ${project} and counted = 0`.compile(db),
    // All Tasks of the project were deleted meanwhile.
    sql`delete from project_counts where project = ${project} and counted = 1 and tasks = 0`.compile(db),
  ]);
};
