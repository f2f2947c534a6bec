import type { EventData } from "../../protocol/event/event.ts";
import type { MissionPhase, MissionStatus, MissionSummary } from "../../protocol/mission/status.ts";
import type { TaskSummary, Usage } from "../../protocol/task/status.ts";
import { pendingOf } from "../session/ask.ts";
import { spentOf, type Unheard, usedOf } from "./budget.ts";
import { type Dispatched, endedOf, errorOf, isRunning, type MissionState, reportOf } from "../state/mission.ts";
import { noUsage, openAsks } from "../state/stream.ts";
import { missionAgent } from "./evolve.ts";
import { branchOf } from "./whole/merge.ts";
import { judgeTaskOf } from "./whole/verdict.ts";
import { agentStatus } from "./next.ts";
import { planChangeOf } from "./plan-change.ts";
import { correctionOf, phaseState, producedFor, productionsOf, workOf } from "./plan.ts";
import { short } from "../session/now.ts";
import { type Standing, standingAmong, standingOf } from "./standing.ts";
import { type Waits, waitsIn } from "./now.ts";

/** The list row and the status record of a Mission, from its own fold and the rows of its Tasks. */

/**
 * The stored list row of a Mission; what its Tasks do is added when it is read. `runs`: the number of running Tasks, as
 * far as the Mission's own log tells.
 */
export type MissionRow = Omit<MissionSummary, "status" | "taskStats"> & { standing: Standing; runs: number };

export const rowOf = (state: MissionState): MissionRow => ({ ...headOf(state), ...innerOf(state) });

const innerOf = (state: MissionState): Pick<MissionRow, "standing" | "runs"> => ({
  standing: standingOf(state),
  runs: state.tasks.filter(isRunning).length,
});

const headOf = (state: MissionState): Omit<MissionRow, "standing" | "runs"> => {
  const { state: word, reason } = standingOf(state);
  return {
    missionID: state.missionID,
    sessionID: state.sessionID,
    title: state.title,
    directory: state.directory,
    repository: state.repository && { url: state.repository.url, ref: state.repository.ref },
    agentStatus: agentStatus(state),
    state: word,
    stateReason: reason,
    pendingCount: openAsks(state).length,
    outcome: reportOf(state)?.outcome ?? null,
    error: errorOf(state)?.error ?? null,
    verified: verifiedOf(state),
    archived: state.archived,
    priority: state.priority,
    metadata: state.metadata,
    ...(state.callbackURL === null ? {} : { callbackURL: state.callbackURL }),
    createdAt: state.createdAt,
    updatedAt: state.updatedAt,
    updated: Date.parse(state.updatedAt),
    now: state.now,
  };
};

/**
 * Whether a done Mission was verified; null: it is not done, or it reported so before the service verified such
 * reports.
 */
const verifiedOf = (state: MissionState): boolean | null => {
  const report = reportOf(state);
  return report?.outcome === "done" ? (report.verified ?? null) : null;
};

/** The numbers of its Tasks by state. `asking`: active Tasks that wait for an answer. */
export type Counts = { active: number; completed: number; failed: number; cancelled: number; asking: number };

export const summaryOf = (
  { standing, runs, ...row }: MissionRow,
  { active, completed, failed, cancelled, asking }: Counts,
): MissionSummary => {
  const { state, reason } = standingAmong(standing, { known: runs, active, asking });
  const inactive = completed + failed + cancelled;
  const taskStats = { total: active + inactive, running: active, inactive, completed, failed, cancelled };
  return { ...row, state, stateReason: reason, status: active > 0 ? "running" : "inactive", taskStats };
};

/**
 * The Mission with the present state of its Tasks' rows: ends and new attempts that it has not been told of yet are
 * added. So its plan and budget are true while its agent is busy, and after an abort.
 */
export const withCurrentRows = (
  state: MissionState,
  rows: ReadonlyMap<string, TaskSummary>,
  unheard: Unheard,
): MissionState => ({
  ...state,
  tasks: state.tasks.map((known) => {
    const task = { ...known, unheard: unheard.get(known.taskID) ?? 0 };
    const row = rows.get(task.taskID);
    const end = (outcome: EventData["task.ended"]["outcome"]): Dispatched => {
      const { sessionID, taskID, phase, title } = { ...task, sessionID: state.sessionID };
      const known = { sessionID, taskID, phase, title, summary: "", branch: null };
      const attempt = row?.attempt ?? endedOf(task) + 1;
      const landedCommit = outcome === "completed" ? (row?.git.landedCommit ?? null) : null;
      const ended = {
        ...known,
        landedCommit,
        attempt,
        outcome,
        usage: row?.usage ?? task.ends.at(-1)?.usage ?? noUsage,
      };
      return { ...task, ends: [...task.ends, ended], attempt };
    };
    if (row === undefined) return isRunning(task) ? end("deleted") : task;
    if (row.lifecycleStatus !== "active") return row.attempt > endedOf(task) ? end(row.lifecycleStatus) : task;
    return isRunning(task) ? task : { ...task, attempt: row.attempt };
  }),
});

/** The status record. `tasks`: the rows of the Tasks that the Mission dispatched, oldest first. */
export const missionStatusOf = (
  state: MissionState,
  tasks: TaskSummary[],
  { mayProduce, now, unheard = new Map() }: { mayProduce: boolean; now: Date; unheard?: Unheard },
): MissionStatus => {
  const { updated: _, error: _error, ...row } = headOf(state);
  const active = tasks.filter(({ status }) => status === "running");
  const running = active.length;
  const counts = { total: tasks.length, running, inactive: tasks.length - running };
  const { standing, runs } = innerOf(state);
  const asking = active.filter(({ pendingCount }) => pendingCount > 0).length;
  const { state: word, reason } = standingAmong(standing, { known: runs, active: running, asking });
  const seen = withCurrentRows(state, new Map(tasks.map((task) => [task.taskID, task])), unheard);
  const waits = waitsIn(active);
  const plan = planOf(seen, waits);
  const phases = (...states: MissionPhase["state"][]) => plan.filter((phase) => states.includes(phase.state)).length;
  return {
    ...row,
    state: word,
    stateReason: reason,
    now: nowAmong(row.now, active, waits),
    session: sessionOf(state),
    status: running > 0 ? "running" : "inactive",
    lastEventID: state.position,
    landing: state.landing,
    merge: state.landing === "branch" && state.repository === null ? state.merge : null,
    landingBranch: branchOf(state),
    merged: mergedOf(seen),
    judging: judgingOf(state),
    verdict: verdictOf(state),
    pullRequest: state.pullRequest,
    ...errorOf(state),
    aborted: state.aborted !== null,
    finished: finishedOf(state),
    taskCounts: counts,
    progress: {
      ...counts,
      percent: tasks.length === 0 ? 0 : (100 * running) / tasks.length,
      phases: {
        total: plan.length,
        done: phases("done"),
        running: phases("running", "producing"),
        failed: phases("failed"),
      },
    },
    tasks,
    plan,
    planRevision: state.planRevision,
    planChange: planChangeOf(state),
    pending: pendingOf(state),
    attachments: state.attachments,
    productPillar: state.productPillar,
    model: state.model,
    models: { agent: state.wanted, tasks: state.models.tasks ?? state.named, review: state.models.review },
    squads: state.squads,
    approve: state.approve,
    limits: state.limits,
    squadProduction: mayProduce ? "authorised" : "forbidden",
    usage: tasks.reduce((sum, { usage }) => together(sum, usage), state.usage),
    budget: state.cap,
    budgetUsed: usedOf(seen),
    ...spentOf(seen, new Map(tasks.map(({ taskID, usage }) => [taskID, usage]))),
    checks: state.checks,
    generatedAt: now.toISOString(),
  };
};

const finishedOf = (state: MissionState): MissionStatus["finished"] => {
  const report = reportOf(state);
  if (report === null) return null;
  const { outcome, summary, wakeAt } = report;
  return { outcome, summary, wakeAt };
};

/** What the Mission does now, given its Tasks: if one of them waits for a person, so does the Mission. */
const nowAmong = (now: MissionStatus["now"], tasks: readonly TaskSummary[], waits: Waits): MissionStatus["now"] => {
  const asking = now?.kind === "tasks" ? tasks.find(({ taskID }) => waits.has(taskID)) : undefined;
  if (now === null || asking?.now?.kind !== "ask") return now;
  return { kind: "ask", text: short(`"${asking.title}": ${asking.now.text}`), since: asking.now.since };
};

/** What became of the Mission's branch, according to the newest Task that merges it; null: there is none. */
const mergedOf = ({ tasks }: MissionState): MissionStatus["merged"] => {
  const last = tasks.findLast(({ merge }) => merge !== undefined);
  if (last?.merge === undefined) return null;
  const end = isRunning(last) ? undefined : last.ends.at(-1);
  const state = end === undefined ? "running" : end.outcome === "completed" ? "merged" : "failed";
  return { taskID: last.taskID, state, commit: end?.landedCommit ?? null, branch: last.merge.into };
};

const judgingOf = (state: MissionState): MissionStatus["judging"] => {
  if (state.judging === null) return null;
  const { commit, summary } = state.judging;
  return { commit, summary, taskID: judgeTaskOf(state)?.taskID ?? null };
};

const verdictOf = ({ verdict }: MissionState): MissionStatus["verdict"] => {
  if (verdict === null) return null;
  const { callID: _callID, heard: _heard, ...shown } = verdict;
  return shown;
};

const sessionOf = (state: MissionState): MissionStatus["session"] => {
  const { sessionID, model } = state;
  const doing = agentStatus(state) === "running" ? "running" : "idle";
  return { sessionID, kind: "mission", agent: missionAgent, model, state: doing };
};

const together = (one: Usage, other: Usage): Usage => ({
  inputTokens: one.inputTokens + other.inputTokens,
  outputTokens: one.outputTokens + other.outputTokens,
  cacheReadTokens: one.cacheReadTokens + other.cacheReadTokens,
  cacheWriteTokens: one.cacheWriteTokens + other.cacheWriteTokens,
  costUSD: one.costUSD === null || other.costUSD === null ? null : one.costUSD + other.costUSD,
  modelCalls: one.modelCalls + other.modelCalls,
  toolCalls: one.toolCalls + other.toolCalls,
});

/** `waits`: what Tasks wait for a person for, from their rows. */
export const planOf = (state: MissionState, waits: Waits = new Map()): MissionPhase[] =>
  state.plan.map((phase) => {
    const work = workOf(state, phase.id);
    const atWork = [...work, ...productionsOf(state, phase.id)].filter(isRunning);
    return {
      ...phase,
      state: phaseState(state, phase),
      waits: atWork.flatMap(({ taskID }) => waits.get(taskID) ?? [])[0] ?? null,
      squad: work.at(-1)?.squad ?? producedFor(state, phase.id) ?? null,
      taskID: work.at(-1)?.taskID ?? null,
      productionTaskID: productionsOf(state, phase.id).at(-1)?.taskID ?? null,
      general: work.at(-1)?.general ?? null,
      correction: correctionOf(state, phase),
      attempts: work.length,
    };
  });
