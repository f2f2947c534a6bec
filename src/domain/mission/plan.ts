import type { PlannedPhase } from "../../protocol/mission/status.ts";
import type { SquadRef } from "../agent.ts";
import { type Dispatched, isRunning, type MissionState, outcomeOf } from "../state/mission.ts";

/** The plan of a Mission: its phases, what blocks them, and how far each has come. */

/** How often a failed Task is tried again, each time with another brief. */
export const maxPhaseTries = 2;

/**
 * What is wrong with a plan; undefined: nothing. `kept`: phases that must stay, because Tasks were dispatched for them.
 */
export const planProblem = (phases: readonly PlannedPhase[], kept: readonly string[] = []): string | undefined => {
  const ids = new Set(phases.map(({ id }) => id));
  if (ids.size < phases.length) {
    const twice = phases.find(({ id }, at) => phases.findIndex((phase) => phase.id === id) !== at);
    return `Expected a different id for every phase, got "${twice?.id}" twice`;
  }
  for (const { id, after } of phases)
    for (const before of after) {
      if (before === id) return `Expected phase "${id}" to come after others, got itself`;
      if (!ids.has(before)) return `Expected ids of this plan in \`after\` of "${id}", got "${before}"`;
    }
  const circle = phases.find(({ id }) => reaches(phases, id, id, new Set()));
  if (circle !== undefined) return `Expected phases without a circle in \`after\`, got one through "${circle.id}"`;
  const lost = kept.find((id) => !ids.has(id));
  return lost === undefined ? undefined : `Expected the phase "${lost}", whose Task runs, to stay; cancel it first`;
};

const reaches = (phases: readonly PlannedPhase[], from: string, to: string, seen: Set<string>): boolean => {
  const next = phases.find(({ id }) => id === from)?.after ?? [];
  return next.some((id) => {
    if (id === to) return true;
    if (seen.has(id)) return false;
    seen.add(id);
    return reaches(phases, id, to, seen);
  });
};

export type PhaseState = "waiting" | "ready" | "producing" | "running" | "done" | "failed" | "cancelled";

/** The Tasks that do a phase's work, oldest first. */
export const workOf = ({ tasks }: MissionState, phaseID: string): Dispatched[] =>
  tasks.filter(({ phase, production }) => phase === phaseID && production === null);

export const productionsOf = ({ tasks }: MissionState, phaseID: string): Dispatched[] =>
  tasks.filter(({ phase, production }) => phase === phaseID && production !== null);

/** The squad that was produced for a phase, if it was verified to be the one that was staged. */
export const producedFor = (state: MissionState, phaseID: string): SquadRef | undefined => {
  const last = productionsOf(state, phaseID).at(-1)?.reconciled;
  return last != null && "digest" in last ? last : undefined;
};

export const phaseState = (state: MissionState, phase: PlannedPhase): PhaseState => {
  const last = workOf(state, phase.id).at(-1);
  const outcome = last === undefined ? undefined : outcomeOf(last);
  if (last !== undefined && isRunning(last)) return "running";
  if (outcome === "completed") return "done";
  if (productionsOf(state, phase.id).some(isRunning)) return "producing";
  if (outcome === "cancelled" || outcome === "deleted") return "cancelled";
  if (outcome === "failed") return "failed";
  return blockersOf(state, phase).length > 0 ? "waiting" : "ready";
};

/** Phases that this one depends on and that are not done. */
export const blockersOf = (state: MissionState, phase: PlannedPhase): string[] =>
  phase.after.filter((id) => {
    const before = state.plan.find((other) => other.id === id);
    return before === undefined || phaseState(state, before) !== "done";
  });

export const outcomeText = (outcome: "completed" | "failed" | "cancelled" | "deleted"): string =>
  ({ completed: "It was completed", failed: "It failed", cancelled: "It was cancelled", deleted: "It was deleted" })[
    outcome
  ];

/** The Tasks of a phase that failed. */
export const failuresOf = (state: MissionState, phaseID: string): Dispatched[] =>
  workOf(state, phaseID).filter((task) => outcomeOf(task) === "failed");
