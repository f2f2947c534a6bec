import { z } from "zod";
import { artifact, attachmentInfo, checkState, pendingAsk, taskStatus, topology, usage } from "./status.ts";
import { repository, time } from "../field.ts";

/** Views of a Task as a whole: its board, its messages, its preview; and the list of projects that have Tasks. */

export const message = z
  .object({
    messageID: z.string(),
    sessionID: z.string(),
    role: z.enum(["user", "assistant"]),
    source: z.string().describe("Who wrote it: the caller's `source`, `checks`, or the agent's name"),
    text: z.string(),
    attachments: z.array(attachmentInfo),
    calls: z.array(
      z.object({
        callID: z.string(),
        tool: z.string(),
        input: z.unknown(),
        state: z.enum(["running", "ok", "error", "interrupted"]),
        output: z.string().nullable(),
        exitCode: z.number().int().nullable(),
        durationMs: z.number().nullable(),
      }),
    ),
    at: time,
    eventID: z.number().int(),
  })
  .meta({ id: "Message" });

export const messagePage = z
  .object({ messages: z.array(message), total: z.number().int(), nextAfter: z.number().int().nullable() })
  .meta({ id: "MessagePage" });

export const timelineEntry = z
  .object({ id: z.number().int(), type: z.string(), at: time, summary: z.string() })
  .meta({ id: "TimelineEntry" });

export const board = z
  .object({
    task: taskStatus,
    request: z.string(),
    columns: z.object({
      todo: z.array(z.string()),
      doing: z.array(z.string()),
      reviewing: z.array(z.string()),
      done: z.array(z.string()),
      blocked: z.array(z.string()),
    }),
    conversation: z.object({ messages: z.array(message), total: z.number().int() }),
    sessions: topology.shape.nodes,
    checks: z.array(checkState),
    artifacts: z.array(artifact),
    git: taskStatus.shape.git,
    pending: z.array(pendingAsk),
    timeline: z.array(timelineEntry),
    usage,
    lastEventID: z.number().int(),
    generatedAt: time,
  })
  .meta({ id: "TaskBoard" });

export const preview = z
  .object({
    url: z
      .string()
      .nullable()
      .describe("The page of the Task's server, as its sandbox sees it; null: no check starts one"),
    state: z
      .enum(["none", "unavailable", "busy", "ready"])
      .describe("none: no check starts a server. unavailable: no Chromium, or nothing committed. busy: not now"),
    captures: z.array(artifact),
  })
  .meta({ id: "Preview" });

export const project = z
  .object({
    directory: z.string().describe("From its newest Task"),
    repository: repository.nullable().describe("null: the project is a directory"),
    tasks: z.number().int(),
    active: z.number().int(),
    updated: z.number().int().describe("Milliseconds; 0: no Task yet"),
  })
  .meta({ id: "Project" });

export type TaskBoard = z.infer<typeof board>;
export type Message = z.infer<typeof message>;
export type MessagePage = z.infer<typeof messagePage>;
export type TimelineEntry = z.infer<typeof timelineEntry>;
export type Preview = z.infer<typeof preview>;
/** Where a Task in a directory would work. */
export const projectPlace = z
  .object({
    directory: z.string().describe("Real path"),
    isolation: z
      .enum(["worktree", "directory"])
      .describe("directory: in the files themselves; edits are final at once"),
    because: z.enum(["no_git", "no_commit"]).nullable().describe("Why the Task cannot work on a copy"),
    branch: z.string().nullable().describe("The branch that a result would land on; null: none is checked out"),
    landing: z.enum(["commit", "branch", "none"]).describe("As of the 202"),
    landings: z
      .array(z.enum(["commit", "branch", "pull-request"]))
      .describe(
        "The landings that a request may name; none in place; pull-request only if the clone's remote supports it",
      ),
    checks: z.array(z.string()).describe("The project's own commands, which run if a request names no checks"),
    squad: z.string().describe("The default for requests that name none"),
  })
  .meta({ id: "ProjectPlace" });

export type Project = z.infer<typeof project>;

export type ProjectPlace = z.infer<typeof projectPlace>;
