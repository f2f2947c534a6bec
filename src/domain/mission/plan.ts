import type { PlannedPhase } from "../../protocol/mission/status.ts";
import type { SquadRef } from "../agent.ts";
import { deliveredBy, type Dispatched, isRunning, isWork, type MissionState, outcomeOf } from "../state/mission.ts";

/** The plan of a Mission: its phases, what blocks them, and how far each has come. */

/** How often a failed Task is tried again, each time with another brief. */
export const maxPhaseTries = 2;

/** What is wrong with a plan in itself; undefined: nothing. */
export const planProblem = (phases: readonly PlannedPhase[]): string | undefined => {
  const ids = new Set(phases.map(({ id }) => id));
  if (ids.size < phases.length) {
    const twice = phases.find(({ id }, at) => phases.findIndex((phase) => phase.id === id) !== at);
    return `Expected a different id for every phase, got "${twice?.id}" twice`;
  }
  for (const { id, after } of phases)
    for (const before of after) {
      if (before === id) return `Expected phase "${id}" to come after others, got "${id}" itself in its \`after\``;
      if (!ids.has(before))
        return `Expected ids of this plan in \`after\` of "${id}", got "${before}": add that phase first, or leave it out`;
    }
  const circle = inCircle(phases);
  return circle === undefined
    ? undefined
    : `Expected phases without a circle in \`after\`, got one through "${circle}"`;
};

/** A phase that comes after itself, by way of others. */
const inCircle = (phases: readonly PlannedPhase[]): string | undefined => {
  const waiting = new Map(phases.map(({ id, after }) => [id, new Set(after)]));
  for (let free: string[] = [""]; free.length > 0; ) {
    free = [...waiting].flatMap(([id, after]) => (after.size === 0 ? [id] : []));
    for (const id of free) waiting.delete(id);
    for (const after of waiting.values()) for (const id of free) after.delete(id);
  }
  // What is left waits for a circle or is in it: whoever goes back from phase to phase comes into it.
  const [start] = waiting.keys();
  const seen = new Set<string>();
  let id = start;
  while (id !== undefined && !seen.has(id)) {
    seen.add(id);
    [id] = waiting.get(id) ?? [];
  }
  return id;
};

/** The plan with one phase, new at the end or changed where it stands. */
export const withPhase = (plan: readonly PlannedPhase[], phase: PlannedPhase): PlannedPhase[] => {
  const at = plan.findIndex(({ id }) => id === phase.id);
  return at < 0 ? [...plan, phase] : plan.with(at, phase);
};

/** The plan in this order; what it does not name stays behind it. */
export const inOrder = (plan: readonly PlannedPhase[], ids: readonly string[]): PlannedPhase[] => {
  const at = new Map(ids.map((id, index) => [id, index]));
  const place = ({ id }: PlannedPhase): number => at.get(id) ?? ids.length;
  return plan.toSorted((one, other) => place(one) - place(other));
};

/** What makes one plan of another: the phases written, those dropped, and the order where it is not that already. */
export const planDifference = (
  plan: readonly PlannedPhase[],
  next: readonly PlannedPhase[],
): { written: PlannedPhase[]; dropped: string[]; order: string[] | null } => {
  const before = new Map(plan.map((phase) => [phase.id, JSON.stringify(phase)]));
  const ids = next.map(({ id }) => id);
  const kept = new Set(ids);
  const written = next.filter((phase) => before.get(phase.id) !== JSON.stringify(phase));
  const dropped = plan.flatMap(({ id }) => (kept.has(id) ? [] : [id]));
  const then = written.reduce<PlannedPhase[]>(
    withPhase,
    plan.filter(({ id }) => kept.has(id)),
  );
  const order = then.every(({ id }, at) => id === ids[at]) ? null : ids;
  return { written, dropped, order };
};

export type PhaseState = "waiting" | "ready" | "producing" | "running" | "done" | "failed" | "cancelled";

/** The Tasks that do a phase's work, oldest first. */
export const workOf = ({ tasks }: MissionState, phaseID: string): Dispatched[] =>
  tasks.filter((task) => task.phase === phaseID && isWork(task));

export const productionsOf = ({ tasks }: MissionState, phaseID: string): Dispatched[] =>
  tasks.filter(({ phase, production }) => phase === phaseID && production !== null);

/** The squad that was produced for a phase, if it was verified to be the one that was staged. */
export const producedFor = (state: MissionState, phaseID: string): SquadRef | undefined => {
  const last = productionsOf(state, phaseID).at(-1)?.reconciled;
  return last != null && "digest" in last ? last : undefined;
};

/**
 * A squad of this id was made for the Mission and refused, or what stands in the catalog now is not what was made: it
 * is used under no phase, until one of that id is made anew.
 */
export const isBarred = ({ tasks }: MissionState, { id, digest }: Pick<SquadRef, "id" | "digest">): boolean => {
  const made = tasks.findLast(({ production, reconciled }) => production?.squad === id && reconciled !== null);
  if (made?.reconciled == null) return false;
  return "refused" in made.reconciled || made.reconciled.digest !== digest;
};

/**
 * A squad that was made for the Mission, and whose newest Task of this phase failed by itself: it may be left for
 * another.
 */
export const hasFailedAt = (state: MissionState, phaseID: string, squadID: string): boolean => {
  const last = workOf(state, phaseID).findLast(({ squad }) => squad.id === squadID);
  return (
    state.tasks.some(({ production }) => production?.squad === squadID) &&
    last !== undefined &&
    !isRunning(last) &&
    outcomeOf(last) === "failed"
  );
};

export const phaseState = (state: MissionState, phase: PlannedPhase): PhaseState => {
  const last = workOf(state, phase.id).at(-1);
  const outcome = last === undefined ? undefined : outcomeOf(last);
  if (last !== undefined && isRunning(last)) return "running";
  if (isDone(state, phase.id)) return "done";
  if (productionsOf(state, phase.id).some(isRunning)) return "producing";
  if (outcome === "cancelled" || outcome === "deleted") return "cancelled";
  if (outcome === "failed") return "failed";
  return blockersOf(state, phase).length > 0 ? "waiting" : "ready";
};

/** Phases that this one depends on and that are not done. */
export const blockersOf = (state: MissionState, phase: PlannedPhase): string[] =>
  phase.after.filter((id) => !state.plan.some((other) => other.id === id) || !isDone(state, id));

/** It was delivered, and no correction of it runs. */
const isDone = (state: MissionState, phaseID: string): boolean => {
  const work = workOf(state, phaseID);
  const last = work.at(-1);
  return last !== undefined && !isRunning(last) && work.some((task) => deliveredBy(task) !== undefined);
};

export const outcomeText = (outcome: "completed" | "failed" | "cancelled" | "deleted"): string =>
  ({ completed: "It was completed", failed: "It failed", cancelled: "It was cancelled", deleted: "It was deleted" })[
    outcome
  ];

/** The Tasks of a phase that failed, and delivered nothing before. */
export const failuresOf = (state: MissionState, phaseID: string): Dispatched[] =>
  workOf(state, phaseID).filter((task) => outcomeOf(task) === "failed" && deliveredBy(task) === undefined);

/** Its agents said that it cannot be done, and said so again of another brief. */
export const isGivenUp = (state: MissionState, phaseID: string): boolean =>
  failuresOf(state, phaseID).filter(({ ends }) => ends.at(-1)?.code === "given_up").length > 1;

/** What became of the newest correction of a phase that is done, where that did not land. */
export const correctionOf = (state: MissionState, phase: PlannedPhase): "failed" | "cancelled" | null => {
  if (phaseState(state, phase) !== "done") return null;
  const last = workOf(state, phase.id).at(-1);
  const outcome = last === undefined ? undefined : outcomeOf(last);
  return outcome === "failed" ? "failed" : outcome === "cancelled" || outcome === "deleted" ? "cancelled" : null;
};
