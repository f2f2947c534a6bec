import { askedAgain, isOutputDue, refusalsLeft } from "../../session/output.ts";
import type { TaskState } from "../../state/task.ts";
import type { Step, StepPolicy } from "./step.ts";

/** The step for a required output that is missing; undefined: none. Without the output nothing lands. */
export const nextOutputStep = (state: TaskState, rules: StepPolicy): Step | undefined => {
  if (!isOutputDue(state)) return undefined;
  if (rules.retries && refusalsLeft(state) >= 0) return { kind: "output" };
  const { output, workspace } = state;
  return {
    kind: "settle",
    end: {
      lifecycleStatus: "failed",
      failure: {
        code: "output_invalid",
        message: `The agent gave no output that meets the request's outputSchema, though it was asked ${askedAgain} times more: ${output?.reason ?? "it gave none"}. Nothing landed.`,
        retryable: false,
        remedy: `Send a message to try again, or create a new Task with another schema${workspace?.branch ? `; the work is on ${workspace.branch}` : ""}.`,
      },
    },
  };
};
