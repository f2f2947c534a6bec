import type { EventData } from "../../protocol/event/event.ts";
import type { TurnFailure } from "../../protocol/event/conversation.ts";
import type { Limits } from "../../protocol/limit.ts";
import { findRepetition } from "./repetition.ts";
import type { DomainEvent } from "../event.ts";
import type { StreamState, Repetition } from "../state/stream.ts";
import type { TaskState } from "../state/task.ts";

/**
 * The bounds of a Task: the request's budget, otherwise the service's limits, and the stop for a model that repeats
 * itself.
 */

type Cap = { name: EventData["budget.warned"]["name"]; used: number; cap: number | undefined; unit: string };

/** Share of a cap at which the agent is warned. */
const warnAt = 0.8;

const capsOf = (state: StreamState, limits: Limits, now: Date): Cap[] => {
  const { budget, usage, time } = state;
  const since = time.since === null ? 0 : now.getTime() - Date.parse(time.since);
  return [
    { name: "maxSteps", used: state.steps, cap: budget?.maxSteps ?? limits.steps, unit: "steps" },
    {
      name: "maxTokens",
      used: usage.inputTokens + usage.outputTokens,
      cap: budget?.maxTokens ?? limits.tokens,
      unit: "tokens",
    },
    {
      name: "maxMinutes",
      used: (time.ms + Math.max(0, since)) / 60_000,
      cap: budget?.maxMinutes ?? limits.minutes,
      unit: "minutes",
    },
    { name: "maxCostUSD", used: usage.costUSD ?? 0, cap: budget?.maxCostUSD, unit: "USD" },
  ];
};

/**
 * Why no further request to the model is allowed; undefined if one is. A cap ends the Task as `failed`, with everything
 * done so far kept.
 */
export const stopReason = (
  state: TaskState,
  limits: Limits,
  now: Date,
  repetition: Repetition = state.repetition,
): TurnFailure | undefined => {
  if (state.budget?.maxCostUSD !== undefined && state.usage.costUSD === null)
    return {
      code: "budget_reached",
      message: `The price of ${state.model} is unknown, so maxCostUSD cannot be enforced. Everything done so far is kept.`,
      retryable: false,
      remedy: `Replace the budget with PATCH /task/${state.taskID}, e.g. by maxTokens, then send a message to continue.`,
    };
  const reached = capsOf(state, limits, now).find(({ used, cap }) => cap !== undefined && used >= cap);
  if (reached !== undefined) {
    const { name, used, cap, unit } = reached;
    return {
      code: "budget_reached",
      message: `The Task reached its limit of ${cap} ${unit} (${name}; used ${rounded(used)}). Everything done so far is kept.`,
      retryable: false,
      remedy: `Raise budget.${name} with PATCH /task/${state.taskID}, then send a message to continue.`,
    };
  }
  const found = limits.loopRepeats === 0 ? undefined : findRepetition(repetition, limits.loopRepeats);
  if (found === undefined) return undefined;
  return {
    code: "loop_detected",
    message:
      found.turns === 1
        ? `The agent made the same call with the same result ${found.times} times in a row.`
        : `The agent went through the same ${found.turns} turns with the same results ${found.times} times in a row.`,
    retryable: false,
    remedy: "Send a message that says what to do instead.",
  };
};

/** The warnings that are due now: one per cap, and another one after the cap was raised. */
export const budgetWarnings = (state: StreamState, limits: Limits, now: Date): DomainEvent[] =>
  capsOf(state, limits, now).flatMap(({ name, used, cap }) =>
    cap === undefined || used < cap * warnAt || used >= cap || state.warned[name]?.cap === cap
      ? []
      : [{ type: "budget.warned", data: { name, used: rounded(used), cap } }],
  );

/** Working time left until the warning and until the end, in milliseconds. */
export const timeLeft = (state: StreamState, limits: Limits, now: Date): { warning: number; end: number } => {
  const { used = 0, cap = 0 } = capsOf(state, limits, now).find(({ name }) => name === "maxMinutes") ?? {};
  const until = (minutes: number) => (minutes - used) * 60_000;
  return { warning: state.warned.maxMinutes?.cap === cap ? Infinity : until(cap * warnAt), end: until(cap) };
};

/** The warning, as the model reads it. */
export const warningText = ({ name, used, cap }: EventData["budget.warned"]): string => {
  const units = { maxSteps: "model calls", maxTokens: "tokens", maxMinutes: "minutes", maxCostUSD: "USD" };
  return `Note from the service, not from the user: this Task has used ${used} of its ${cap} ${units[name]}. When they are used up it ends as it stands. Do what matters most first, keep the files in a working state, and finish.`;
};

const rounded = (used: number): number => Number(used.toFixed(used < 1 ? 6 : 2));
