import { z } from "zod";
import { checkKinds, checkSpec, viewport } from "../check.ts";
import {
  activity,
  approvable,
  budget,
  effort,
  lifecycleStatus,
  now,
  ownLimits,
  phase,
  priority,
  productPillar,
  pullRequest,
  repository,
  time,
  would,
} from "../field.ts";

/** The status record of a Task, its list row, and the parts of both. Source: completion.md "Tasks". */

export const squadRef = z
  .object({ id: z.string(), version: z.string(), digest: z.string(), scope: z.enum(["builtin", "user", "project"]) })
  .meta({ id: "SquadRef" });

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
    gates: z
      .boolean()
      .describe(
        "One of the project's own checks that passed on the base and must therefore pass at the end, although it is not required",
      ),
    origin: z.enum(["request", "project"]),
    state: z.enum(["pending", "running", "passed", "failed", "error"]),
    flaky: z.boolean().describe("It failed, then passed when run again on the same tree"),
    stale: z.boolean().describe("The result is from an earlier tree"),
    redefined: z
      .array(z.string())
      .describe(
        "Parts of its definition that the Task changed: it also ran with the earlier version, and both runs count",
      ),
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
      .describe("The result on the base tree, without the work"),
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
        effort: effort.nullable().describe("The reasoning effort of its newest reply; null: none was requested"),
        state: z.enum(["running", "idle", "ended"]),
        sliceIDs: z.array(z.string()),
        usage,
        startedAt: time,
        endedAt: time.nullable(),
      }),
    ),
    edges: z.array(
      z.object({
        from: z.string(),
        to: z.string(),
        callID: z.string().nullable().describe("null: a review by the service"),
        at: time,
      }),
    ),
  })
  .meta({ id: "SessionInvocationTopology" });

export const contrast = z
  .object({
    result: z
      .enum(["proves", "same", "cannot-run"])
      .describe("proves: failed on the base, passes with the change. same: passes on both"),
    command: z.string().nullable(),
    firstLines: z
      .string()
      .nullable()
      .describe("The first lines of the failure on the base, or of the reason why it cannot run"),
    reason: z.string().nullable().describe("Why it cannot run"),
  })
  .meta({ id: "Contrast" });

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
    execution: z.object({
      state: z.enum(["waiting", "running", "finished"]),
      sessionIDs: z.array(z.string()),
      attempts: z.number().int().describe("Sessions that were started for it, including the Orchestrator's"),
      startedAt: time.nullable(),
      endedAt: time.nullable(),
    }),
    evidence: z
      .array(
        z.object({
          id: z.string().describe("The id of the call, check, commit or artifact"),
          kind: z.enum(["change", "command", "check", "artifact", "contrast"]),
          summary: z.string(),
          lastLines: z
            .string()
            .nullable()
            .describe("Parts of the output of a command or check: the first error of a failure, the counts, the end"),
          contrast: contrast.nullable().describe("Only for the kind contrast; null for others"),
          sessionID: z.string().nullable(),
          commit: z.string().nullable(),
          stale: z.boolean().describe("The tree or the contract has changed since: it is kept, but does not count"),
          at: time,
        }),
      )
      .describe("Recorded by the service; the newest of each kind"),
    review: z.object({
      verdict: z.enum(["accepted", "rejected", "inconclusive"]).nullable(),
      revision: z.number().int().nullable(),
      reviewer: z.string().nullable(),
      notes: z.string().nullable(),
      stale: z.boolean(),
      at: time.nullable(),
    }),
    settlement: z.object({
      state: z.enum(["open", "accepted", "dropped"]),
      revision: z.number().int().nullable(),
      commit: z.string().nullable(),
      at: time.nullable(),
    }),
  })
  .meta({ id: "Goal" });

/**
 * The origin of an artifact: handed over by an agent's call, made by a check, or a screenshot that a caller requested.
 */
export const artifactBy = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("call"), sessionID: z.string(), callID: z.string() }),
  z.object({ kind: z.literal("check"), checkID: z.string(), on: z.enum(["base", "work"]), round: z.number().int() }),
  z.object({ kind: z.literal("capture"), url: z.string(), viewport }),
]);

export const artifact = z
  .object({
    artifactID: z.string(),
    filename: z.string(),
    title: z.string(),
    mime: z.string(),
    bytes: z.number().int(),
    sha256: z.string(),
    by: artifactBy,
    sliceID: z.string().exactOptional().describe("The delivery slice that it is evidence for"),
    at: time,
  })
  .meta({ id: "Artifact" });

export const errorInfo = z
  .object({ code: z.string(), retryable: z.boolean(), remedy: z.string().nullable(), at: time })
  .meta({ id: "ErrorInfo" });

export const pendingAsk = z
  .object({
    id: z.string(),
    kind: z.enum(["permission", "question", "approval"]),
    prompt: z.string(),
    options: z
      .array(z.string())
      .describe("permission, approval: allow, deny; question: suggestions, any other text is accepted"),
    default: z.string().nullable().describe("What applies if nobody answers; null: the agent decides"),
    expiresAt: time.nullable().describe("null: it waits until it is answered"),
    of: approvable.optional().describe("Only for an approval: what is to be approved"),
    would: would.optional().describe("Only for an approval: what would happen"),
    passesAt: time
      .optional()
      .describe(
        "For a Mission's Task: when the question passes from its Mission to a person; absent: it is a person's already",
      ),
  })
  .meta({ id: "PendingAsk" });

/** Marks a Task as one that produces a squad. */
export const production = z
  .object({
    identity: z.literal("squad-sdk"),
    phase: z.string().describe("What the squad will own"),
    squad: z.string().describe("The id of the squad that it creates"),
  })
  .meta({ id: "Production" });

export const diffStat = z.object({
  files: z.number().int(),
  insertions: z.number().int(),
  deletions: z.number().int(),
});

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
  missionID: z.string().optional().describe("The Mission that dispatched it"),
  production: production.optional().describe("Only for a Task that produces a squad"),
  callbackURL: z.string().optional().describe("The URL that is notified when it ends or asks; without its query"),
  squad: squadRef,
  model: z.string(),
  attempt: z.number().int(),
  queue: z
    .object({ position: z.number().int(), notBefore: time.nullable(), reason: z.string() })
    .nullable()
    .describe("null unless queued, for the first time or again"),
  now: now.nullable().describe("What it does or waits for; null once ended"),
  landing: z.enum(["commit", "branch", "pull-request", "none"]).describe("As requested or by default; `none` in place"),
  isolation: z.enum(["worktree", "directory"]).describe("directory: it works in the user's own files"),
  landingBranch: z.string().nullable().describe("Where the result goes; null in place, and before it is known"),
  pullRequest: pullRequest.nullable().describe("The pull request of its result; null if there is none"),
  pending: z.array(pendingAsk).describe("What waits for an answer"),
  checks: z.array(checkState),
  verified: z
    .boolean()
    .nullable()
    .describe(
      "Whether its required checks, or all of the project's checks, passed on what landed; null: nothing landed",
    ),
  git: z.object({
    baseCommit: z.string().nullable(),
    headCommit: z.string().nullable(),
    branch: z.string().nullable(),
    checkedTree: z.string().nullable(),
    landedCommit: z.string().nullable(),
    landedTree: z.string().nullable(),
    landings: z
      .array(
        z.object({ commit: z.string(), tree: z.string(), branch: z.string(), diffStat: diffStat.nullable(), at: time }),
      )
      .describe("Everything that landed, oldest first: a follow-up lands a commit of its own"),
    diffStat: diffStat.nullable().describe("For the newest commit; null if there is none"),
  }),
  usage,
  budget: budget.nullable(),
  budgetWarnings: z.array(z.object({ name: budget.keyof(), used: z.number(), cap: z.number(), at: time })),
  sandbox: z
    .object({
      tier: z.number().int(),
      name: z.enum(["bubblewrap", "container", "pid-namespace", "process-group"]),
      network: z.boolean(),
    })
    .nullable()
    .describe("null until the first run"),
  availableActions: z.array(z.enum(["message", "cancel", "answer", "retry", "revert", "update", "archive", "delete"])),
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
    repository: repository.nullable().describe("null: the project is a directory"),
    updated: z.number().int().describe("Milliseconds; the list's cursor"),
    checkCounts: z.object({
      total: z.number().int(),
      passed: z.number().int(),
      failed: z.number().int(),
      error: z.number().int(),
      pending: z.number().int(),
    }),
    pendingCount: z.number().int().describe("The questions, permissions and approvals that wait for a person"),
    summary: z.string().nullable().describe("The first 200 characters of the status record's summary"),
  })
  .meta({ id: "TaskSummary" });

export const taskStatus = z
  .object({
    ...common,
    repository: repository
      .extend({ baseCommit: z.string().nullable().describe("Where its work starts; null until it has been fetched") })
      .nullable()
      .describe("null: the project is a directory"),
    effort: effort.nullable().describe("The reasoning effort, as requested"),
    approve: z.array(approvable).describe("What requires a person's approval, as requested"),
    revertOf: z.string().nullable().describe("The Task that it reverts; null: it is not a revert"),
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
    summary: z
      .string()
      .nullable()
      .describe("The agent's last full report of its work, excluding answers to reviewers and failed checks"),
    output: z
      .json()
      .nullable()
      .describe("Matches the request's outputSchema; null: none was requested, or none was given in this attempt"),
    sessionInvocationTopology: topology,
  })
  .meta({ id: "TaskStatus" });

export const attachmentInfo = z.object({
  filename: z.string(),
  mime: z.string(),
  bytes: z.number().int(),
  sha256: z.string(),
});

export const taskDetail = taskStatus
  .extend({
    request: z.string(),
    attachments: z.array(attachmentInfo),
    requestedChecks: z.array(checkSpec),
    outputSchema: z.record(z.string(), z.json()).nullable().describe("As requested"),
    limits: ownLimits.describe("As requested, or its Mission's; {}: the service's"),
    worktreeKept: z
      .object({ reason: z.string(), since: time })
      .exactOptional()
      .describe("Only if its worktree could not be removed; this is retried every hour"),
  })
  .meta({ id: "TaskDetail" });

export type TaskSummary = z.infer<typeof taskSummary>;
export type TaskStatus = z.infer<typeof taskStatus>;
export type TaskDetail = z.infer<typeof taskDetail>;
export type PendingAsk = z.infer<typeof pendingAsk>;
export type Usage = z.infer<typeof usage>;
export type CheckState = z.infer<typeof checkState>;
export type Topology = z.infer<typeof topology>;
export type Goal = z.infer<typeof goal>;
export type Budget = z.infer<typeof budget>;
export type Phase = z.infer<typeof phase>;
export type Priority = z.infer<typeof priority>;
export type Artifact = z.infer<typeof artifact>;
export type ErrorInfo = z.infer<typeof errorInfo>;
export type LifecycleStatus = z.infer<typeof lifecycleStatus>;
export type Activity = z.infer<typeof activity>;
