import type { Approvable } from "../../protocol/field.ts";
import type { DomainEvent, Recorded } from "../event.ts";
import { openAsks, rootOf, type Ask } from "../state/stream.ts";
import type { TaskState } from "../state/task.ts";

/**
 * Approvals: a person's consent before something happens. An approval is bound to exactly what would happen; anything
 * else needs a new one.
 */

/** The open approval; undefined: none is. */
export const askedApproval = (state: TaskState): Ask | undefined =>
  openAsks(state).find(({ kind }) => kind === "approval");

/** Whether the landing of the Task's present tree needs no approval, or has it. */
export const mayLand = ({ approve, approved, tree }: TaskState): boolean =>
  !approve.includes("landing") || (approved.landing !== null && approved.landing.tree === tree?.tree);

/** Whether the staged package needs no approval, or has it. */
export const mayInstall = ({ approve, approved, staged }: TaskState): boolean =>
  !approve.includes("squad") || (approved.squad !== null && approved.squad.subject === staged?.squad.digest);

/** The plan as it can be approved: the slices with their contracts, in their order. */
export const planKey = ({ slices }: Pick<TaskState, "slices">): string =>
  JSON.stringify(
    slices.flatMap(({ sliceID, weight, contract, settlement }) =>
      settlement.state === "dropped" ? [] : [[sliceID, weight, contract]],
    ),
  );

/** Whether the present plan still has to be approved before anything is changed. */
export const isPlanDue = (state: TaskState): boolean =>
  state.approve.includes("plan") && state.production === null && state.approved.plan?.plan !== planKey(state);

/** The fold after an answer to an approval, or after the change to approve was moved onto another base. */
export const afterApproval = (
  state: TaskState,
  event: Recorded & { type: "ask.answered" | "approval.moved" },
): Partial<TaskState> => {
  if (event.type === "approval.moved") {
    const { askID, tree, commit } = event.data;
    return {
      asks: state.asks.map((ask) =>
        ask.askID === askID && ask.would !== undefined ? { ...ask, would: { ...ask.would, tree, commit } } : ask,
      ),
      approved:
        state.approved.landing?.askID === askID
          ? { ...state.approved, landing: { ...state.approved.landing, tree } }
          : state.approved,
    };
  }
  const { askID, decision, answer, by, source } = event.data;
  const ask = state.asks.find((one) => one.askID === askID);
  if (ask?.of === undefined || ask.would === undefined || by !== "caller") return {};
  if (decision !== "allow")
    return { approved: noApproval, refusal: answer === undefined ? { of: ask.of, by: source } : null };
  const { subject, tree } = ask.would;
  return {
    approved: {
      ...state.approved,
      [ask.of]: { askID, subject, tree, plan: ask.of === "plan" ? planKey(state) : null },
    },
    refusal: null,
  };
};

/** Nothing is approved. */
export const noApproval: TaskState["approved"] = { plan: null, squad: null, landing: null };

/** Opens an approval for what would happen now, and voids an earlier open one. */
export const askApproval = (
  state: TaskState,
  ask: { askID: string; of: Approvable; would: NonNullable<Ask["would"]>; prompt: string },
): DomainEvent[] => [
  ...voidApproval(state),
  {
    type: "ask.opened",
    data: {
      ...ask,
      sessionID: rootOf(state),
      callID: null,
      kind: "approval",
      options: ["allow", "deny"],
      default: null,
      expiresAt: null,
    },
  },
];

const voidApproval = (state: TaskState): DomainEvent[] => {
  const before = askedApproval(state);
  return before === undefined
    ? []
    : [
        {
          type: "ask.answered",
          data: { askID: before.askID, decision: "deny", by: "ended", source: "void" },
        },
      ];
};
