import { z } from "zod";
import { checkSpec } from "../check.ts";
import {
  approvable,
  recordedLimits,
  missionLanding,
  missionMerge,
  modelRef,
  priority,
  productPillar,
  pullRequest,
  repository,
  time,
} from "../field.ts";
import { budgetShare, namedModels, planned, squadIDs, verdict, verification } from "../mission/status.ts";
import { diffStat, squadRef, usage } from "../task/status.ts";
import { gitID } from "../text.ts";

/** Events of a Mission, and of a Task that produces a squad. */

const sessionID = z.string();

/** Who changed the plan: a call of the Mission's agent, or a person. */
const planChange = {
  sessionID,
  callID: z.string().nullable().describe("The call of its agent; null: a person changed the plan"),
  source: z.string().exactOptional().describe("As the person's request named it"),
  from: z
    .object({ user: z.string().nullable(), address: z.string() })
    .exactOptional()
    .describe("Whose credentials the change came with (null: the service has no password), and from where"),
};

export const missionEvents = {
  "mission.created": z.object({
    missionID: z.string(),
    sessionID,
    title: z.string(),
    titleBy: z.enum(["caller", "service"]),
    directory: z.string().describe("Real path"),
    project: z
      .string()
      .describe("The real path of the Git common directory, else of the directory; for a repository, its URL"),
    node: z
      .string()
      .exactOptional()
      .describe("With several nodes: the node that has the directory, if the request went to another one"),
    productPillar,
    model: modelRef,
    repository: repository
      .extend({
        branch: z.string().describe("The remote branch on which its Tasks land, unless somebody else takes it first"),
      })
      .exactOptional()
      .describe("Set if the project was given by URL"),
    landing: missionLanding.exactOptional().describe("Where its phases land in a directory; absent: commit"),
  }),
  /**
   * A caller woke the Mission, or its time came. The fields that are present replace earlier values. The text follows
   * as a message.
   */
  "mission.woken": z.object({
    sessionID,
    by: z.enum(["user", "time"]),
    productPillar: productPillar.exactOptional(),
    model: modelRef.exactOptional(),
    models: namedModels.exactOptional().describe("The models that the wake set, by role"),
    squads: squadIDs.exactOptional(),
    allowSquadProduction: z.boolean().exactOptional(),
    budget: budgetShare.nullable().exactOptional(),
    checks: z.array(checkSpec).exactOptional().describe("What the whole Mission must pass; []: nothing"),
    approve: z.array(approvable).exactOptional(),
    merge: missionMerge.exactOptional(),
    priority: priority.exactOptional(),
    metadata: z.record(z.string(), z.json()).exactOptional().describe("The caller's own"),
    callbackURL: z
      .string()
      .nullable()
      .exactOptional()
      .describe("Without its query, which may be a secret; null: removed"),
    limits: recordedLimits.exactOptional(),
    reason: z.string().exactOptional().describe("For a wake by time: what its agent wanted to check"),
  }),
  "mission.updated": z.object({
    sessionID,
    title: z.string().exactOptional(),
    archived: z.boolean().exactOptional(),
  }),
  "mission.aborted": z.object({ sessionID, surface: z.string(), reason: z.string(), cascade: z.boolean() }),
  /** The agent considers the Mission finished. It sleeps until it is woken, or until `wakeAt`. */
  "mission.finished": z.object({
    sessionID,
    callID: z.string(),
    outcome: z.enum(["done", "blocked", "waiting"]),
    summary: z.string(),
    wakeAt: time.nullable(),
    verified: z
      .boolean()
      .exactOptional()
      .describe(
        "For `done`: whether the Mission's checks passed on the project's head; if it has none, whether a session that did not plan accepted the whole",
      ),
  }),
  /**
   * The Mission's agent declared the whole done. Nobody gave checks for it, so a session that did not plan judges it
   * first.
   */
  "mission.judging": z.object({
    sessionID,
    callID: z.string(),
    summary: z.string(),
    commit: gitID.describe("The project's head, which is judged"),
  }),
  /** Checks ran on a checkout of the project's head, which was removed afterwards. */
  "mission.verified": z.object({
    sessionID,
    callID: z.string(),
    of: z.enum(["acceptance", "asked"]).describe("acceptance: the Mission's checks; asked: its agent's own"),
    commit: z.string(),
    results: z.array(verification),
  }),
  /**
   * The Mission's branch as a whole was proposed as a pull request, or the state of that changed. `reason`: why there
   * is no pull request.
   */
  "mission.proposed": z.object({
    sessionID,
    commit: z.string().nullable().describe("Of its branch"),
    pullRequest: pullRequest.nullable(),
    reason: z.string().exactOptional(),
  }),
  /**
   * The name of the Mission's branch, in a directory's repository or on the remote, recorded before the branch is
   * created; recorded again with another name if somebody has taken it.
   */
  "mission.branched": z.object({
    sessionID,
    branch: z.string(),
    commit: z.string().describe("The commit at which it starts"),
    of: z
      .string()
      .nullable()
      .describe("The branch (refs/heads/…) it will be merged into; null: the project was on no branch"),
  }),
  /** No merge was begun when the Mission was done. `reason` null: the project's branch already contains everything. */
  "mission.unmerged": z.object({ sessionID, reason: z.string().nullable() }),
  /** The Mission's agent stopped in the middle of the plan and is reminded of it, once per wake. */
  "mission.reminded": z.object({ sessionID }),
  /** A cap for the Mission and its Tasks is reached: no more dispatches or model calls until a wake raises it. */
  "mission.paused": z.object({
    sessionID,
    name: z.enum(["maxCostUSD", "maxTokens", "maxSteps", "maxMinutes"]),
    used: z.number(),
    cap: z.number(),
  }),
  /**
   * Nothing runs, nothing is due and nobody is asked, and the Mission's agent has reported no end. Written once per
   * standstill.
   */
  "mission.stalled": z.object({ sessionID, reason: z.string() }),
  /** The Mission waits for a time that its agent set, or for a provider's quota. Written once per wait. */
  "mission.waiting": z.object({ sessionID, reason: z.string(), until: time }),
  /** One complete phase of the plan: a new phase is added at the end, a changed one keeps its place. */
  "phase.written": z.object({ ...planChange, phase: planned }),
  "phase.dropped": z.object({ ...planChange, phase: z.string() }),
  /** The order of the phases, if it changed. */
  "plan.ordered": z.object({ ...planChange, phases: z.array(z.string()) }),
  /** The complete plan, from before phases had events of their own; the newest event counts. */
  "plan.written": z.object({ sessionID, callID: z.string(), phases: z.array(planned) }),
  /** Written in the same commit as the Task's `task.created`. */
  "task.dispatched": z.object({
    sessionID,
    callID: z.string(),
    taskID: z.string(),
    phase: z.string(),
    title: z.string(),
    squad: squadRef,
    brief: z.string().describe("SHA-256 of the request, so that a retry can be told apart"),
    production: z
      .object({ identity: z.literal("squad-sdk"), squad: z.string().describe("The id of the squad to create") })
      .nullable(),
    reserved: budgetShare.nullable(),
    lookAt: time.exactOptional().describe("When its agent wants to be woken if the Task is still running"),
    general: z.string().exactOptional().describe("Why a general squad does it, if no squad owns the phase"),
    attachments: z
      .array(z.string())
      .exactOptional()
      .describe("Names of the files it was given, from wakes or from other Tasks' artifacts"),
    merge: z
      .object({ branch: z.string(), commit: z.string(), into: z.string() })
      .exactOptional()
      .describe("It is not a phase: it merges the Mission's branch into one of the project's"),
    judges: z
      .object({
        commit: gitID,
        base: gitID.nullable().describe("What the project was before the Mission; null: that cannot be told any more"),
        heard: z.number().int().describe("Version of the newest words of a person, of whom it knows all up to then"),
      })
      .exactOptional()
      .describe("It is not a phase: it judges the whole that the Mission came to at this commit"),
  }),
  /** The Mission's agent wants to be woken at this time if the Task has not ended by then. */
  "task.watched": z.object({ sessionID, callID: z.string(), taskID: z.string(), lookAt: time }),
  /** The time of `task.watched` has come, and the Task still runs. */
  "task.overdue": z.object({
    sessionID,
    taskID: z.string(),
    phase: z.string(),
    title: z.string(),
    doing: z.string().nullable().describe("What it does or waits for, as in its record"),
    usage,
  }),
  /** A Task asks: first its Mission's agent, then a person if the agent does not answer. */
  "task.asked": z.object({
    sessionID,
    taskID: z.string(),
    phase: z.string(),
    title: z.string(),
    askID: z.string(),
    prompt: z.string(),
    options: z.array(z.string()),
    default: z.string().nullable(),
    passesAt: z.iso.datetime().describe("The latest time at which a person is asked"),
  }),
  /**
   * The Mission no longer has to answer a Task's question; or the question was a person's to answer, and they answered.
   */
  "task.answered": z.object({
    sessionID,
    taskID: z.string(),
    askID: z.string(),
    how: z
      .enum(["closed", "passed"])
      .describe("closed: it was answered, or is no longer relevant; passed: a person is asked"),
    said: z
      .object({ phase: z.string(), title: z.string(), question: z.string(), answer: z.string() })
      .exactOptional()
      .describe(
        "What a person said to it, in the same commit as that: an answer, a message that came in its place, or why they refused an approval",
      ),
  }),
  /** A person wrote to a Task that had asked nothing. Written in the same commit as the Task's message. */
  "task.messaged": z.object({
    sessionID,
    taskID: z.string(),
    messageID: z.string(),
    phase: z.string(),
    title: z.string(),
    text: z.string().describe("Cut in the middle if it is long"),
    disposition: z
      .enum(["steered", "queued", "interrupted", "restarted"])
      .describe("What became of the message; restarted: the Task had ended, and continues"),
  }),
  /** An ended Task works again, after a message or a retry. Written in the same commit as that. */
  "task.reopened": z.object({
    sessionID,
    callID: z.string().exactOptional().describe("The call of the Mission's agent; absent: somebody else did it"),
    taskID: z.string(),
    attempt: z.number().int().exactOptional().describe("The attempt that starts"),
    reserved: budgetShare.nullable().exactOptional().describe("Its whole budget from now on; absent: unchanged"),
  }),
  /** The budget of a running Task changed. Written in the same commit as that. */
  "task.reserved": z.object({
    sessionID,
    callID: z.string().exactOptional(),
    taskID: z.string(),
    reserved: budgetShare.nullable(),
  }),
  /** Exactly one for each ended attempt of a dispatched Task. */
  "task.ended": z.object({
    sessionID,
    taskID: z.string(),
    attempt: z.number().int(),
    phase: z.string(),
    title: z.string(),
    outcome: z.enum(["completed", "failed", "cancelled", "deleted"]),
    error: z.string().exactOptional(),
    code: z.string().exactOptional().describe("The failure's code, as in `errorInfo`"),
    cancelledByUser: z
      .object({ reason: z.string() })
      .exactOptional()
      .describe("A person cancelled it, not the Mission itself. `reason`: their words; may be empty"),
    summary: z.string().describe("The Task's last message; may be cut"),
    landedCommit: z.string().nullable(),
    branch: z.string().nullable(),
    usage,
    verdict: verdict.exactOptional().describe("For a Task that judges the whole"),
    minutes: z.number().exactOptional().describe("How long this attempt worked"),
    evidence: z
      .object({
        diffStat: diffStat.nullable(),
        files: z
          .array(
            z.object({
              path: z.string(),
              how: z.enum(["new", "deleted", "changed"]),
              insertions: z.number().int(),
              deletions: z.number().int(),
            }),
          )
          .exactOptional()
          .describe("The first ones only"),
        diff: z.string().exactOptional().describe("The whole change, where it is short"),
        checks: z.array(
          z.object({
            name: z.string(),
            state: z.string(),
            required: z.boolean(),
            tail: z.string().exactOptional().describe("For a failed one: the end of its output"),
          }),
        ),
        contrast: z.string().nullable(),
        reviews: z.array(z.object({ title: z.string(), verdict: z.string(), notes: z.string() })),
      })
      .exactOptional()
      .describe("What the service observed in its newest attempt; long lists and texts are cut"),
    plan: z
      .object({
        ready: z.array(z.string()),
        running: z.array(z.string()),
        left: z.number().int(),
        unapproved: z.literal(true).exactOptional().describe("Nothing is dispatched before a person approves the plan"),
      })
      .exactOptional()
      .describe(
        "The plan after this and the other ends in the same message: phases that are ready, phases that are running, and how many are not done",
      ),
  }),
  /** A produced squad is in the catalog as it was staged, with the same id, version and digest. */
  "squad.reconciled": z.object({ sessionID, taskID: z.string(), phase: z.string(), squad: squadRef }),
  /** A produced squad is not in the catalog as it was staged, and is not used. */
  "squad.refused": z.object({
    sessionID,
    taskID: z.string(),
    phase: z.string(),
    squad: squadRef.nullable(),
    reason: z.string(),
  }),
} as const;

/** Events of a Task that produces a squad. */
export const productionEvents = {
  /** The complete package is stored outside the log, under its digest; nothing is installed yet. */
  "squad.staged": z.object({ sessionID, callID: z.string(), squad: squadRef, files: z.array(z.string()) }),
  /** The point of no return: from here on the installation is only completed. */
  "squad.installing": z.object({ squad: squadRef }),
  "squad.installed": z.object({ squad: squadRef, replaced: z.string().nullable() }),
} as const;
