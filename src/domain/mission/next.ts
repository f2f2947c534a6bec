import type { MissionState } from "../state/mission.ts";
import { standingOf } from "./standing.ts";
import { type OwnStep, stepOf } from "./step.ts";

/** What a Mission does next: its own step, after whoever watches was told that it stands still or waits for a time. */

export type MissionStep =
  | OwnStep
  | { kind: "tell"; told: "stalled" | "waiting"; reason: string; until: string | null }
  /** It cannot answer what its Tasks ask, or has said nothing of it: a person is asked. */
  | { kind: "pass" };

export const nextStep = (state: MissionState): MissionStep => {
  const step = stepOf(state);
  if (state.questions.length > 0 && state.aborted === null && resting.has(step.kind)) return { kind: "pass" };
  if (step.kind !== "sleep" && step.kind !== "wait") return step;
  const { state: word, reason, until } = standingOf(state);
  // Waiting for its own Tasks is its ordinary life: their ends are told.
  const told = word === "stalled" ? word : word === "waiting" && until !== null ? word : null;
  return told === null || told === state.told ? step : { kind: "tell", told, reason: reason ?? "", until };
};

/** Whether the store must keep the stream claimed or due. */
export const isAwake = (state: MissionState): boolean => nextStep(state).kind !== "sleep";

/** Steps in which its agent says nothing. */
const resting: ReadonlySet<string> = new Set<OwnStep["kind"]>([
  "sleep",
  "ask",
  "wait",
  "pause",
  "unpriced",
  "repetition",
]);

const still: ReadonlySet<string> = new Set<MissionStep["kind"]>(["sleep", "ask", "wait", "tell", "pass"]);

/** Whether its own agent is working now, rather than waiting for an answer or for quota. */
export const agentStatus = (state: MissionState): "running" | "inactive" =>
  still.has(nextStep(state).kind) ? "inactive" : "running";
