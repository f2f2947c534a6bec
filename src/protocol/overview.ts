import { z } from "zod";
import { repository, time } from "./field.ts";
import { pendingAsk } from "./task/status.ts";

/** The overview of all projects: numbers of Tasks and Missions, and what waits for an answer. */

const counts = {
  needsYou: z.number().int().describe("Tasks and Missions that wait for an answer"),
  running: z.number().int().describe("Running Tasks, without those that wait for an answer"),
  queued: z.number().int(),
  failed: z.number().int().describe("Tasks that failed since `since`, without archived ones"),
};

export const overviewAsk = pendingAsk
  .extend({
    taskID: z.string().nullable(),
    missionID: z.string().nullable().describe("For a Mission's own ask; its taskID is null"),
    title: z.string(),
    directory: z.string(),
  })
  .meta({ id: "OverviewAsk" });

export const overview = z
  .object({
    since: time,
    total: z.object(counts),
    projects: z
      .array(
        z.object({
          directory: z.string().describe("Of the project's newest Task or Mission"),
          repository: repository.nullable().describe("null: the project is a directory"),
          ...counts,
        }),
      )
      .describe("Projects with a count that is not 0"),
    pending: z.array(overviewAsk).describe("The open asks, the oldest Task's first; at most 200"),
  })
  .meta({ id: "Overview" });

export type Overview = z.infer<typeof overview>;
