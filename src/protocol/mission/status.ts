import { z } from "zod";
import { defaultLimits, type Limits } from "../limit.ts";
import { errorInfo, pendingAsk, squadRef, taskSummary, usage } from "../task/status.ts";
import { attachmentRef } from "../text.ts";
import { activity, attachmentRequest, modelRef, productPillar, text, time, wordsWithin } from "../task/request.ts";

/** What the Mission routes take and answer, and a Mission's own facts. Source: interface.md 2.6–2.8, completion.md "Missions". */

export const missionID = z
  .string()
  .regex(/^[a-z0-9-]{1,64}$/, {
    error: ({ input }) => `Expected 1 to 64 lowercase letters, digits and hyphens, got ${JSON.stringify(input)}`,
  })
  .describe("1 to 64 lowercase letters, digits, hyphens");

/** Over the Mission's own conversation and all of its Tasks together. */
export const missionBudget = z
  .strictObject({
    maxCostUSD: z.number().positive().optional(),
    maxTokens: z.number().int().positive().optional(),
    maxSteps: z.number().int().positive().optional(),
    maxMinutes: z.number().positive().optional().describe("Of work, added up over all that work"),
  })
  .meta({ id: "MissionBudget" });

const squadIDs = z.array(z.string().min(1).max(64)).max(32);

export const createMissionRequests = (limits: Limits = defaultLimits) => {
  const surface = z.string().min(1).max(limits.sourceChars).optional();
  const reason = wordsWithin(limits.reasonBytes).optional();
  const title = z.string().min(1).max(limits.titleChars);
  return {
    missionWake: z
      .strictObject({
        missionID: missionID.optional().describe("Absent: a new Mission, with an id of the service's"),
        title: title.optional().describe("Of a new Mission; default: the text's first line"),
        text: text(limits.requestBytes).optional().describe("Direction; required for a new Mission"),
        attachments: z.array(attachmentRequest).max(limits.attachments).optional(),
        model: modelRef.optional(),
        productPillar: productPillar.optional().describe("Default code"),
        squads: squadIDs.optional().describe("Only these may be dispatched to; [] = any; absent: as before"),
        allowSquadProduction: z.boolean().optional(),
        budget: missionBudget.optional().describe("Caps the whole tree of Tasks"),
      })
      .meta({ id: "MissionWake" }),
    missionTitle: z.strictObject({ title }).meta({ id: "MissionTitle" }),
    missionArchive: z.strictObject({ archived: z.boolean() }).meta({ id: "MissionArchive" }),
    missionAbort: z
      .strictObject({ surface, reason, cascade: z.boolean().optional().describe("Cancel its Tasks too") })
      .meta({ id: "MissionAbort" }),
    missionDelete: z.strictObject({ surface, reason }).meta({ id: "MissionDelete" }),
    missionDeleteQuery: z.object({ surface, reason }),
  };
};

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
  status: activity.describe("Of its Tasks alone"),
  agentStatus: activity.describe("Whether the Mission's own agent works"),
  archived: z.boolean(),
  createdAt: time,
  updatedAt: time,
};

export const missionSummary = z
  .object({
    ...head,
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

const planned = z.object({
  id: z.string(),
  title: z.string(),
  phase: z.string().describe("What a squad may own: words, or domain/phase"),
  objective: z.string(),
  acceptance: z.array(z.string()),
  after: z.array(z.string()).describe("Ids of the phases that must be done before"),
});

const missionPhase = planned
  .extend({
    state: phaseState,
    squad: squadRef.nullable(),
    taskID: z.string().nullable().describe("The newest Task that does it"),
    productionTaskID: z.string().nullable(),
    general: z
      .string()
      .nullable()
      .describe("Where no squad owns it and none was made: why a general one does it. null: its squad owns it"),
    attempts: z.number().int(),
  })
  .meta({ id: "MissionPhase" });

export const missionStatus = z
  .object({
    ...head,
    lastEventID: z.number().int(),
    error: z
      .string()
      .optional()
      .describe("Why its agent does not go on: it could not, or was aborted; a wake tries again"),
    errorInfo: errorInfo.optional(),
    aborted: z.boolean().describe("Nothing but a wake wakes it"),
    finished: z
      .object({ outcome: z.enum(["done", "blocked", "waiting"]), summary: z.string(), wakeAt: time.nullable() })
      .nullable()
      .describe("What its agent last said of the whole"),
    taskCounts: z.object(counts),
    progress: z.object({ ...counts, percent: z.number().describe("The share of Tasks that run") }),
    tasks: z.array(taskSummary),
    plan: z.array(missionPhase),
    pending: z.array(pendingAsk),
    attachments: z.array(attachmentRef).describe("Files that came with its wakes, the newest of each name"),
    productPillar,
    model: z.string(),
    squads: z.array(z.string()).describe("The explicit set; empty: any"),
    squadProduction: z.enum(["authorised", "forbidden"]),
    usage: usage.describe("Of the whole tree"),
    budget: missionBudget.nullable(),
    budgetUsed: z
      .object({ maxCostUSD: z.number(), maxTokens: z.number(), maxSteps: z.number(), maxMinutes: z.number() })
      .describe("Used by the tree, with what is reserved for running Tasks"),
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

// ---- facts ---------------------------------------------------------------------------------------------------------

/** Which phase of which Mission a Task does. In its own first fact. */
export const taskMission = z.object({
  missionID: z.string(),
  sessionID: z.string().describe("The Mission's"),
  callID: z.string().describe("The call that dispatched it"),
  phase: z.string().describe("Id of the phase in the Mission's plan"),
});

const budgetShare = z.object({
  maxCostUSD: z.number().exactOptional(),
  maxTokens: z.number().exactOptional(),
  maxSteps: z.number().exactOptional(),
  maxMinutes: z.number().exactOptional(),
});

const sessionID = z.string();

export const missionEvents = {
  "mission.created": z.object({
    missionID: z.string(),
    sessionID,
    title: z.string(),
    titleBy: z.enum(["caller", "service"]),
    directory: z.string().describe("Real path"),
    project: z.string().describe("The Git common directory's real path, else the directory's"),
    productPillar,
    model: modelRef,
  }),
  /** Somebody woke it, or its time came; what was given replaces what was. The text follows as a message. */
  "mission.woken": z.object({
    sessionID,
    by: z.enum(["user", "time"]),
    productPillar: productPillar.exactOptional(),
    model: modelRef.exactOptional(),
    squads: squadIDs.exactOptional(),
    allowSquadProduction: z.boolean().exactOptional(),
    budget: budgetShare.exactOptional(),
  }),
  "mission.updated": z.object({
    sessionID,
    title: z.string().exactOptional(),
    archived: z.boolean().exactOptional(),
  }),
  "mission.aborted": z.object({ sessionID, surface: z.string(), reason: z.string(), cascade: z.boolean() }),
  /** The agent's word on the whole; it sleeps until it is woken, or until `wakeAt`. */
  "mission.finished": z.object({
    sessionID,
    callID: z.string(),
    outcome: z.enum(["done", "blocked", "waiting"]),
    summary: z.string(),
    wakeAt: time.nullable(),
  }),
  /** Its agent stopped in the middle of the plan: it is told so, once for each wake. */
  "mission.reminded": z.object({ sessionID }),
  /** A cap over the whole tree is reached: nothing more is dispatched or asked until a wake brings a higher one. */
  "mission.paused": z.object({
    sessionID,
    name: z.enum(["maxCostUSD", "maxTokens", "maxSteps", "maxMinutes"]),
    used: z.number(),
    cap: z.number(),
  }),
  /** The plan, whole; the newest one counts. */
  "plan.written": z.object({ sessionID, callID: z.string(), phases: z.array(planned) }),
  /** In the commit that made the Task. */
  "task.dispatched": z.object({
    sessionID,
    callID: z.string(),
    taskID: z.string(),
    phase: z.string(),
    title: z.string(),
    squad: squadRef,
    brief: z.string().describe("SHA-256 of what was asked, so that a retry is another"),
    production: z
      .object({ identity: z.literal("squad-sdk"), squad: z.string().describe("The id that it is to make") })
      .nullable(),
    reserved: budgetShare.nullable(),
    general: z.string().exactOptional().describe("No squad owns the phase: why a general one does it all the same"),
    attachments: z
      .array(z.string())
      .exactOptional()
      .describe("Names of the files it was given: of wakes, or artifacts of other Tasks"),
  }),
  /** The Mission wrote to a Task that had ended: it is at work again. */
  "task.reopened": z.object({ sessionID, callID: z.string(), taskID: z.string() }),
  /** Exactly one for each ended attempt of a dispatched Task. */
  "task.ended": z.object({
    sessionID,
    taskID: z.string(),
    attempt: z.number().int(),
    phase: z.string(),
    title: z.string(),
    outcome: z.enum(["completed", "failed", "cancelled", "deleted"]),
    error: z.string().exactOptional(),
    summary: z.string().describe("The Task's last words; may be cut"),
    landedCommit: z.string().nullable(),
    branch: z.string().nullable(),
    usage,
    minutes: z.number().exactOptional().describe("That this attempt worked"),
  }),
  /** A produced squad was found again in the catalog as it was staged: same id, version and digest. */
  "squad.reconciled": z.object({ sessionID, taskID: z.string(), phase: z.string(), squad: squadRef }),
  /** It was not, and is not used. */
  "squad.refused": z.object({
    sessionID,
    taskID: z.string(),
    phase: z.string(),
    squad: squadRef.nullable(),
    reason: z.string(),
  }),
} as const;

/** Facts of a Task that produces a squad. */
export const productionEvents = {
  /** The package stands whole beside the log, under its digest; nothing is installed yet. */
  "squad.staged": z.object({ sessionID, callID: z.string(), squad: squadRef, files: z.array(z.string()) }),
  /** The point of no return: from here on the install is only carried to its end. */
  "squad.installing": z.object({ squad: squadRef }),
  "squad.installed": z.object({ squad: squadRef, replaced: z.string().nullable() }),
} as const;

export type MissionBudget = z.infer<typeof budgetShare>;
export type MissionSummary = z.infer<typeof missionSummary>;
export type MissionStatus = z.infer<typeof missionStatus>;
export type MissionPhase = z.infer<typeof missionPhase>;
export type PlannedPhase = z.infer<typeof planned>;
export type MissionWoken = z.infer<typeof missionWoken>;
export type MissionAborted = z.infer<typeof missionAborted>;
export type MissionAnswered = z.infer<typeof missionAnswered>;
export type TaskMission = z.infer<typeof taskMission>;
export type MissionRequests = ReturnType<typeof createMissionRequests>;
export type MissionWake = z.infer<MissionRequests["missionWake"]>;
export type MissionAbort = z.infer<MissionRequests["missionAbort"]>;
