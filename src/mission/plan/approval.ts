import { createHash } from "node:crypto";
import { serviceMessage } from "../../domain/conversation/message.ts";
import type { DomainEvent } from "../../domain/event.ts";
import { planKey } from "../../domain/mission/approval.ts";
import { phaseState } from "../../domain/mission/plan.ts";
import { planQuestion } from "../../domain/mission/plan-change.ts";
import { canBegin } from "../../domain/mission/quiet-event.ts";
import { endAsks } from "../../domain/session/ask.ts";
import { isRunning, type MissionState } from "../../domain/state/mission.ts";
import { openAsks } from "../../domain/state/stream.ts";
import { newID } from "../../id.ts";
import type { TaskAnswer } from "../../protocol/task/request.ts";
import type { MissionRun } from "../run.ts";

/** Asks whether the plan may be carried out. An open question about an earlier plan becomes void. */
export const requestPlanApproval = async (run: MissionRun): Promise<void> => {
  const state = run.state();
  await run.record([...voidPlan(state), planAsk(state, newID("ask"))], { decidedAt: state.version });
};

/** Closes open questions about an earlier plan. */
export const voidPlan = (state: MissionState): DomainEvent[] =>
  endAsks(
    openAsks(state).filter(({ kind }) => kind === "approval"),
    "void",
  );

/** The question whether the plan of `state` may be carried out. */
export const planAsk = (state: MissionState, askID: string): DomainEvent => ({
  type: "ask.opened",
  data: {
    askID,
    sessionID: state.sessionID,
    callID: null,
    kind: "approval",
    of: "plan",
    would: {
      subject: createHash("sha256").update(planKey(state)).digest("hex"),
      commit: null,
      tree: null,
      branch: null,
    },
    prompt: planQuestion(state),
    options: ["allow", "deny"],
    default: null,
    expiresAt: null,
  },
});

/**
 * The message that tells the agent of the answer: to carry out the plan, or what to change. Empty: the agent has
 * nothing to do because of it now.
 */
export const planAnswerEvents = (
  state: MissionState,
  askID: string,
  { decision, answer: words }: Pick<TaskAnswer, "decision" | "answer">,
): DomainEvent[] => {
  const said =
    decision === "allow"
      ? isNews(state)
        ? {
            messageID: `${serviceMessage}${askID}`,
            source: "service",
            text: "The user approved the plan: carry it out.",
          }
        : undefined
      : words === undefined
        ? undefined
        : { messageID: newID("msg"), source: "user", text: `The plan was not approved: ${words}` };
  if (said === undefined) return [];
  const data = { sessionID: state.sessionID, ...said, attachments: [], disposition: "steered" as const };
  return [{ type: "message.received", data }];
};

/** Whether the agent can act on the approval now: a phase can begin, or no Task runs whose end would wake it. */
const isNews = (state: MissionState): boolean =>
  !state.tasks.some(isRunning) || canBegin(state.plan.map((phase) => phaseState(state, phase)));
