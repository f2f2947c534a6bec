import { z } from "zod";
import { checkSpec } from "../check.ts";
import {
  activity,
  approvable,
  missionLanding,
  missionMerge,
  modelRef,
  now,
  ownLimits,
  priority,
  productPillar,
  pullRequest,
  repository,
  time,
} from "../field.ts";
import { errorInfo, pendingAsk, squadRef, taskSummary, usage } from "../task/status.ts";
import { attachmentRef, blobRef } from "../text.ts";

/**
 * The plan, the status and the list row of a Mission, and the answers of its routes. Source: interface.md 2.6–2.8,
 * completion.md "Missions".
 */

export const missionID = z
  .string()
  .regex(/^[a-z0-9-]{1,64}$/, {
    error: ({ input }) => `Expected 1 to 64 lowercase letters, digits and hyphens, got ${JSON.stringify(input)}`,
  })
  .describe("1 to 64 lowercase letters, digits, hyphens");

/** The budget of the Mission's own conversation and all of its Tasks together. */
export const missionBudget = z
  .strictObject({
    maxCostUSD: z.number().positive().optional(),
    maxTokens: z.number().int().positive().optional(),
    maxSteps: z.number().int().positive().optional(),
    maxMinutes: z.number().positive().optional().describe("Working time, added up over the Mission and its Tasks"),
  })
  .meta({ id: "MissionBudget" });

/** Models by role, as a caller names them. */
export const models = z
  .strictObject({
    agent: modelRef.optional().describe("The Mission's agent"),
    tasks: modelRef.optional().describe("For Tasks whose squad names none"),
    review: modelRef.optional().describe("For reviewers whose squad names none"),
  })
  .meta({ id: "MissionModels" });

export const namedModels = z.object({
  agent: modelRef.exactOptional(),
  tasks: modelRef.exactOptional(),
  review: modelRef.exactOptional(),
});

export const squadIDs = z.array(z.string().min(1).max(64)).max(32);

/** The result of one check on the project's head. */
export const verification = z.object({
  checkID: z.string(),
  name: z.string(),
  required: z.boolean(),
  state: z.enum(["passed", "failed", "error"]),
  exitCode: z.number().int().nullable(),
  durationMs: z.number().int(),
  reason: z.string().nullable().describe("Why it did not pass"),
  tail: z.string().describe("The end of its output, if it did not pass"),
  log: blobRef,
});

/** The verdict on the whole Mission by a session that did not plan it. */
export const verdict = z.object({
  verdict: z.enum(["accepted", "rejected", "inconclusive"]),
  notes: z.string().describe("What convinced it, what is missing, or why there is no verdict; may be cut"),
});

// ---- answers -------------------------------------------------------------------------------------------------------

export const missionWoken = z
  .object({ missionID: z.string(), sessionID: z.string(), created: z.boolean() })
  .meta({ id: "MissionWoken" });

const counts = { total: z.number().int(), running: z.number().int(), inactive: z.number().int() };

const head = {
  missionID: z.string(),
  sessionID: z.string(),
  title: z.string(),
  directory: z.string(),
  repository: repository.nullable().describe("null: the project is a directory"),
  status: activity.describe("Of its Tasks only"),
  agentStatus: activity.describe("Whether the Mission's own agent is working"),
  state: z
    .enum(["working", "waiting", "asking", "paused", "stalled", "blocked", "done", "aborted"])
    .describe("The Mission's overall state in one word; stalled: nothing runs, nothing is due and nobody is asked"),
  stateReason: z.string().nullable().describe("The reason for `state`, in one sentence; null if it needs none"),
  pendingCount: z.number().int().describe("Its own questions that wait for an answer"),
  outcome: z.enum(["done", "blocked", "waiting"]).nullable().describe("Its agent's last report on the whole Mission"),
  verified: z
    .boolean()
    .nullable()
    .describe(
      "For a Mission that is done: whether its checks passed on the project's head; if it has none, whether a session that did not plan accepted the whole. null: not done",
    ),
  archived: z.boolean(),
  priority: priority.describe("The priority of its agent, and of Tasks for which the agent sets none"),
  metadata: z.record(z.string(), z.json()),
  callbackURL: z
    .string()
    .optional()
    .describe("The URL that is notified when it asks, stops or ends; without its query"),
  now: now.nullable().describe("What it does or waits for; null if it has ended or is stalled"),
  createdAt: time,
  updatedAt: time,
};

export const missionSummary = z
  .object({
    ...head,
    error: z.string().nullable().describe("As in the status record"),
    updated: z.number().int().describe("Milliseconds; with sessionID the list's cursor"),
    taskStats: z.object({
      ...counts,
      completed: z.number().int(),
      failed: z.number().int(),
      cancelled: z.number().int(),
    }),
  })
  .meta({ id: "MissionSummary" });

export const phaseState = z.enum(["waiting", "ready", "producing", "running", "done", "failed", "cancelled"]);

export const planned = z.object({
  id: z.string(),
  title: z.string(),
  phase: z.string().describe("What a squad may own: words, or domain/phase"),
  objective: z.string(),
  acceptance: z.array(z.string()),
  after: z.array(z.string()).describe("Ids of the phases that must be done before"),
});

const phaseWait = z.object({
  taskID: z.string(),
  askID: z.string(),
  kind: z.enum(["permission", "question", "approval"]),
  of: approvable.nullable().describe("For an approval: what is to be approved"),
  since: time.nullable().describe("null: the Task does something beside it"),
});

export type PhaseWait = z.infer<typeof phaseWait>;

const missionPhase = planned
  .extend({
    state: phaseState,
    waits: phaseWait
      .nullable()
      .describe("What a person is asked before its Task, or the one that makes its squad, goes on; null: nothing"),
    squad: squadRef.nullable(),
    taskID: z.string().nullable().describe("The newest Task that does it"),
    productionTaskID: z.string().nullable(),
    general: z
      .string()
      .nullable()
      .describe("Why a general squad does it, if no squad owns it and none was created; null: its squad owns it"),
    correction: z
      .enum(["failed", "cancelled"])
      .nullable()
      .describe("For a phase that is done: its newest correction did not land. What landed before stays"),
    attempts: z.number().int(),
  })
  .meta({ id: "MissionPhase" });

const phaseWords = planned.omit({ id: true }).partial();

/** How a plan differs from the one that was last approved. */
const planChange = z
  .object({
    added: z.array(planned),
    dropped: z.array(planned).describe("As they were approved"),
    changed: z
      .array(
        z.object({
          id: z.string(),
          title: z.string(),
          was: phaseWords.describe("The fields that differ, as they were approved"),
          is: phaseWords.describe("The same fields as they are now"),
        }),
      )
      .describe("The phases of which a field differs"),
    reordered: z.boolean().describe("Phases that both plans have stand in another order"),
  })
  .meta({ id: "PlanChange" });

const amounts = z.object({
  maxCostUSD: z.number(),
  maxTokens: z.number(),
  maxSteps: z.number(),
  maxMinutes: z.number(),
});

/** The Mission's session: the only session of the kind `mission` in the contract. */
const missionSession = z.object({
  sessionID: z.string(),
  kind: z.literal("mission"),
  agent: z.string(),
  model: z.string(),
  state: z.enum(["running", "idle"]).describe("idle: until a wake, an answer or a Task's end"),
});

/** A Task as its Mission shows it. */
const taskStatusDetail = taskSummary.extend({}).meta({ id: "TaskStatusDetail" });

export const missionStatus = z
  .object({
    ...head,
    session: missionSession,
    lastEventID: z.number().int(),
    landing: missionLanding.describe(
      "Where its phases land: each on the project's branch, or all on the Mission's own",
    ),
    merge: missionMerge
      .nullable()
      .describe("When its own branch is merged; null: it has none, or a pull request is opened instead"),
    landingBranch: z
      .string()
      .nullable()
      .describe("The Mission's own branch, on which its Tasks land; null: there is none (yet)"),
    merged: z
      .object({
        taskID: z.string(),
        state: z.enum(["running", "merged", "failed"]),
        commit: z
          .string()
          .nullable()
          .describe("The merge commit; null: there is none yet, or the merge changed nothing"),
        branch: z.string().describe("The branch it is merged into"),
      })
      .nullable()
      .describe("The newest Task that merges that branch; null: no merge has started"),
    judging: z
      .object({
        commit: z.string().describe("The project's head that is judged"),
        summary: z.string().describe("The report of its agent, which stands once it is judged"),
        taskID: z.string().nullable().describe("The Task that judges; null: it has not begun"),
      })
      .nullable()
      .describe(
        "Its agent has reported `done`, and a session that did not plan judges the whole; null: nothing is judged now",
      ),
    verdict: verdict
      .extend({ taskID: z.string(), commit: z.string().describe("The project's head that was judged") })
      .nullable()
      .describe("The newest verdict on the whole, by a Task of the service; null: there is none"),
    pullRequest: pullRequest.nullable().describe("The pull request of that branch, once the Mission is done"),
    error: z.string().optional().describe("Why its agent stopped: it failed or was aborted; a wake tries again"),
    errorInfo: errorInfo.optional(),
    aborted: z.boolean().describe("Only a wake resumes it"),
    finished: z
      .object({ outcome: z.enum(["done", "blocked", "waiting"]), summary: z.string(), wakeAt: time.nullable() })
      .nullable()
      .describe("Its agent's last report on the whole Mission"),
    taskCounts: z.object(counts),
    progress: z.object({
      ...counts,
      percent: z.number().describe("The share of running Tasks"),
      phases: z
        .object({
          total: z.number().int(),
          done: z.number().int(),
          running: z.number().int(),
          failed: z.number().int(),
        })
        .describe("Of the plan"),
    }),
    tasks: z.array(taskStatusDetail),
    plan: z.array(missionPhase),
    planRevision: z
      .number()
      .int()
      .describe(
        "Another one after each change of the plan: whoever changes it says which they had read. 0: no plan yet",
      ),
    planChange: planChange
      .nullable()
      .describe(
        "While the plan needs approval (again): how it differs from the plan that was approved last; null: it needs none, or none was approved before",
      ),
    pending: z.array(pendingAsk),
    attachments: z.array(attachmentRef).describe("Files that came with its wakes, the newest of each name"),
    productPillar,
    model: z.string(),
    models: z
      .object({ agent: z.string(), tasks: z.string().nullable(), review: z.string().nullable() })
      .describe("By role; null: none is set, and the squad's or the Task's own applies"),
    squads: z.array(z.string()).describe("The allowed squads; empty: any"),
    approve: z.array(approvable).describe("What requires a person's approval"),
    limits: ownLimits.describe("As given by the last wake that set any; {}: the service's"),
    squadProduction: z.enum(["authorised", "forbidden"]),
    usage: usage.describe("Of the Mission and all its Tasks"),
    budget: missionBudget.nullable(),
    budgetUsed: amounts.describe("Used by the Mission and its Tasks, including what is reserved for running Tasks"),
    budgetSpent: amounts
      .extend({ maxCostUSD: z.number().nullable().describe("null: a price is unknown") })
      .describe("Used by the Mission and its Tasks so far; a Task's minutes count when it ends"),
    budgetReserved: amounts.describe("What running Tasks may still use of their reserved shares"),
    checks: z.array(checkSpec).describe("What the Mission must pass before it can be done"),
    generatedAt: time,
  })
  .meta({ id: "MissionStatus" });

export const missionAborted = z
  .object({
    missionID: z.string(),
    sessionID: z.string(),
    aborted: z.literal(true),
    status: activity,
    tasksRunning: z.number().int(),
  })
  .meta({ id: "MissionAborted" });

export const missionDeleted = z
  .object({ missionID: z.string(), deleted: z.literal(true) })
  .meta({ id: "MissionDeleted" });

export const missionAnswered = z
  .object({ missionID: z.string(), askID: z.string(), accepted: z.literal(true), eventID: z.number().int() })
  .meta({ id: "MissionAnswered" });

/** The result of a person's change of the plan. */
export const missionPlanned = z
  .object({
    missionID: z.string(),
    planRevision: z.number().int(),
    written: z.array(z.string()).describe("Ids of the phases that are new or have other words"),
    dropped: z.array(z.string()),
    reordered: z.boolean(),
    approved: z.boolean().describe("Nothing of it waits for an approval"),
    eventID: z.number().int(),
  })
  .meta({ id: "MissionPlanned" });

// ---- events --------------------------------------------------------------------------------------------------------

/** The phase and the Mission that a Task works for, as recorded in its `task.created`. */
export const taskMission = z.object({
  missionID: z.string(),
  sessionID: z.string().describe("The Mission's"),
  callID: z.string().describe("The call that dispatched it"),
  phase: z.string().describe("Id of the phase in the Mission's plan"),
});

export const budgetShare = z.object({
  maxCostUSD: z.number().exactOptional(),
  maxTokens: z.number().exactOptional(),
  maxSteps: z.number().exactOptional(),
  maxMinutes: z.number().exactOptional(),
});

export type MissionBudget = z.infer<typeof budgetShare>;

export type Verification = z.infer<typeof verification>;

export type MissionSummary = z.infer<typeof missionSummary>;

export type MissionStatus = z.infer<typeof missionStatus>;

export type MissionPhase = z.infer<typeof missionPhase>;

export type PlannedPhase = z.infer<typeof planned>;

export type MissionWoken = z.infer<typeof missionWoken>;

export type MissionAborted = z.infer<typeof missionAborted>;

export type MissionAnswered = z.infer<typeof missionAnswered>;

export type MissionPlanned = z.infer<typeof missionPlanned>;

export type TaskMission = z.infer<typeof taskMission>;
