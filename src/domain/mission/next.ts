import type { MissionState } from "../state/mission.ts";
import { standingOf } from "./standing.ts";
import { type OwnStep, stepOf } from "./step.ts";

/** What a Mission does next: its own step, or first a notice to watchers that it stands still or waits for a time. */

export type MissionStep =
  | OwnStep
  | { kind: "tell"; told: "stalled" | "waiting"; reason: string; until: string | null }
  /** The Mission cannot answer a question of its Tasks, or has not done so: a person is asked. */
  | { kind: "pass" };

export const nextStep = (state: MissionState): MissionStep => {
  const step = stepOf(state);
  if (state.questions.length > 0 && state.aborted === null && resting.has(step.kind)) return { kind: "pass" };
  if (step.kind !== "sleep" && step.kind !== "wait") return step;
  const { state: word, reason, until } = standingOf(state);
  // Waiting for its own Tasks is normal: their ends are notified anyway.
  const told = word === "stalled" ? word : word === "waiting" && until !== null ? word : null;
  return told === null || told === state.told ? step : { kind: "tell", told, reason: reason ?? "", until };
};

/** Whether the store must keep the stream claimed or due. */
export const isAwake = (state: MissionState): boolean => nextStep(state).kind !== "sleep";

/** Steps in which its agent makes no reply. */
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
