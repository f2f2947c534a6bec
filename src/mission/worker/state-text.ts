import { oneLine } from "../../agent/loop/compaction.ts";
import { askedPlan, isPlanDue } from "../../domain/mission/approval.ts";
import { phaseState, workOf } from "../../domain/mission/plan.ts";
import { planOf } from "../../domain/mission/status.ts";
import { deliveredBy, isRunning, type MissionState } from "../../domain/state/mission.ts";
import { readEnd } from "../../domain/task/commit-text.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { MissionPhase, PlannedPhase } from "../../protocol/mission/status.ts";
import { requireText } from "../../store/blob/text.ts";
import type { MissionRun } from "../run.ts";

/**
 * The state of a Mission in lines, for its agent when it is woken. It is read again with every request, so what is done is
 * told in one line for each phase, and in full only what is not.
 */

const most = { phases: 60, done: 40, recent: 3, ends: 40, briefs: 20 };
const longest = { words: 300, done: 100, objective: 200, brief: 800 };

/** Characters by which a commit is named. */
const shortCommit = 12;

/** What came of a phase, by its newest Task that delivered: of the last ones more, of those long ago their ids. */
export const doneLines = (state: MissionState): string[] => {
  const done = state.plan.filter((phase) => phaseState(state, phase) === "done");
  const told = done.slice(-most.done);
  const older = done.slice(0, -most.done).map(({ id }) => id);
  return [
    ...(older.length === 0 ? [] : [`- ${older.join(", ")}`]),
    ...told.map((phase, at) => `- ${doneLine(state, phase, at >= told.length - most.recent)}`),
  ];
};

const doneLine = (state: MissionState, { id, title }: PlannedPhase, recent: boolean): string => {
  const work = workOf(state, id);
  const task = work.findLast((one) => deliveredBy(one) !== undefined);
  const end = task === undefined ? undefined : deliveredBy(task);
  const named = `${id} ${JSON.stringify(title)}`;
  if (task === undefined || end === undefined) return named;
  const last = task.ends.at(-1);
  return [
    `${named}: ${task.taskID}${work.length > 1 ? ` of ${work.length} Tasks` : ""}${isRunning(task) ? " (runs again)" : ""}`,
    ...(end.landedCommit === null ? [] : [`landed ${end.landedCommit.slice(0, shortCommit)}`]),
    ...statOf(end),
    ...saidIn(end, recent ? longest.words : longest.done),
    ...(last === undefined || last === end || isRunning(task) ? [] : [`its correction: ${endLine(last)}`]),
  ].join("; ");
};

export const planLines = (state: MissionState): string[] => {
  const open = planOf(state).filter((phase) => phase.state !== "done");
  const rest = open.length > most.phases ? [`- and ${open.length - most.phases} more`] : [];
  return [...open.slice(0, most.phases).map((phase) => `- ${phaseLine(phase)}`), ...rest];
};

/** Of a Mission whose user approves its plan: whether they have. */
export const approvalLines = (state: MissionState): string[] => {
  if (!state.approve.includes("plan") || state.plan.length === 0) return [];
  if (!isPlanDue(state)) return ["- The user approved the plan as it stands"];
  return [
    askedPlan(state) === undefined
      ? "- The plan as it stands is not approved; the user is asked when your turn ends, and nothing is dispatched before"
      : "- The user is asked about the plan as it stands, and nothing is dispatched before they approve it",
  ];
};

const phaseLine = ({ id, title, phase, state, after, squad, objective }: MissionPhase): string =>
  [
    `${id} ${JSON.stringify(title)} (${phase}): ${state}`,
    ...(after.length === 0 ? [] : [`after ${after.join(", ")}`]),
    ...(squad === null ? [] : [`squad ${squad.id}`]),
    oneLine(objective, longest.objective),
  ].join("; ");

/** Of what is not done, and of phases that are in the plan no more. */
export const endLines = (state: MissionState): string[] => {
  const done = new Set(state.plan.filter((phase) => phaseState(state, phase) === "done").map(({ id }) => id));
  const lines = state.tasks.flatMap((task) => {
    if (done.has(task.phase)) return [];
    const end = task.ends.at(-1);
    const now = isRunning(task) ? ["runs"] : end === undefined ? [] : [endLine(end)];
    const landed = deliveredBy(task)?.landedCommit;
    return [
      `- ${task.taskID} of ${task.phase}: ${[...now, ...(landed == null ? [] : [`landed ${landed.slice(0, shortCommit)}`])].join("; ")}`,
    ];
  });
  const dropped = lines.length - most.ends;
  return dropped <= 0 ? lines : [`- ${dropped} older ones are left out`, ...lines.slice(-most.ends)];
};

type End = EventData["task.ended"];

const endLine = (end: End): string =>
  [
    `${end.outcome}${end.code === undefined ? "" : ` (${end.code})`}`,
    ...(end.error === undefined ? [] : [oneLine(end.error, longest.words)]),
    ...statOf(end),
    ...saidIn(end, longest.words),
  ].join("; ");

const statOf = ({ evidence }: End): string[] =>
  evidence?.diffStat == null
    ? []
    : [`${evidence.diffStat.files} files +${evidence.diffStat.insertions} -${evidence.diffStat.deletions}`];

const saidIn = ({ summary }: End, length: number): string[] => {
  const { report } = readEnd(summary);
  return report.trim() === "" ? [] : [`it said: ${JSON.stringify(oneLine(report, length))}`];
};

/** Whoever has to brief a phase anew wants to know how it was briefed. */
export const briefLines = async (run: MissionRun): Promise<string[]> => {
  const state = run.state();
  const open = state.plan.flatMap((phase) =>
    phaseState(state, phase) === "done" ? [] : workOf(state, phase.id).slice(-1),
  );
  return Promise.all(
    open.slice(0, most.briefs).map(async ({ taskID, phase }) => {
      const request = (await run.store.state(taskID))?.request;
      const text = request === undefined ? "" : await requireText(run.store.blobs, request);
      return `- ${phase}: ${oneLine(text, longest.brief)}`;
    }),
  );
};
