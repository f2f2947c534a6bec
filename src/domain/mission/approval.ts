import type { Recorded } from "../event.ts";
import { openAsks, type Ask } from "../state/stream.ts";
import type { MissionState } from "../state/mission.ts";

/**
 * The plan of a Mission as a person approves it: its phases, in order. Only phases of an approved plan are dispatched.
 */

export const planKey = ({ plan }: Pick<MissionState, "plan">): string => {
  const key = keys.get(plan) ?? JSON.stringify(plan);
  keys.set(plan, key);
  return key;
};

/** Keys by plan. A plan of hundreds of phases is a megabyte, and its key is needed with every event. */
const keys = new WeakMap<MissionState["plan"], string>();

/** Whether there is a plan that must be approved before anything is dispatched. */
export const isPlanDue = (state: MissionState): boolean =>
  state.approve.includes("plan") &&
  state.plan.length > 0 &&
  (state.planDenied || state.approvedPlan !== planKey(state));

/** The open approval of the present plan; undefined: there is none. */
export const askedPlan = (state: MissionState): Ask | undefined =>
  state.askedPlan === planKey(state) ? openAsks(state).find(({ kind }) => kind === "approval") : undefined;

/** The fold after an approval was opened or answered. The answer applies to the plan that was asked about. */
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
