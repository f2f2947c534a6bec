import type { MissionPhase, MissionStatus, MissionSummary } from "../../protocol/mission/status.ts";
import type { TaskSummary, Usage } from "../../protocol/task/status.ts";
import { pendingOf } from "../session/ask.ts";
import { usedOf } from "./budget.ts";
import { errorOf, type MissionState } from "../state/mission.ts";
import { missionAgent } from "./evolve.ts";
import { agentStatus } from "./next.ts";
import { phaseState, producedFor, productionsOf, workOf } from "./plan.ts";

/** What lists and the status record show of a Mission, from its own fold and the rows of its Tasks. */

/** The stored list row of a Mission. The counts of its Tasks are added when it is read. */
export type MissionRow = Omit<MissionSummary, "status" | "taskStats">;

export const rowOf = (state: MissionState): MissionRow => ({
  missionID: state.missionID,
  sessionID: state.sessionID,
  title: state.title,
  directory: state.directory,
  repository: state.repository && { url: state.repository.url, ref: state.repository.ref },
  agentStatus: agentStatus(state),
  archived: state.archived,
  createdAt: state.createdAt,
  updatedAt: state.updatedAt,
  updated: Date.parse(state.updatedAt),
  now: state.now,
});

export type Counts = { active: number; completed: number; failed: number; cancelled: number };

export const summaryOf = (row: MissionRow, { active, completed, failed, cancelled }: Counts): MissionSummary => {
  const inactive = completed + failed + cancelled;
  const taskStats = { total: active + inactive, running: active, inactive, completed, failed, cancelled };
  return { ...row, status: active > 0 ? "running" : "inactive", taskStats };
};

/** The status record. `tasks`: the rows of the Tasks it dispatched, oldest first. */
export const missionStatusOf = (
  state: MissionState,
  tasks: TaskSummary[],
  { mayProduce, now }: { mayProduce: boolean; now: Date },
): MissionStatus => {
  const { updated: _, ...row } = rowOf(state);
  const running = tasks.filter(({ status }) => status === "running").length;
  const counts = { total: tasks.length, running, inactive: tasks.length - running };
  const used = usedOf(state);
  return {
    ...row,
    session: sessionOf(state),
    status: running > 0 ? "running" : "inactive",
    lastEventID: state.position,
    landingBranch: state.repository?.branch ?? null,
    pullRequest: state.pullRequest,
    ...errorOf(state),
    aborted: state.aborted !== null,
    finished:
      state.finished === null
        ? null
        : { outcome: state.finished.outcome, summary: state.finished.summary, wakeAt: state.finished.wakeAt },
    taskCounts: counts,
    progress: { ...counts, percent: tasks.length === 0 ? 0 : (100 * running) / tasks.length },
    tasks,
    plan: planOf(state),
    pending: pendingOf(state),
    attachments: state.attachments,
    productPillar: state.productPillar,
    model: state.model,
    squads: state.squads,
    squadProduction: mayProduce ? "authorised" : "forbidden",
    usage: tasks.reduce((sum, { usage }) => together(sum, usage), state.usage),
    budget: state.cap,
    budgetUsed: used,
    generatedAt: now.toISOString(),
  };
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

export const planOf = (state: MissionState): MissionPhase[] =>
  state.plan.map((phase) => {
    const work = workOf(state, phase.id);
    return {
      ...phase,
      state: phaseState(state, phase),
      squad: work.at(-1)?.squad ?? producedFor(state, phase.id) ?? null,
      taskID: work.at(-1)?.taskID ?? null,
      productionTaskID: productionsOf(state, phase.id).at(-1)?.taskID ?? null,
      general: work.at(-1)?.general ?? null,
      attempts: work.length,
    };
  });
