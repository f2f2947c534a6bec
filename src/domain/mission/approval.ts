import type { Recorded } from "../event.ts";
import { openAsks, type Ask } from "../state/stream.ts";
import type { MissionState } from "../state/mission.ts";

/** A Mission's plan as a person approves it: its phases, in order. What is dispatched has to be of the approved one. */

export const planKey = ({ plan }: Pick<MissionState, "plan">): string => {
  const key = keys.get(plan) ?? JSON.stringify(plan);
  keys.set(plan, key);
  return key;
};

/** A plan of hundreds of phases is a megabyte, and is asked for with every event. */
const keys = new WeakMap<MissionState["plan"], string>();

/** There is a plan, and it has to be approved before anything is dispatched. */
export const isPlanDue = (state: MissionState): boolean =>
  state.approve.includes("plan") &&
  state.plan.length > 0 &&
  (state.planDenied || state.approvedPlan !== planKey(state));

/** The approval that is asked for, of the plan as it is now. */
export const askedPlan = (state: MissionState): Ask | undefined =>
  state.askedPlan === planKey(state) ? openAsks(state).find(({ kind }) => kind === "approval") : undefined;

/** The fold after an approval is asked for, or answered: an answer is for the plan that was asked about. */
export const afterApproval = (
  state: MissionState,
  event: Recorded & { type: "ask.opened" | "ask.answered" },
): Partial<MissionState> => {
  if (event.type === "ask.opened") return event.data.kind === "approval" ? { askedPlan: planKey(state) } : {};
  const { askID, decision, answer, by, source } = event.data;
  const ask = state.asks.find((one) => one.askID === askID);
  if (ask?.kind !== "approval" || by !== "caller") return {};
  return decision === "allow"
    ? { approvedPlan: state.askedPlan, planDenied: false, refusedBy: null }
    : { planDenied: true, refusedBy: answer === undefined ? source : null };
};
