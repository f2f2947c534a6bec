import type { PhaseWait } from "../../protocol/mission/status.ts";
import type { TaskSummary } from "../../protocol/task/status.ts";
import { toPerson } from "../session/ask.ts";
import { type Doing, short, since, talkOf, waitOf } from "../session/now.ts";
import { isRunning, type MissionState } from "../state/mission.ts";
import { stepOf } from "./step.ts";
import { judgingText } from "./whole/verdict.ts";

/** What the Mission does or waits for, in one sentence; null once it has ended or stands still. */

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

// ---- What Tasks wait for from a person: only the Tasks' own logs have it, so it is read from their rows -------------

/** The ask for which a Task waits for a person; undefined: it waits for nobody. */
export const personalWait = ({ taskID, lifecycleStatus, pending, now }: TaskSummary): PhaseWait | undefined => {
  const [ask] = lifecycleStatus === "active" ? toPerson(pending) : [];
  if (ask === undefined) return undefined;
  return { taskID, askID: ask.id, kind: ask.kind, of: ask.of ?? null, since: now?.kind === "ask" ? now.since : null };
};

export type Waits = ReadonlyMap<string, PhaseWait>;

/** The waits of these Tasks, by Task id. */
export const waitsIn = (rows: readonly TaskSummary[]): Waits =>
  new Map(rows.flatMap((row) => [personalWait(row) ?? []].flat().map((wait) => [row.taskID, wait] as const)));

/** Describes the wait to the Mission's agent, who is not the one asked. */
export const waitText = ({ kind, of, since }: PhaseWait): string =>
  `waits for the user's ${kind === "question" ? "answer" : kind}${of === null ? "" : ` of the ${of}`}${since === null ? "" : `, since ${since.slice(0, 16).replace("T", " ")} UTC`}`;
