import { oneLine } from "../../agent/loop/compaction.ts";
import { askedPlan, isPlanDue } from "../../domain/mission/approval.ts";
import { phaseState, workOf } from "../../domain/mission/plan.ts";
import { planOf } from "../../domain/mission/status.ts";
import { type Waits, waitText } from "../../domain/mission/now.ts";
import { deliveredBy, type Dispatched, isOfService, isRunning, type MissionState } from "../../domain/state/mission.ts";
import { readEnd } from "../../domain/task/commit-text.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { MissionPhase, PlannedPhase } from "../../protocol/mission/status.ts";
import { requireText } from "../../store/blob/text.ts";
import { shareRoom } from "../../tool/result.ts";
import { changeOf, deliveriesOf, sharedAmong } from "../delivery.ts";
import type { MissionRun } from "../run.ts";

/**
 * The state of a Mission in lines, for its agent when it is woken. They are sent with every request, so a done phase
 * gets one line, and only the others are told in full.
 */

const most = { phases: 60, done: 40, ends: 40, briefs: 20, reasons: 20 };
const longest = { words: 300, objective: 200, brief: 800, reason: 1000 };

/**
 * Characters for the reports of Tasks: `done` for all done phases together, `ends` for all others. Short reports are
 * told whole; the others share what is left equally, and get no less than `least`, because planning the next step needs
 * the earlier findings.
 */
const room = { done: 6_000, ends: 4_000, least: 150 };

/** Characters of an abbreviated commit id. */
const shortCommit = 12;

/** Ids of Tasks whose newest end is told in full after the state, because the agent has not read it yet. */
export type Fresh = ReadonlySet<string>;
const below = "told below";

/** What the done phases delivered, one line each; of the oldest phases only the ids. */
export const doneLines = (state: MissionState, fresh: Fresh = new Set()): string[] => {
  const done = state.plan.filter((phase) => phaseState(state, phase) === "done");
  const told = done.slice(-most.done);
  const older = done.slice(0, -most.done).map(({ id }) => id);
  const ends = told.map(({ id }) => {
    const { task, end } = deliveryOf(state, id);
    const delivered = deliveriesOf(state, id);
    return isTold(task, end, fresh) ? delivered.filter((one) => one !== end) : delivered;
  });
  const reports = ends.map((each) => each.map(reportOf).join(""));
  const rooms = shareRoom(lengthsOf(reports), room.done, room.least);
  return [
    ...cutLine(reports, rooms),
    ...(older.length === 0 ? [] : [`- ${older.join(", ")}: \`task_evidence\` has what their Tasks reported`]),
    ...told.map((phase, at) => `- ${doneLine(state, phase, fresh, ends[at] ?? [], rooms[at] ?? 0)}`),
  ];
};

/** The newest Task of a phase that delivered something, and the end with which it did. */
const deliveryOf = (state: MissionState, id: string) => {
  const work = workOf(state, id);
  const task = work.findLast((one) => deliveredBy(one) !== undefined);
  return { work, task, end: task === undefined ? undefined : deliveredBy(task) };
};

const isTold = (task: Dispatched | undefined, end: End | undefined, fresh: Fresh): boolean =>
  task !== undefined && end !== undefined && task.ends.at(-1) === end && fresh.has(task.taskID);

/** The report on one line. */
const reportOf = (end: End | undefined): string =>
  end === undefined ? "" : oneLine(readEnd(end.summary).report, Number.POSITIVE_INFINITY);

const lengthsOf = (texts: readonly string[]): number[] => texts.map(({ length }) => length);

/** Says where the whole reports are, if any of them is cut. */
const cutLine = (reports: readonly string[], rooms: readonly number[]): string[] =>
  reports.some(({ length }, at) => length > (rooms[at] ?? 0))
    ? ["What ends with … is cut; `task_evidence` with part outcome has all of it."]
    : [];

const cut = (report: string, length: number): string[] =>
  report === "" ? [] : [`it said: ${JSON.stringify(oneLine(report, length))}`];

/** What each end reported, the newest last. */
const saidBy = (ends: readonly End[], space: number): string[] => {
  const reports = ends.map(reportOf);
  const rooms = sharedAmong(reports, space);
  return reports
    .flatMap((report, at) => {
      const length = rooms[at] ?? 0;
      return length === 0 ? [] : [JSON.stringify(oneLine(report, length))];
    })
    .map((words, at) => `${at === 0 ? "it" : "then it"} said: ${words}`);
};

/** `ends`: those that are not told below. */
const doneLine = (
  state: MissionState,
  { id, title }: PlannedPhase,
  fresh: Fresh,
  ends: readonly End[],
  space: number,
): string => {
  const { work, task, end } = deliveryOf(state, id);
  const named = `${id} ${JSON.stringify(title)}`;
  if (task === undefined || end === undefined) return named;
  const last = task.ends.at(-1);
  return [
    `${named}: ${task.taskID}${work.length > 1 ? ` of ${work.length} Tasks` : ""}${isRunning(task) ? " (runs again)" : ""}`,
    ...(end.landedCommit === null ? [] : [`landed ${end.landedCommit.slice(0, shortCommit)}`]),
    ...(isTold(task, end, fresh) ? [below] : []),
    ...(ends.length === 0 ? [] : [...statOf(...deliveriesOf(state, id)), ...saidBy(ends, space)]),
    ...(last === undefined || last === end || isRunning(task)
      ? []
      : [`its correction: ${endLine(task, last, fresh, cut(reportOf(last), longest.words))}`]),
  ].join("; ");
};

export const planLines = (state: MissionState, waits: Waits): string[] => {
  const open = planOf(state, waits).filter((phase) => phase.state !== "done");
  const rest = open.length > most.phases ? [`- and ${open.length - most.phases} more`] : [];
  return [...open.slice(0, most.phases).map((phase) => `- ${phaseLine(phase)}`), ...rest];
};

/** Whether the user has approved the plan, for a Mission that needs that. */
export const approvalLines = (state: MissionState): string[] => {
  if (!state.approve.includes("plan") || state.plan.length === 0) return [];
  if (!isPlanDue(state)) return ["- The user approved the plan as it stands"];
  return [
    askedPlan(state) === undefined
      ? "- The plan as it stands is not approved; the user is asked when your turn ends, and nothing is dispatched before"
      : "- The user is asked about the plan as it stands, and nothing is dispatched before they approve it",
  ];
};

const phaseLine = ({ id, title, phase, state, waits, after, squad, objective }: MissionPhase): string =>
  [
    `${id} ${JSON.stringify(title)} (${phase}): ${state}`,
    ...(waits === null ? [] : [`${waits.taskID} ${waitText(waits)}`]),
    ...(after.length === 0 ? [] : [`after ${after.join(", ")}`]),
    ...(squad === null ? [] : [`squad ${squad.id}`]),
    oneLine(objective, longest.objective),
  ].join("; ");

/** Tasks of phases that are not done or no longer in the plan. Tasks of the service's own are told separately. */
export const endLines = (state: MissionState, waits: Waits, fresh: Fresh = new Set()): string[] => {
  const done = new Set(state.plan.filter((phase) => phaseState(state, phase) === "done").map(({ id }) => id));
  const open = state.tasks.filter(
    (task) => !isOfService(task) && !done.has(task.phase) && (isRunning(task) || task.ends.length > 0),
  );
  const told = open.slice(-most.ends);
  const reports = told.map((task) =>
    isRunning(task) || isTold(task, task.ends.at(-1), fresh) ? "" : reportOf(task.ends.at(-1)),
  );
  const rooms = shareRoom(lengthsOf(reports), room.ends, room.least);
  const planned = new Set(state.plan.map(({ id }) => id));
  const lines = told.map((task, at) => {
    const end = task.ends.at(-1);
    const wait = waits.get(task.taskID);
    const now = isRunning(task)
      ? wait === undefined
        ? "runs"
        : waitText(wait)
      : end === undefined
        ? ""
        : endLine(task, end, fresh, cut(reports[at] ?? "", rooms[at] ?? 0));
    const landed = deliveredBy(task)?.landedCommit;
    const phase = planned.has(task.phase) ? task.phase : `${task.phase} (dropped from the plan)`;
    return `- ${task.taskID} of ${phase}: ${now}${landed == null ? "" : `; landed ${landed.slice(0, shortCommit)}`}`;
  });
  const dropped = open.length - told.length;
  return [...cutLine(reports, rooms), ...(dropped === 0 ? [] : [`- ${dropped} older ones are left out`]), ...lines];
};

type End = EventData["task.ended"];

const endLine = (task: Dispatched, end: End, fresh: Fresh, said: string[]): string =>
  [
    `${end.outcome}${end.code === undefined ? "" : ` (${end.code})`}`,
    ...(isTold(task, end, fresh)
      ? [below]
      : [
          ...(end.cancelledByUser === undefined
            ? end.error === undefined
              ? []
              : [oneLine(end.error, longest.words)]
            : ["by the user"]),
          ...statOf(end),
          ...said,
        ]),
  ].join("; ");

/** Why the user cancelled Tasks, in their own words, which stay valid whatever has become of the phase. */
export const cancelLines = ({ tasks }: MissionState, fresh: Fresh = new Set()): string[] =>
  tasks
    .flatMap((task) =>
      task.ends.flatMap((end) => {
        const { reason = "" } = end.cancelledByUser ?? {};
        return reason === "" || isTold(task, end, fresh)
          ? []
          : [
              `- ${task.taskID}${isOfService(task) ? `, ${JSON.stringify(task.title)}` : ` of ${task.phase}`}: ${oneLine(reason, longest.reason)}`,
            ];
      }),
    )
    .slice(-most.reasons);

const statOf = (...ends: readonly End[]): string[] => {
  const change = changeOf(ends);
  return change === undefined ? [] : [change];
};

/** The newest brief of each phase that is not done, needed by whoever briefs the phase anew. */
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
