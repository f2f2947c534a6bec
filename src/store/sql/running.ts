import type { Kysely } from "kysely";
import type { StreamID } from "../../domain/event.ts";
import type { RunningTasks } from "../store.ts";
import type { Tables } from "./schema.ts";

/** The Tasks on which a claim is held, and the projects of the named Tasks, with the same SQL for both databases. */
export const runningIn = async (db: Kysely<Tables>, named: readonly StreamID[]): Promise<RunningTasks> => {
  const held = await db
    .selectFrom("streams")
    .innerJoin("tasks", "tasks.stream", "streams.stream")
    .select(["tasks.stream", "tasks.project"])
    .where("streams.holder", "is not", null)
    .execute();
  const own =
    named.length === 0
      ? []
      : await db
          .selectFrom("tasks")
          .select(["stream", "project"])
          .where("stream", "in", [...named])
          .execute();
  const byStream = (rows: typeof held) => new Map(rows.map(({ stream, project }) => [stream, project]));
  return { running: byStream(held), projects: byStream(own) };
};
