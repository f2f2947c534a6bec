import type { MissionSummary } from "../../protocol/mission/status.ts";
import { short } from "../session/now.ts";
import { errorOf, isRunning, type MissionState } from "../state/mission.ts";
import { openAsks } from "../state/stream.ts";
import { pausedText } from "./budget.ts";
import { stepOf } from "./step.ts";
import { judgeTaskOf, judgingText } from "./whole/verdict.ts";

/**
 * Where a Mission stands, in one word: the first row of the table that applies. Only in the last row (`stalled`) is
 * nothing due and nobody asked, although its agent has not reported an end.
 */

/**
 * `until`: when the Mission continues by itself, if a time is known. `tasks`: it waits for its Tasks and for nothing
 * else.
 */
export type Standing = {
  state: MissionSummary["state"];
  reason: string | null;
  until: string | null;
  tasks: boolean;
};

type Row = [MissionSummary["state"], (state: MissionState) => Partial<Omit<Standing, "state">> | undefined];

const table: readonly Row[] = [
  ["aborted", (state) => (state.aborted === null ? undefined : { reason: errorOf(state)?.error ?? null })],
  ["asking", (state) => openAsks(state).map(({ prompt }) => ({ reason: `It asks: ${prompt}` }))[0]],
  [
    "paused",
    (state) =>
      state.paused !== null && stepOf(state).kind === "sleep" ? { reason: pausedText(state.paused) } : undefined,
  ],
  [
    "waiting",
    ({ deferred, pause }) =>
      deferred !== null
        ? { reason: deferred.reason, until: deferred.until }
        : pause === null
          ? undefined
          : { reason: pause.reason },
  ],
  ["working", (state) => (stepOf(state).kind === "sleep" ? undefined : {})],
  [
    "waiting",
    (state) => {
      if (state.judging !== null && judgeTaskOf(state) !== undefined) return { reason: judgingText, tasks: true };
      const titles = state.tasks.filter(isRunning).map(({ title }) => `"${title}"`);
      return titles.length === 0 ? undefined : { reason: `Waits for ${titles.join(", ")}`, tasks: true };
    },
  ],
  [
    "blocked",
    ({ finished, mergeProblem }) =>
      finished?.outcome === "done" && mergeProblem !== null
        ? { reason: `It is done, and its branch was not merged: ${mergeProblem}` }
        : undefined,
  ],
  [
    "done",
    ({ finished, unmerged, branch }) => {
      if (finished?.outcome !== "done") return undefined;
      return unmerged && branch !== null ? { reason: `Its work is on ${branch.name} and waits to be merged` } : {};
    },
  ],
  ["blocked", ({ finished }) => (finished?.outcome === "blocked" ? { reason: finished.summary } : undefined)],
  [
    "waiting",
    ({ finished }) => (finished?.wakeAt == null ? undefined : { reason: finished.summary, until: finished.wakeAt }),
  ],
  [
    "stalled",
    ({ failure, finished, refusedBy }) => ({
      reason:
        refusedBy !== null
          ? `Its plan was not approved (${refusedBy}), and no changes were requested: wake it with what is to be different`
          : finished !== null
            ? `It waits for something outside, and has set no time to check again: ${finished.summary}`
            : (failure?.failure.message ?? "Its agent stopped without saying how the Mission ends, and nothing runs"),
    }),
  ],
];

/** The standing, as far as the Mission's own log tells. */
export const standingOf = (state: MissionState): Standing => {
  for (const [word, holds] of table) {
    const found = holds(state);
    if (found === undefined) continue;
    const { reason = null, until = null, tasks = false } = found;
    return { state: word, reason: reason === null ? null : short(reason), until, tasks };
  }
  throw new Error("Expected a row for every Mission.");
};

/**
 * The standing, considering what its Tasks do now. `known`: the number of running Tasks according to the Mission's own
 * log. `active`: the number that actually run. `asking`: the number that wait for an answer.
 */
export const standingAmong = (
  own: Pick<Standing, "state" | "reason" | "tasks">,
  { known, active, asking }: { known: number; active: number; asking: number },
): Pick<Standing, "state" | "reason"> => {
  const { state, reason } = own;
  if (state === "aborted" || state === "asking") return { state, reason };
  if (asking > 0)
    return { state: "asking", reason: asking === 1 ? "One of its Tasks asks" : `${asking} of its Tasks ask` };
  // A Task has ended and the Mission has not handled that yet, so the Mission is due.
  if (own.tasks && active < known) return { state: "working", reason: null };
  return { state, reason };
};
