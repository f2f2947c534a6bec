import type { MissionStatus, PlannedPhase } from "../../protocol/mission/status.ts";
import type { MissionState } from "../state/mission.ts";
import { isPlanDue } from "./approval.ts";

/** How the plan that a person is to approve differs from the one that was last approved. */

export type PlanChange = NonNullable<MissionStatus["planChange"]>;

/** The fields of a phase that a person approves, in reading order. */
const fields = [
  "title",
  "phase",
  "objective",
  "acceptance",
  "after",
] as const satisfies readonly (keyof PlannedPhase)[];

/** The difference to the last approved plan; null: no approval is due, or none was given before. */
export const planChangeOf = (state: MissionState): PlanChange | null => {
  const { approvedPlan, finished, plan } = state;
  if (approvedPlan === null || !isPlanDue(state) || finished?.outcome === "done") return null;
  return planChange(JSON.parse(approvedPlan) as PlannedPhase[], plan);
};

/** Compares two plans, matching phases by their ids. */
export const planChange = (before: readonly PlannedPhase[], plan: readonly PlannedPhase[]): PlanChange => {
  const known = new Map(before.map((phase) => [phase.id, phase]));
  const ids = new Set(plan.map(({ id }) => id));
  const kept = before.filter(({ id }) => ids.has(id));
  const order = plan.filter(({ id }) => known.has(id));
  return {
    added: plan.filter(({ id }) => !known.has(id)),
    dropped: before.filter(({ id }) => !ids.has(id)),
    changed: order.flatMap((is) => {
      const was = known.get(is.id);
      const differing = was === undefined ? [] : fields.filter((field) => !isSame(was[field], is[field]));
      if (was === undefined || differing.length === 0) return [];
      const only = (phase: PlannedPhase) => Object.fromEntries(differing.map((field) => [field, phase[field]]));
      return [{ id: is.id, title: is.title, was: only(was), is: only(is) }];
    }),
    reordered: kept.some(({ id }, at) => order[at]?.id !== id),
  };
};

const isSame = (one: string | readonly string[], other: string | readonly string[]): boolean =>
  JSON.stringify(one) === JSON.stringify(other);

/** The number of titles of each kind that the question names. */
const mostNamed = 3;

/** The question to the person, with a short form of the difference. */
export const planQuestion = (state: MissionState): string => {
  const count = state.plan.length;
  const has = `It has ${count} ${count === 1 ? "phase" : "phases"}`;
  const change = planChangeOf(state);
  if (change === null) return `Carry out this plan? ${has}.`;
  return `Carry out the changed plan? ${has}. ${changeSentence(change)}`;
};

/** The difference in one sentence. */
export const changeSentence = ({ added, dropped, changed, reordered }: PlanChange): string => {
  const parts = [
    ...partOf("new", added),
    ...partOf("dropped", dropped),
    ...partOf("changed", changed),
    ...(reordered ? ["the order"] : []),
  ];
  return parts.length === 0
    ? "It is the plan that was approved last."
    : `What differs from the plan that was approved last: ${parts.join("; ")}.`;
};

const partOf = (word: string, phases: readonly { title: string }[]): string[] => {
  if (phases.length === 0) return [];
  const named = phases.slice(0, mostNamed).map(({ title }) => `"${title}"`);
  const rest = phases.length > mostNamed ? ` and ${phases.length - mostNamed} more` : "";
  return [`${phases.length} ${word} (${named.join(", ")}${rest})`];
};
