import type { DomainEvent } from "../../domain/event.ts";
import { planDifference, planProblem } from "../../domain/mission/plan.ts";
import { isOfService, isRunning, type MissionState } from "../../domain/state/mission.ts";
import { mostPhases } from "../../protocol/mission/phase.ts";
import type { PlannedPhase } from "../../protocol/mission/status.ts";
import type { Store } from "../../store/store.ts";

/** The rules for a change of the plan, by the agent's tools and by a person's request alike. */

/** Largest phase in bytes, so that its event stays below the limit of 64 KiB. */
const phaseBytes = 60 * 1024;

/** A phase as it is given; `phaseOf` fills in what is left out. */
type GivenPhase = Pick<PlannedPhase, "id" | "title" | "objective"> & {
  [Field in "phase" | "acceptance" | "after"]?: PlannedPhase[Field] | undefined;
};

export const phaseOf = ({
  id,
  title,
  phase = id,
  objective,
  acceptance = [],
  after = [],
}: GivenPhase): PlannedPhase => ({
  id,
  title,
  phase,
  objective,
  acceptance,
  after,
});

/** Why `next` cannot be the plan, without a full stop; undefined: it can. `release` says how to end a running Task. */
export const planRefusal = async (
  store: Pick<Store, "state">,
  state: MissionState,
  next: readonly PlannedPhase[],
  release: string,
): Promise<string | undefined> => {
  if (next.length > mostPhases) return `Expected at most ${mostPhases} phases, got ${next.length}`;
  const large = next.find((phase) => Buffer.byteLength(JSON.stringify(phase)) > phaseBytes);
  if (large !== undefined) return `Expected a phase of at most ${phaseBytes} bytes, got more in "${large.id}"`;
  const problem = planProblem(next);
  if (problem !== undefined) return problem;
  const [lost] = await keptBy(store, state, next);
  return lost === undefined ? undefined : `Expected the phase "${lost}", whose Task runs, to stay; ${release}`;
};

/** Phases missing from `next` whose Tasks run and are not being cancelled. */
const keptBy = async (
  store: Pick<Store, "state">,
  state: MissionState,
  next: readonly PlannedPhase[],
): Promise<string[]> => {
  const ids = new Set(next.map(({ id }) => id));
  const lost = state.tasks.filter((task) => isRunning(task) && !isOfService(task) && !ids.has(task.phase));
  const tasks = await Promise.all(lost.map(async ({ taskID, phase }) => ({ phase, task: await store.state(taskID) })));
  const kept = tasks.filter(({ task }) => task?.lifecycle === "active" && task.cancel === null);
  return kept.map(({ phase }) => phase);
};

type Change = Omit<(DomainEvent & { type: "phase.dropped" })["data"], "phase">;

/** The events that turn `plan` into `next`; empty: the plan stays as it is. */
export const planEvents = (
  plan: readonly PlannedPhase[],
  next: readonly PlannedPhase[],
  by: Change,
): { facts: DomainEvent[]; written: string[]; dropped: string[]; reordered: boolean } => {
  const { written, dropped, order } = planDifference(plan, next);
  const facts: DomainEvent[] = [
    ...dropped.map((phase): DomainEvent => ({ type: "phase.dropped", data: { ...by, phase } })),
    ...written.map((phase): DomainEvent => ({ type: "phase.written", data: { ...by, phase } })),
    ...(order === null ? [] : [{ type: "plan.ordered" as const, data: { ...by, phases: order } }]),
  ];
  return { facts, written: written.map(({ id }) => id), dropped, reordered: order !== null };
};
