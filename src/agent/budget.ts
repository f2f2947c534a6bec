import type { Conversation } from "../domain/conversation.ts";
import type { TaskState } from "../domain/task.ts";
import type { TurnFailure } from "../protocol/event.ts";
import type { Limits } from "../protocol/limits.ts";
import { looping } from "./calls.ts";

/** What stands against another request: a cap, or a circle the model does not leave. */
export const brake = (state: TaskState, chat: Conversation, limits: Limits, now: Date): TurnFailure | undefined => {
  const cap = exceeded(state, limits, now);
  if (cap !== undefined || !looping(chat, limits.loopRepeats)) return cap;
  return {
    code: "loop_detected",
    message: `The agent made the same call with the same result ${limits.loopRepeats} times in a row.`,
    retryable: false,
    remedy: "Send a message that says what to do instead.",
  };
};

/** The caps of a Task: the request's budget, else the service's limits. A cap ends it `failed` with everything kept. */
const exceeded = (state: TaskState, limits: Limits, now: Date): TurnFailure | undefined => {
  const { budget, usage } = state;
  const tokens = usage.inputTokens + usage.outputTokens;
  const started = state.attemptStartedAt === null ? now.getTime() : Date.parse(state.attemptStartedAt);
  const minutes = (now.getTime() - started) / 60_000;
  const caps: [name: string, used: number, cap: number | undefined, unit: string][] = [
    ["maxSteps", state.steps, budget?.maxSteps ?? limits.steps, "steps"],
    ["maxTokens", tokens, budget?.maxTokens ?? limits.tokens, "tokens"],
    ["maxMinutes", minutes, budget?.maxMinutes ?? limits.minutes, "minutes"],
    ["maxCostUSD", usage.costUSD ?? 0, budget?.maxCostUSD, "USD"],
  ];
  if (budget?.maxCostUSD !== undefined && usage.costUSD === null)
    return {
      code: "budget_reached",
      message: `The price of ${state.model} is unknown, so maxCostUSD cannot be kept. Everything done so far is kept.`,
      retryable: false,
      remedy: `Replace the budget with PATCH /task/${state.taskID}, e.g. by maxTokens, then send a message to continue.`,
    };
  const reached = caps.find(([, used, cap]) => cap !== undefined && used >= cap);
  if (reached === undefined) return undefined;
  const [name, used, cap, unit] = reached;
  return {
    code: "budget_reached",
    message: `The Task reached its limit of ${cap} ${unit} (${name}; used ${Number(used.toFixed(2))}). Everything done so far is kept.`,
    retryable: false,
    remedy: `Raise budget.${name} with PATCH /task/${state.taskID}, then send a message to continue.`,
  };
};
