import type { Approvable } from "../../../protocol/field.ts";
import { askedApproval } from "../../session/approval.ts";
import { waitsUntil } from "../../session/ask.ts";
import type { TaskState } from "../../state/task.ts";
import type { Step } from "./step.ts";

/**
 * The step for an open or denied approval; undefined: there is none. The Task waits until somebody answers, and fails
 * after a denial without words.
 */
export const nextApprovalStep = (state: TaskState): Step | undefined => {
  if (state.refusal !== null) {
    const { of, by } = state.refusal;
    return {
      kind: "settle",
      end: {
        lifecycleStatus: "failed",
        failure: {
          code: "approval_refused",
          message: `${nameOf[of]} was not approved (${by}), and no changes were requested.`,
          retryable: false,
          remedy: `Send a message that says what to change${state.workspace?.branch ? `; the work is on ${state.workspace.branch}` : ""}.`,
        },
      },
    };
  }
  const until = askedApproval(state) && waitsUntil(state);
  return until === undefined ? undefined : { kind: "ask", until };
};

const nameOf: Record<Approvable, string> = { plan: "The plan", squad: "The squad", landing: "The landing" };
