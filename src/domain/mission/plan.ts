import type { PlannedPhase } from "../../protocol/mission/status.ts";
import type { SquadRef } from "../agent.ts";
import { deliveredBy, type Dispatched, isRunning, isWork, type MissionState, outcomeOf } from "../state/mission.ts";

/** The plan of a Mission: its phases, what blocks each of them, and how far each has come. */

/** How often a failed Task is tried again, each time with another brief. */
export const maxPhaseTries = 2;

/** Describes what is wrong with a plan in itself; undefined: nothing. */
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

/** The id of a phase that depends on itself through others; undefined: there is none. */
const inCircle = (phases: readonly PlannedPhase[]): string | undefined => {
  const waiting = new Map(phases.map(({ id, after }) => [id, new Set(after)]));
  for (let free: string[] = [""]; free.length > 0; ) {
    free = [...waiting].flatMap(([id, after]) => (after.size === 0 ? [id] : []));
    for (const id of free) waiting.delete(id);
    for (const after of waiting.values()) for (const id of free) after.delete(id);
  }
  // Every phase left is in a circle or waits for one: following the dependencies backwards leads into it.
  const [start] = waiting.keys();
  const seen = new Set<string>();
  let id = start;
  while (id !== undefined && !seen.has(id)) {
    seen.add(id);
    [id] = waiting.get(id) ?? [];
  }
  return id;
};

/** The plan with one phase added at the end, or replaced in its place. */
export const withPhase = (plan: readonly PlannedPhase[], phase: PlannedPhase): PlannedPhase[] => {
  const at = plan.findIndex(({ id }) => id === phase.id);
  return at < 0 ? [...plan, phase] : plan.with(at, phase);
};

/** The plan in this order; phases that `ids` does not name follow at the end. */
export const inOrder = (plan: readonly PlannedPhase[], ids: readonly string[]): PlannedPhase[] => {
  const at = new Map(ids.map((id, index) => [id, index]));
  const place = ({ id }: PlannedPhase): number => at.get(id) ?? ids.length;
  return plan.toSorted((one, other) => place(one) - place(other));
};

/**
 * The changes that turn one plan into another: phases written, phases dropped, and the order unless it follows already.
 */
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
 * Whether a squad must not be used: a squad of this id was produced for the Mission and refused, or the catalog now has
 * another one than was produced. No phase may use it until a squad of that id is produced anew.
 */
export const isBarred = ({ tasks }: MissionState, { id, digest }: Pick<SquadRef, "id" | "digest">): boolean => {
  const made = tasks.findLast(({ production, reconciled }) => production?.squad === id && reconciled !== null);
  if (made?.reconciled == null) return false;
  return "refused" in made.reconciled || made.reconciled.digest !== digest;
};

/**
 * Whether a squad was produced for the Mission and its newest Task of this phase failed by itself: another squad may
 * then replace it.
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

/** Whether the phase was delivered and no correction of it is running. */
const isDone = (state: MissionState, phaseID: string): boolean => {
  const work = workOf(state, phaseID);
  const last = work.at(-1);
  return last !== undefined && !isRunning(last) && work.some((task) => deliveredBy(task) !== undefined);
};

export const outcomeText = (outcome: "completed" | "failed" | "cancelled" | "deleted"): string =>
  ({ completed: "It was completed", failed: "It failed", cancelled: "It was cancelled", deleted: "It was deleted" })[
    outcome
  ];

/** The Tasks of a phase that failed without having delivered anything before. */
export const failuresOf = (state: MissionState, phaseID: string): Dispatched[] =>
  workOf(state, phaseID).filter((task) => outcomeOf(task) === "failed" && deliveredBy(task) === undefined);

/** Whether agents gave the phase up at least twice, the second time with another brief. */
export const isGivenUp = (state: MissionState, phaseID: string): boolean =>
  failuresOf(state, phaseID).filter(({ ends }) => ends.at(-1)?.code === "given_up").length > 1;

/** The outcome of the newest correction of a done phase, if that did not land; null otherwise. */
export const correctionOf = (state: MissionState, phase: PlannedPhase): "failed" | "cancelled" | null => {
  if (phaseState(state, phase) !== "done") return null;
  const last = workOf(state, phase.id).at(-1);
  const outcome = last === undefined ? undefined : outcomeOf(last);
  return outcome === "failed" ? "failed" : outcome === "cancelled" || outcome === "deleted" ? "cancelled" : null;
};
