import { z } from "zod";
import { defaultLimits, type Limits } from "./limits.ts";

/** The Task routes' bodies and answers. Source: shared/spec/interface.md 2.1–2.5, completion.md "Tasks". */

const bytes = (text: string) => new TextEncoder().encode(text).length;

const withinBytes = (max: number) => (ctx: z.core.ParsePayload<string>) => {
  const size = bytes(ctx.value);
  if (size > max)
    ctx.issues.push({
      code: "custom",
      message: `Expected at most ${max} bytes, got ${size}`,
      input: ctx.value,
    });
};

const text = (max: number) => z.string().min(1).check(withinBytes(max));

export const productPillar = z.enum(["code", "work"]);
export const priority = z.enum(["critical", "high", "normal", "low"]);
export const lifecycleStatus = z.enum(["active", "completed", "failed", "cancelled"]);
export const activity = z.enum(["running", "inactive"]);
export const phase = z.enum([
  "queued",
  "preparing",
  "planning",
  "working",
  "checking",
  "reviewing",
  "waiting",
  "landing",
  "settled",
]);
export const modelRef = z
  .templateLiteral([z.string().min(1), "/", z.string().min(1)])
  .describe("provider/model, e.g. anthropic/claude-sonnet-4-5 or builtin/rules-1");

const time = z.iso.datetime().describe("ISO-8601, UTC, milliseconds");

/** The kinds of checks this version runs; those of completion.md that are missing are refused by name. */
export const checkKinds = ["command", "build", "test", "lint", "typecheck"] as const;
const laterKinds = ["http", "visual", "file", "review"];

const checkKind = z.enum(checkKinds, {
  error: (issue) =>
    laterKinds.includes(String(issue.input))
      ? `The check kind "${issue.input}" is not available in this version; available: ${checkKinds.join(", ")}`
      : undefined,
});

const relativePath = z
  .string()
  .min(1)
  .max(4096)
  .refine((path) => !path.startsWith("/") && !path.split("/").includes("..") && !path.includes("\0"), {
    error: (issue) => `Expected a path inside the project without "..", got ${JSON.stringify(issue.input)}`,
  });

export const checkRequest = z
  .strictObject({
    id: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/)
      .optional(),
    name: z.string().min(1).max(200).optional(),
    kind: checkKind,
    run: z.string().min(1).max(8192).describe("Shell command; exit 0 passes unless `expect` says otherwise"),
    cwd: relativePath.optional(),
    env: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), z.string().max(8192)).optional(),
    timeoutSeconds: z.number().int().min(1).max(86_400).default(600),
    required: z.boolean().default(true),
    baseline: z.boolean().default(false).describe("Also run on the base tree before the work"),
    expect: z
      .strictObject({
        exitCode: z.number().int().min(0).max(255).optional(),
        stdoutMatches: z.string().min(1).max(1024).optional().describe("Regular expression"),
      })
      .optional(),
  })
  .meta({ id: "Check" });

export const attachmentRequest = z
  .strictObject({ filename: z.string().min(1), mime: z.string().min(1), data: z.base64() })
  .meta({ id: "Attachment" });

export const budget = z
  .strictObject({
    maxCostUSD: z.number().positive().optional(),
    maxTokens: z.number().int().positive().optional(),
    maxSteps: z.number().int().positive().optional(),
    maxMinutes: z.number().positive().optional(),
  })
  .meta({ id: "Budget" });

const metadataOf = (limits: Limits) =>
  z.record(z.string(), z.json()).refine((value) => bytes(JSON.stringify(value)) <= limits.metadataBytes, {
    error: (issue) =>
      `Expected a JSON object of at most ${limits.metadataBytes} bytes, got ${bytes(JSON.stringify(issue.input))}`,
  });

const title = (limits: Limits) => z.string().min(1).max(limits.titleChars);
const source = (limits: Limits) => z.string().min(1).max(limits.sourceChars);

export const createRequests = (limits: Limits = defaultLimits) => {
  const attachments = z.array(attachmentRequest).max(limits.attachments);
  const surface = z.string().min(1).max(limits.sourceChars).optional();
  const reason = z.string().check(withinBytes(limits.reasonBytes)).optional();
  return {
    taskCreate: z
      .strictObject({
        request: text(limits.requestBytes).describe("Goal, constraints, acceptance conditions"),
        productPillar,
        title: title(limits).optional(),
        promptProfile: z.string().min(1).max(64).optional().describe("Exact squad package id"),
        priority: priority.optional(),
        attachments: attachments.optional(),
        checks: z
          .array(z.union([z.string().min(1).max(8192), checkRequest]))
          .max(limits.checks)
          .optional(),
        metadata: metadataOf(limits).optional(),
        model: modelRef.optional(),
        source: source(limits).optional(),
        budget: budget.optional(),
        isolation: z.enum(["worktree", "directory"]).optional(),
        landing: z.enum(["commit", "branch"]).optional(),
      })
      .meta({ id: "TaskCreate" }),
    taskMessage: z
      .strictObject({
        source: source(limits),
        text: text(limits.requestBytes),
        attachments: attachments.optional(),
        onBusy: z.enum(["auto", "queue", "interrupt", "reject"]).optional(),
      })
      .meta({ id: "TaskMessage" }),
    taskCancel: z
      .strictObject({ surface, reason, mode: z.enum(["stop", "wrap_up"]).optional() })
      .meta({ id: "TaskCancel" }),
    taskDelete: z.strictObject({ surface, reason }).meta({ id: "TaskDelete" }),
    taskPatch: z
      .strictObject({
        title: title(limits).optional(),
        priority: priority.optional(),
        archived: z.boolean().optional(),
        budget: budget.optional(),
      })
      .refine((patch) => Object.keys(patch).length > 0, {
        error: "Expected at least one of title, priority, archived, budget; got none",
      })
      .meta({ id: "TaskPatch" }),
  };
};

type Requests = ReturnType<typeof createRequests>;
export type TaskCreate = z.infer<Requests["taskCreate"]>;
export type TaskMessage = z.infer<Requests["taskMessage"]>;
export type TaskCancel = z.infer<Requests["taskCancel"]>;
export type TaskPatch = z.infer<Requests["taskPatch"]>;

/** A check with every default filled in; `id` is unique in its Task. */
export type CheckSpec = {
  id: string;
  name: string;
  kind: (typeof checkKinds)[number];
  run: string;
  cwd?: string;
  env?: Record<string, string>;
  timeoutSeconds: number;
  required: boolean;
  baseline: boolean;
  expect?: { exitCode?: number; stdoutMatches?: string };
};

// ---- answers -------------------------------------------------------------------------------------------------------

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
  pending: z.array(z.never()).describe("Questions that wait for an answer"),
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
  sandbox: z
    .object({
      tier: z.number().int(),
      name: z.enum(["bubblewrap", "pid-namespace", "process-group"]),
      network: z.boolean(),
    })
    .nullable()
    .describe("null until the first run"),
  availableActions: z.array(z.enum(["message", "cancel", "update", "archive", "delete"])),
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
    pending: z.array(z.never()),
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

export const taskDeleted = z.object({ taskID: z.string(), deleted: z.literal(true) }).meta({ id: "TaskDeleted" });

export type TaskSummary = z.infer<typeof taskSummary>;
export type TaskStatus = z.infer<typeof taskStatus>;
export type TaskDetail = z.infer<typeof taskDetail>;
export type TaskBoard = z.infer<typeof board>;
export type Message = z.infer<typeof message>;
export type MessagePage = z.infer<typeof messagePage>;
export type MessageAccepted = z.infer<typeof messageAccepted>;
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
