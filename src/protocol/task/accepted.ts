import { z } from "zod";
import { squadRef } from "./status.ts";
import { activity, lifecycleStatus, repository } from "../field.ts";

/** Answers of the routes that change a Task. */

export const taskCreated = z
  .object({
    task_id: z.string(),
    taskID: z.string(),
    directory: z.string(),
    squad: squadRef.omit({ scope: true }),
    isolation: z.enum(["worktree", "directory"]).describe("directory: it works in the user's own files"),
    landing: z.enum(["commit", "branch", "pull-request", "none"]),
    repository: repository.optional().describe("Set if the project was given by URL"),
  })
  .meta({ id: "TaskCreated" });

export const captureAccepted = z
  .object({ artifactID: z.string(), eventID: z.number().int() })
  .meta({ id: "CaptureAccepted" });

export const messageAccepted = z
  .object({
    taskID: z.string(),
    messageID: z.string(),
    accepted: z.literal(true),
    disposition: z.enum(["steered", "queued", "interrupted", "restarted"]),
    readers: z
      .array(
        z.object({
          sessionID: z.string(),
          agent: z.string(),
          when: z
            .enum(["next_turn", "after_delegates", "when_done"])
            .describe(
              "next_turn: with its next model request. after_delegates: when the agents it waits for have ended. when_done: when it has finished",
            ),
        }),
      )
      .describe("Who reads it, and when"),
    status: activity,
    lifecycleStatus,
    eventID: z.number().int(),
  })
  .meta({ id: "MessageAccepted" });

export const retryAccepted = z
  .object({
    taskID: z.string(),
    messageID: z.string().describe("The message that carries the request in this attempt"),
    accepted: z.literal(true),
    attempt: z.number().int(),
    status: activity,
    lifecycleStatus,
    eventID: z.number().int(),
  })
  .meta({ id: "RetryAccepted" });

export const taskReverted = taskCreated
  .extend({ revertOf: z.string().describe("The Task that it reverts") })
  .meta({ id: "TaskReverted" });

export const cancelAccepted = z
  .object({
    taskID: z.string(),
    accepted: z.literal(true),
    status: activity,
    lifecycleStatus,
    eventID: z.number().int(),
  })
  .meta({ id: "CancelAccepted" });

export const answerAccepted = z
  .object({
    taskID: z.string(),
    askID: z.string(),
    accepted: z.literal(true),
    status: activity,
    lifecycleStatus,
    eventID: z.number().int(),
  })
  .meta({ id: "AnswerAccepted" });

export const interruptAccepted = z
  .object({
    taskID: z.string(),
    sessionID: z.string(),
    accepted: z.literal(true),
    status: activity,
    lifecycleStatus,
    eventID: z.number().int(),
  })
  .meta({ id: "InterruptAccepted" });

export const taskDeleted = z.object({ taskID: z.string(), deleted: z.literal(true) }).meta({ id: "TaskDeleted" });

export type MessageAccepted = z.infer<typeof messageAccepted>;
export type AnswerAccepted = z.infer<typeof answerAccepted>;
export type InterruptAccepted = z.infer<typeof interruptAccepted>;
export type RetryAccepted = z.infer<typeof retryAccepted>;
export type TaskReverted = z.infer<typeof taskReverted>;
export type CancelAccepted = z.infer<typeof cancelAccepted>;
export type CaptureAccepted = z.infer<typeof captureAccepted>;
