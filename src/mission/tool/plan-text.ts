import { isPlanDue } from "../../domain/mission/approval.ts";
import { rounded, spentOf } from "../../domain/mission/budget.ts";
import { phaseState, workOf } from "../../domain/mission/plan.ts";
import { planOf } from "../../domain/mission/status.ts";
import { type Waits, waitsIn, waitText } from "../../domain/mission/now.ts";
import { deliveredBy, isRunning, type MissionState, outcomeOf } from "../../domain/state/mission.ts";
import type { MissionPhase, PlannedPhase } from "../../protocol/mission/status.ts";
import type { TaskSummary } from "../../protocol/task/status.ts";
import { maxOutput } from "../../tool/result.ts";
import { firstNames } from "./refusal.ts";

/** The plan and the Tasks as JSON, for the Mission's agent. */

/**
 * The plan after a change, without the words that the agent has just written: the phases that were written, those that
 * were dropped, and the state of all.
 */
export const planSummary = (state: MissionState, written: readonly string[], dropped: readonly string[]): string => {
  const states = Map.groupBy(planOf(state), (phase) => phase.state);
  const named = (word: string, ids: readonly string[]) => (ids.length === 0 ? [] : [`${word}: ${firstNames(ids)}.`]);
  return [
    ...named("Written", written),
    ...named("Dropped", dropped),
    ...(written.length + dropped.length === 0 ? ["Nothing changed in the words of a phase."] : []),
    ...named("The plan in its order", idsOf(state.plan)),
    ...[...states].flatMap(([name, phases]) => named(`In the state ${name}`, idsOf(phases))),
    ...(isPlanDue(state)
      ? ["The user approves it before anything more is dispatched, and is asked when your turn ends."]
      : []),
  ].join("\n");
};

const idsOf = (phases: readonly { id: string }[]): string[] => phases.map(({ id }) => id);

/**
 * The plan with the words of each phase. If that is too long to be shown, the words of done phases are left out first,
 * then those of all phases that were not asked for; if it still is, the other phases are shown by id only.
 */
export const planText = (state: MissionState, asked: readonly string[], rows: readonly TaskSummary[]): string => {
  const waits = waitsIn(rows);
  const phases = planOf(state, waits);
  const shown = (whole: (phase: MissionPhase) => boolean) =>
    JSON.stringify(
      {
        phases: phases.map((phase) => ({
          ...(whole(phase) ? wordsOf(phase) : { title: phase.title, words: "left out: name it in `phases`" }),
          ...standOf(phase),
          tasks: tasksOf(state, phase, waits),
        })),
        ...restOf(state, rows),
      },
      null,
      1,
    );
  const all = shown(() => true);
  if (all.length <= maxOutput) return all;
  const open = shown((phase) => asked.includes(phase.id) || phaseState(state, phase) !== "done");
  if (open.length <= maxOutput) return open;
  const titled = shown(({ id }) => asked.includes(id));
  if (titled.length <= maxOutput) return titled;
  const [named, others] = [true, false].map((is) => phases.filter(({ id }) => asked.includes(id) === is));
  const states = Map.groupBy(others ?? [], (phase) => phase.state);
  return JSON.stringify(
    {
      phases: named?.map((phase) => ({ ...wordsOf(phase), ...standOf(phase), tasks: tasksOf(state, phase, waits) })),
      ...restOf(state, rows),
      others: Object.fromEntries([...states].map(([name, some]) => [name, idsOf(some).join(", ")])),
      words: "of the others left out: name them in `phases`",
    },
    null,
    1,
  );
};

const wordsOf = ({ title, phase, objective, acceptance }: MissionPhase) => ({ title, phase, objective, acceptance });

const standOf = ({ id, state, waits, correction, after, squad, taskID, productionTaskID, attempts }: MissionPhase) => ({
  id,
  state,
  ...(waits === null ? {} : { now: `${waits.taskID} ${waitText(waits)}` }),
  ...(correction === null ? {} : { correction }),
  ...(after.length === 0 ? {} : { after }),
  ...(squad === null ? {} : { squad: squad.id }),
  ...(taskID === null ? {} : { taskID }),
  ...(productionTaskID === null ? {} : { productionTaskID }),
  attempts,
});

const tasksOf = (state: MissionState, { id }: PlannedPhase, waits: Waits) =>
  workOf(state, id).map((task) => ({
    taskID: task.taskID,
    now: isRunning(task) ? (waits.has(task.taskID) ? "waits for the user" : "running") : outcomeOf(task),
    ...(deliveredBy(task)?.landedCommit == null ? {} : { landed: deliveredBy(task)?.landedCommit }),
  }));

const restOf = (state: MissionState, rows: readonly TaskSummary[]) => ({
  running: state.tasks.filter(isRunning).map(({ taskID }) => taskID),
  ...(state.attachments.length === 0 ? {} : { attachments: state.attachments.map(({ filename }) => filename) }),
  ...verdictOf(state),
  ...(state.cap === null ? {} : { budget: state.cap, ...budgetOf(state, rows) }),
});

/** The newest verdict on the whole, unless it accepted the whole. */
const verdictOf = ({ verdict: known }: MissionState) => {
  if (known === null || known.verdict === "accepted") return {};
  const { verdict, taskID, commit, notes } = known;
  return { verdict: { verdict, taskID, commit, notes } };
};

/** Rounds sums to the digits that matter. */
const readable = (sums: Readonly<Record<string, number | null>>): Record<string, number | null> =>
  Object.fromEntries(Object.entries(sums).map(([name, sum]) => [name, sum === null ? null : rounded(sum)]));

/**
 * What is used so far, and what running Tasks may still use. A cost that is unknown is null in `used`, and left out of
 * `reserved`.
 */
const budgetOf = (state: MissionState, rows: readonly TaskSummary[]) => {
  const usage = new Map(rows.map((row) => [row.taskID, row.usage]));
  const { budgetSpent: spent, budgetReserved: reserved } = spentOf(state, usage);
  const { maxCostUSD: _, ...free } = reserved;
  return { used: readable(spent), reserved: readable(spent.maxCostUSD === null ? free : reserved) };
};
