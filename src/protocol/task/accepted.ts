import { z } from "zod";
import { squadRef } from "./status.ts";
import { activity, lifecycleStatus } from "../field.ts";

/** Answers of the routes that change a Task. */

export const taskCreated = z
  .object({
    task_id: z.string(),
    taskID: z.string(),
    directory: z.string(),
    squad: squadRef.omit({ scope: true }),
    isolation: z.enum(["worktree", "directory"]).describe("directory: it works in the user's own files"),
    landing: z.enum(["commit", "branch", "none"]),
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
    status: activity,
    lifecycleStatus,
    eventID: z.number().int(),
  })
  .meta({ id: "MessageAccepted" });

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
export type CancelAccepted = z.infer<typeof cancelAccepted>;
export type CaptureAccepted = z.infer<typeof captureAccepted>;
