import type { Recorded } from "../../../src/domain/event.ts";
import { evolveMission } from "../../../src/domain/mission/evolve.ts";
import { type MissionStep, nextStep } from "../../../src/domain/mission/next.ts";
import type { MissionState } from "../../../src/domain/state/mission.ts";
import type { TaskState } from "../../../src/domain/state/task.ts";
import { evolve } from "../../../src/domain/task/evolve.ts";
import { next } from "../../../src/domain/task/next/next.ts";
import type { Step } from "../../../src/domain/task/next/step.ts";

/** Which steps a sweep has met: the decisions themselves say it of each state that a log went through. */

const rules = {
  checkRounds: 3,
  own: [],
  doubted: [],
  sources: false,
  contrast: true,
  retries: true,
  plans: true,
  reviews: true,
  stop: undefined,
} as const;

export const metByTask = (events: readonly Recorded[]): Step["kind"][] => {
  let state: TaskState | undefined;
  const met: Step["kind"][] = [];
  for (const event of events) {
    state = evolve(state, event);
    met.push(next(state, rules).kind);
  }
  return met;
};

export const metByMission = (events: readonly Recorded[]): MissionStep["kind"][] => {
  let state: MissionState | undefined;
  const met: MissionStep["kind"][] = [];
  for (const [at, event] of events.entries()) {
    const now = evolveMission(state, event);
    state = now;
    // The answer to an approval and what is said of it are one commit.
    if (event.type === "ask.answered" && events[at + 1]?.type === "message.received") continue;
    met.push(nextStep(now).kind);
  }
  return met;
};
