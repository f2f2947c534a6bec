import { oneLine } from "../../agent/loop/compaction.ts";
import { type Waits, waitText } from "../../domain/mission/now.ts";
import { type Dispatched, isOfService, isRunning, type MissionState } from "../../domain/state/mission.ts";
import { serviceDutyOf } from "../service-task.ts";
import { failedRequired } from "../verify.ts";
import type { Fresh } from "./state-text.ts";

/**
 * What is known of the whole of a Mission, and what the service does with it, in lines for its agent when it is woken.
 */

const longest = { notes: 4_000, error: 300, tail: 600 };
const mostRed = 10;

/** Characters of an abbreviated commit id. */
const shortCommit = 12;

export const wholeLines = (state: MissionState, waits: Waits, fresh: Fresh = new Set()): string[] => [
  ...verdictLines(state, fresh),
  ...acceptanceLines(state),
  ...ownLines(state, waits),
];

/** Word for word, because the agent decides by it what to fix. */
const verdictLines = ({ verdict }: MissionState, fresh: Fresh): string[] => {
  if (verdict === null || verdict.verdict === "accepted") return [];
  const { taskID, commit, notes } = verdict;
  const said = fresh.has(taskID) ? "told below" : `it said: ${JSON.stringify(oneLine(notes, longest.notes))}`;
  return [`- The newest verdict, of ${taskID} on ${commit.slice(0, shortCommit)}: ${verdict.verdict}; ${said}`];
};

const acceptanceLines = ({ acceptance }: MissionState): string[] => {
  if (acceptance === null) return [];
  const on = acceptance.commit.slice(0, shortCommit);
  return failedRequired(acceptance.results)
    .slice(0, mostRed)
    .map(({ name, state, reason, tail }) =>
      [
        `- The user's check ${JSON.stringify(name)}, on ${on}: ${state}`,
        ...(reason === null ? [] : [oneLine(reason, longest.error)]),
        ...(tail.trim() === ""
          ? []
          : [`at the end: ${JSON.stringify(oneLine(tail.slice(-longest.tail), longest.tail))}`]),
      ].join("; "),
    );
};

/** The service's own Tasks that run, and how the newest merge ended. */
const ownLines = ({ tasks }: MissionState, waits: Waits): string[] => {
  const merge = tasks.findLast((task) => task.merge !== undefined);
  return tasks
    .filter((task) => isOfService(task) && (isRunning(task) || task === merge))
    .map((task) => `- ${task.taskID}, which ${serviceDutyOf(task)}: ${nowOf(task, waits)}`);
};

const nowOf = (task: Dispatched, waits: Waits): string => {
  const wait = waits.get(task.taskID);
  if (isRunning(task)) return wait === undefined ? "runs" : waitText(wait);
  const end = task.ends.at(-1);
  if (end === undefined) return "ended";
  const { outcome, landedCommit, error } = end;
  return [
    outcome,
    ...(landedCommit === null ? [] : [`landed ${landedCommit.slice(0, shortCommit)}`]),
    ...(error === undefined ? [] : [oneLine(error, longest.error)]),
  ].join("; ");
};
