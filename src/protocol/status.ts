import { z } from "zod";
import {
  activity,
  budget,
  checkKinds,
  checkRequest,
  lifecycleStatus,
  phase,
  priority,
  productPillar,
  time,
} from "./task.ts";

/** What the Task routes answer: the status record, the list row, messages, the board. Source: completion.md "Tasks". */

export const squadRef = z
  .object({ id: z.string(), version: z.string(), digest: z.string(), scope: z.enum(["builtin", "user", "project"]) })
  .meta({ id: "SquadRef" });

export const taskCreated = z
  .object({
    task_id: z.string(),
    taskID: z.string(),
    directory: z.string(),
    squad: squadRef.omit({ scope: true }),
  })
  .meta({ id: "TaskCreated" });

export const usage = z
  .object({
    inputTokens: z.number().int(),
    outputTokens: z.number().int(),
    cacheReadTokens: z.number().int(),
    cacheWriteTokens: z.number().int(),
    costUSD: z.number().nullable().describe("null = unknown price"),
    modelCalls: z.number().int(),
    toolCalls: z.number().int(),
  })
  .meta({ id: "Usage" });

export const checkState = z
  .object({
    id: z.string(),
    name: z.string(),
    kind: z.enum(checkKinds),
    required: z.boolean(),
    origin: z.enum(["request", "project"]),
    state: z.enum(["pending", "running", "passed", "failed", "error"]),
    flaky: z.boolean(),
    stale: z.boolean().describe("The result is of an earlier tree"),
    exitCode: z.number().int().nullable(),
    durationMs: z.number().nullable(),
    commit: z.string().nullable(),
    tree: z.string().nullable(),
    round: z.number().int(),
    baseline: z
      .object({
        state: z.enum(["passed", "failed", "error"]),
        exitCode: z.number().int().nullable(),
        durationMs: z.number(),
      })
      .nullable()
      .describe("The result on the base tree, before the work"),
  })
  .meta({ id: "CheckState" });

export const topology = z
  .object({
    rootSessionID: z.string(),
    nodes: z.array(
      z.object({
        sessionID: z.string(),
        parentSessionID: z.string().nullable(),
        agent: z.string(),
        kind: z.enum(["mission", "orchestrator", "agent"]),
        model: z.string(),
        state: z.enum(["running", "idle", "ended"]),
        sliceIDs: z.array(z.string()),
        usage,
        startedAt: time,
        endedAt: time.nullable(),
      }),
    ),
    edges: z.array(z.object({ from: z.string(), to: z.string(), callID: z.string(), at: time })),
  })
  .meta({ id: "SessionInvocationTopology" });

const goal = z
  .object({
    sliceID: z.string(),
    order: z.number().int(),
    weight: z.enum(["blocking", "advisory"]),
    contract: z.object({
      revision: z.number().int(),
      title: z.string(),
      objective: z.string(),
      acceptance: z.array(z.string()),
    }),
  })
  .meta({ id: "Goal" });

export const errorInfo = z
  .object({ code: z.string(), retryable: z.boolean(), remedy: z.string().nullable(), at: time })
  .meta({ id: "ErrorInfo" });

export const pendingAsk = z
  .object({
    id: z.string(),
    kind: z.enum(["permission", "question"]),
    prompt: z.string(),
    options: z.array(z.string()).describe("permission: allow, deny; question: proposals, other words are welcome"),
    default: z.string().nullable().describe("What stands when nobody answers; null = the agent decides"),
    expiresAt: time,
  })
  .meta({ id: "PendingAsk" });

const common = {
  taskID: z.string(),
  title: z.string(),
  status: activity,
  lifecycleStatus,
  phase,
  progress: z.object({
    total: z.number().int(),
    running: z.number().int(),
    inactive: z.number().int(),
    percent: z.number(),
  }),
  error: z.string().optional().describe("Absent unless failed or cancelled"),
  errorInfo: errorInfo.optional(),
  productPillar,
  priority,
  source: z.string(),
  directory: z.string(),
  squad: squadRef,
  model: z.string(),
  attempt: z.number().int(),
  queue: z
    .object({ position: z.number().int(), notBefore: time.nullable(), reason: z.string() })
    .nullable()
    .describe("null unless queued"),
  pending: z.array(pendingAsk).describe("What waits for an answer"),
  checks: z.array(checkState),
  git: z.object({
    baseCommit: z.string().nullable(),
    headCommit: z.string().nullable(),
    branch: z.string().nullable(),
    checkedTree: z.string().nullable(),
    landedCommit: z.string().nullable(),
    landedTree: z.string().nullable(),
  }),
  usage,
  budget: budget.nullable(),
  budgetWarnings: z.array(z.object({ name: budget.keyof(), used: z.number(), cap: z.number(), at: time })),
  sandbox: z
    .object({
      tier: z.number().int(),
      name: z.enum(["bubblewrap", "pid-namespace", "process-group"]),
      network: z.boolean(),
    })
    .nullable()
    .describe("null until the first run"),
  availableActions: z.array(z.enum(["message", "cancel", "answer", "update", "archive", "delete"])),
  archived: z.boolean(),
  lastEventID: z.number().int(),
  metadata: z.record(z.string(), z.json()),
  createdAt: time,
  startedAt: time.nullable(),
  updatedAt: time,
  settledAt: time.nullable(),
};

export const taskSummary = z
  .object({
    ...common,
    updated: z.number().int().describe("Milliseconds; the list's cursor"),
    checkCounts: z.object({
      total: z.number().int(),
      passed: z.number().int(),
      failed: z.number().int(),
      error: z.number().int(),
      pending: z.number().int(),
    }),
    pendingCount: z.number().int(),
  })
  .meta({ id: "TaskSummary" });

export const taskStatus = z
  .object({
    ...common,
    dependencies: z
      .array(
        z.object({
          path: z.string(),
          how: z.enum(["layer", "read-only", "copied", "left-out"]),
          reason: z.string().optional(),
        }),
      )
      .describe("The project's ignored dependency folders, as the Task's commands have them"),
    goals: z.array(goal),
    sessionInvocationTopology: topology,
  })
  .meta({ id: "TaskStatus" });

const attachmentInfo = z.object({
  filename: z.string(),
  mime: z.string(),
  bytes: z.number().int(),
  sha256: z.string(),
});

export const taskDetail = taskStatus
  .extend({
    request: z.string(),
    attachments: z.array(attachmentInfo),
    requestedChecks: z.array(checkRequest.required({ id: true, name: true })),
  })
  .meta({ id: "TaskDetail" });

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
    artifacts: z.array(z.never()),
    git: z.object({
      ...common.git.shape,
      diffStat: z
        .object({ files: z.number().int(), insertions: z.number().int(), deletions: z.number().int() })
        .nullable(),
    }),
    pending: z.array(pendingAsk),
    timeline: z.array(timelineEntry),
    usage,
    lastEventID: z.number().int(),
    generatedAt: time,
  })
  .meta({ id: "TaskBoard" });

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

export const taskDeleted = z.object({ taskID: z.string(), deleted: z.literal(true) }).meta({ id: "TaskDeleted" });

export type TaskSummary = z.infer<typeof taskSummary>;
export type TaskStatus = z.infer<typeof taskStatus>;
export type TaskDetail = z.infer<typeof taskDetail>;
export type TaskBoard = z.infer<typeof board>;
export type Message = z.infer<typeof message>;
export type MessagePage = z.infer<typeof messagePage>;
export type MessageAccepted = z.infer<typeof messageAccepted>;
export type AnswerAccepted = z.infer<typeof answerAccepted>;
export type PendingAsk = z.infer<typeof pendingAsk>;
export type CancelAccepted = z.infer<typeof cancelAccepted>;
export type TimelineEntry = z.infer<typeof timelineEntry>;
export type Usage = z.infer<typeof usage>;
export type CheckState = z.infer<typeof checkState>;
export type Topology = z.infer<typeof topology>;
export type Budget = z.infer<typeof budget>;
export type Phase = z.infer<typeof phase>;
export type Priority = z.infer<typeof priority>;
export type ErrorInfo = z.infer<typeof errorInfo>;
export type LifecycleStatus = z.infer<typeof lifecycleStatus>;
export type Activity = z.infer<typeof activity>;
