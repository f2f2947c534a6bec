import { type Doing, short, since, talkOf, waitOf } from "../session/now.ts";
import { isRunning, type MissionState } from "../state/mission.ts";
import { stepOf } from "./step.ts";
import { judgingText } from "./whole/verdict.ts";

/** What the Mission does or waits for, in one sentence; null once it has ended, or stands still. */

/** The fold with what the Mission does now. */
export const withNow = (state: MissionState, at: string): MissionState => {
  const now = since(state.now, doingOf(state), at);
  return now === state.now ? state : { ...state, now };
};

const doingOf = (state: MissionState): Doing | undefined => {
  if (state.aborted !== null) return undefined;
  const wait = waitOf(state);
  if (wait !== undefined) return wait;
  if (state.judging !== null) return { kind: "verdict", text: judgingText };
  const step = stepOf(state);
  if (step.kind !== "sleep")
    return state.sandbox === null || state.stopped ? { kind: "queue", text: "Waiting in the queue" } : talkOf(state);
  const running = state.tasks.filter(isRunning);
  if (running.length > 0)
    return { kind: "tasks", text: short(`Waiting for ${running.map(({ title }) => `"${title}"`).join(", ")}`) };
  return step.until === null
    ? undefined
    : { kind: "time", text: `Waiting until ${step.until.slice(0, 16).replace("T", " ")} UTC` };
};
