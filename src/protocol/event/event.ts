import { z } from "zod";
import { checkSpec } from "../check.ts";
import { taskMission } from "../mission/status.ts";
import { missionEvents, productionEvents } from "./mission.ts";
import { sliceEvents } from "./slice.ts";
import { artifactBy, errorInfo, production, squadRef } from "../task/status.ts";
import { talkEvents } from "./conversation.ts";
import {
  approvable,
  budget,
  effort,
  recordedLimits,
  lifecycleStatus,
  modelRef,
  priority,
  productPillar,
  repository,
} from "../field.ts";
import { attachmentRef, gitID, longText, sha256 } from "../text.ts";
import { workEvents } from "./workspace.ts";

/**
 * The events of Tasks and Missions, as they are in the log and on `GET /task/{taskID}/events`: one schema per type,
 * from which the TypeScript types are inferred. Event types are only ever added; a changed meaning needs a new type. A
 * text longer than 16 KiB becomes a blob that the event names, so that no event exceeds 64 KiB.
 */

export const eventData = {
  "task.created": z.object({
    taskID: z.string(),
    title: z.string(),
    titleBy: z.enum(["caller", "service"]),
    request: longText,
    productPillar,
    priority,
    source: z.string(),
    directory: z.string().describe("Real path"),
    project: z
      .string()
      .describe("The real path of the Git common directory, else of the directory; for a repository, its URL"),
    node: z
      .string()
      .exactOptional()
      .describe("With several nodes: the node that has the directory, if the request went to another one"),
    repository: repository
      .exactOptional()
      .describe("Set if the project was given by URL; `directory` is where the service keeps its files"),
    remote: repository
      .exactOptional()
      .describe(
        "The remote of the directory's clone: the result is a pull request there, and the base is the remote's",
      ),
    checks: z.array(checkSpec),
    unchecked: z
      .literal(true)
      .exactOptional()
      .describe("The request's `checks` are an empty list, so not even the project's own checks run"),
    attachments: z.array(attachmentRef),
    metadata: z.record(z.string(), z.json()),
    squad: squadRef,
    model: modelRef,
    effort: effort.exactOptional().describe("The reasoning effort, if the request names one"),
    reviewModel: modelRef
      .exactOptional()
      .describe("For a Mission's Task: the model of reviewers whose squad names none"),
    isolation: z.enum(["worktree", "directory"]),
    landing: z.enum(["commit", "branch", "pull-request", "none"]),
    budget: budget.nullable(),
    sessionID: z.string().describe("The Orchestrator's session"),
    agent: z.string(),
    mission: taskMission.exactOptional(),
    phase: z
      .object({ title: z.string(), objective: z.string(), acceptance: z.array(z.string()) })
      .exactOptional()
      .describe("The phase of the Mission's plan that it delivers, as in the plan at that time"),
    callbackURL: z.string().exactOptional().describe("Without its query, which may be a secret"),
    production: production.exactOptional(),
    outputSchema: longText.exactOptional().describe("The output's JSON Schema, as JSON text"),
    contrast: z.literal(false).exactOptional().describe("false: no proof by contrast"),
    approve: z.array(approvable).exactOptional().describe("What requires a person's approval"),
    onto: z
      .string()
      .exactOptional()
      .describe("The branch (refs/heads/…) on which it starts and lands, whatever the project has checked out"),
    mergeOf: z
      .object({ branch: z.string(), commit: gitID, title: z.string() })
      .exactOptional()
      .describe("It merges this commit of its Mission's branch; the service does this itself"),
    judges: z
      .literal(true)
      .exactOptional()
      .describe("It judges the whole that its Mission came to; what it writes is thrown away"),
    limits: recordedLimits.exactOptional().describe("Overrides the service's"),
    terms: z
      .object({
        squads: z.string(),
        permissions: z.string(),
        providers: z.string(),
        limits: z.string(),
        tier: z.number().int(),
        browser: z.boolean(),
      })
      .exactOptional()
      .describe(
        "With several nodes: digests of the configuration of the node that accepted it, the tier of its sandbox, and whether checks need a browser. If the project was given by URL, only a node that has the same takes it",
      ),
    revertOf: z
      .object({ taskID: z.string(), title: z.string(), commits: z.array(gitID).describe("Newest first") })
      .exactOptional()
      .describe("It reverts what this Task landed; the service makes the change itself"),
  }),
  "task.updated": z.object({
    title: z.string().exactOptional(),
    titleBy: z.literal("service").exactOptional().describe("The title of what landed, because no caller gave one"),
    priority: priority.exactOptional(),
    archived: z.boolean().exactOptional(),
    budget: budget.nullable().exactOptional(),
  }),
  /** A worker started to run the Task: for the first time, after a restart of the service, or after a cancel. */
  "run.started": z.object({
    worker: z.string(),
    epoch: z.number(),
    sandbox: z.object({
      tier: z.number(),
      name: z.enum(["bubblewrap", "container", "pid-namespace", "process-group"]),
      network: z.boolean(),
    }),
    killed: z.array(z.number()).describe("Process groups of an earlier run that were still alive and were killed"),
    alone: z
      .literal(true)
      .exactOptional()
      .describe("The service died twice in a row within this step, so nothing else runs at the same time"),
  }),
  /** The service was stopped in an orderly way, as opposed to a crash. */
  "run.stopped": z.object({ reason: z.string() }),
  /** A step was chosen again although nothing new was recorded. It is tried again after a wait, at most four times. */
  "run.stuck": z.object({
    step: z.string(),
    version: z.number().describe("The state's version for which the step was chosen"),
  }),
  /** The run waits and begins nothing new. Absent if the disk was too full to write this event. */
  "run.paused": z.object({ code: z.enum(["disk_low", "repository_unavailable"]), reason: z.string() }),
  /** The run continues. The time since the pause began does not count as the Task's. */
  "run.resumed": z.object({
    code: z.enum(["disk_low", "repository_unavailable"]),
    since: z.iso.datetime().describe("When the pause began"),
  }),
  ...talkEvents,
  ...workEvents,
  /** A file kept with the result: its bytes are the blob `sha256`. */
  "artifact.recorded": z.object({
    artifactID: z.string(),
    filename: z.string(),
    title: z.string(),
    mime: z.string(),
    bytes: z.number().int(),
    sha256,
    by: artifactBy,
    sliceID: z.string().exactOptional().describe("The delivery slice that it is evidence for"),
  }),
  /** 80 % of a cap is used: written once per cap, and again after the cap was raised. */
  "budget.warned": z.object({ name: budget.keyof(), used: z.number(), cap: z.number() }),
  ...sliceEvents,
  ...missionEvents,
  ...productionEvents,
  "cancel.requested": z.object({
    surface: z.string(),
    reason: z.string(),
    mode: z.enum(["stop", "wrap_up"]),
    byUser: z.literal(true).exactOptional().describe("A person's, though its surface is `mission`"),
  }),
  "task.settled": z.object({
    lifecycleStatus: lifecycleStatus.exclude(["active"]),
    summary: longText,
    error: z.string().exactOptional(),
    errorInfo: errorInfo.exactOptional(),
  }),
} as const;

export type EventType = keyof typeof eventData;
export type EventData = { [K in EventType]: z.infer<(typeof eventData)[K]> };

/** Whether this version of the service knows an event type found in the log. */
export const isKnown = (type: string): type is EventType => type in eventData;
