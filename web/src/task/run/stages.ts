import type { Frame } from "../../../../src/protocol/event/frame.ts";
import { beginsStage, type Stage, stages } from "../../../../src/protocol/stage.ts";
import type { TaskStatus } from "../../../../src/protocol/task/status.ts";

/** The five stages that a Task passes through, folded from its log: the present stage, and the time spent in each. */

export type Passage = {
  /** Milliseconds spent in each stage that was entered, without the present stay. */
  spent: ReadonlyMap<Stage, number>;
  at: Stage;
  /** When the present stage was entered; null: the Task has ended. */
  since: string | null;
};

/** The stages of the newest attempt: a message to an ended Task begins a new one. */
export const passageOf = (frames: readonly Frame[]): Passage | undefined => {
  const spent = new Map<Stage, number>();
  const reviewers = new Set<string>();
  let at: Stage = "queue";
  let since: string | null = null;
  const leave = (until: string): void => {
    if (since !== null) spent.set(at, (spent.get(at) ?? 0) + Math.max(0, Date.parse(until) - Date.parse(since)));
    since = null;
  };
  for (const frame of frames) {
    if (frame.type === "task.settled") {
      leave(frame.at);
      continue;
    }
    const next = beginsStage(frame, at, reviewers);
    // Events after the end, such as the delivery of a message, are ignored unless they start a new attempt.
    if (next === undefined || (since === null && spent.size > 0 && next !== "queue")) continue;
    if (since === null) spent.clear();
    else if (next === at) continue;
    else leave(frame.at);
    at = next;
    since = frame.at;
  }
  return since === null && spent.size === 0 ? undefined : { spent, at, since };
};

/** The stage by the Task's phase alone, used while the log is incomplete. */
const byPhase: Record<TaskStatus["phase"], Stage> = {
  queued: "queue",
  preparing: "work",
  planning: "work",
  working: "work",
  waiting: "work",
  checking: "checks",
  reviewing: "review",
  landing: "land",
  settled: "land",
};

export type Step = {
  stage: Stage;
  state: "done" | "now" | "failed" | "stopped" | "ahead" | "skipped";
  /** Milliseconds; null: unknown. */
  spent: number | null;
  since: string | null;
};

/** The stages as they are shown. `passage`: undefined while the log is incomplete. */
export const stepsOf = (
  { phase, lifecycleStatus }: Pick<TaskStatus, "phase" | "lifecycleStatus">,
  passage: Passage | undefined,
): Step[] => {
  const active = lifecycleStatus === "active";
  const at = passage?.at ?? byPhase[phase];
  const ended = { failed: "failed", cancelled: "stopped", completed: "done", active: "now" } as const;
  const stateOf = (stage: Stage, index: number): Step["state"] => {
    if (stage === at && (active || passage !== undefined)) return ended[lifecycleStatus];
    if (active && index > stages.indexOf(at)) return "ahead";
    const entered = passage === undefined ? active : passage.spent.has(stage);
    return entered ? "done" : "skipped";
  };
  return stages.map((stage, index) => ({
    stage,
    state: stateOf(stage, index),
    spent: passage?.spent.get(stage) ?? null,
    since: active && stage === at ? (passage?.since ?? null) : null,
  }));
};
