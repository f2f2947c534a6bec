import type { EventData } from "../../protocol/event/event.ts";
import type { MissionBudget, MissionStatus } from "../../protocol/mission/status.ts";
import type { Usage } from "../../protocol/task/status.ts";
import { type Dispatched, isRunning, type MissionState } from "../state/mission.ts";
import { noUsage } from "../state/stream.ts";

/**
 * The budget of a Mission and its Tasks together: what its own agent and its ended Tasks used, plus what is reserved
 * for running ones. `grant.ts` decides what a Task gets.
 */

export type Name = keyof MissionBudget;
export const names: readonly Name[] = ["maxCostUSD", "maxTokens", "maxSteps", "maxMinutes"];

export const amounts = (usage: Usage, minutes: number): Record<Name, number> => ({
  maxCostUSD: usage.costUSD ?? 0,
  maxTokens: usage.inputTokens + usage.outputTokens,
  maxSteps: usage.modelCalls,
  maxMinutes: minutes,
});

/**
 * What the Mission and its Tasks have used, as far as the Mission knows. `reserves`: also count what is reserved for
 * Tasks that have not ended.
 */
export const usedOf = (state: MissionState, { reserves = true } = {}): Record<Name, number> => {
  const sum = amounts(state.usage, state.answeredMs / 60_000);
  for (const task of state.tasks) {
    const { ends, reserved } = task;
    // Usage accumulates over the attempts of a Task, so its newest end has the total.
    const last = ends.at(-1);
    const runs = reserves && isRunning(task);
    const used = amounts(last?.usage ?? noUsage, minutesOf(task));
    for (const name of names) {
      const held = runs ? reserved?.[name] : undefined;
      sum[name] += held === undefined ? used[name] : mostUsed(name, held, used[name]);
    }
  }
  return sum;
};

/**
 * The most that a Task may have used at its end. Usage accumulates over its attempts; the minutes of its budget are
 * those of one attempt.
 */
export const mostUsed = (name: Name, reserved: number, used: number): number =>
  name === "maxMinutes" ? used + reserved : Math.max(used, reserved);

/**
 * What the Mission and its Tasks have used by now, and what running Tasks may still use. `now`: the usage of each Task,
 * from its row.
 */
export const spentOf = (
  state: MissionState,
  now: ReadonlyMap<string, Usage>,
): Pick<MissionStatus, "budgetSpent" | "budgetReserved"> => {
  const spent = amounts(state.usage, state.answeredMs / 60_000);
  const left = amounts(noUsage, 0);
  let priced = state.usage.costUSD !== null;
  for (const task of state.tasks) {
    const usage = now.get(task.taskID) ?? task.ends.at(-1)?.usage ?? noUsage;
    const used = amounts(usage, minutesOf(task));
    priced &&= usage.costUSD !== null;
    for (const name of names) {
      spent[name] += used[name];
      const held = isRunning(task) ? task.reserved?.[name] : undefined;
      if (held !== undefined) left[name] += mostUsed(name, held, used[name]) - used[name];
    }
  }
  return { budgetSpent: { ...spent, maxCostUSD: priced ? spent.maxCostUSD : null }, budgetReserved: left };
};

/** Working minutes of attempts that ended without the Mission having been told, by Task. */
export type Unheard = ReadonlyMap<string, number>;

/** The working minutes of a Task's ended attempts. */
export const minutesOf = ({ ends, unheard = 0 }: Dispatched & { unheard?: number }): number =>
  ends.reduce((all, end) => all + (end.minutes ?? 0), unheard);

/** The first cap that is reached; undefined: none is. */
export const reachedOf = (
  state: MissionState,
  counted: { reserves?: boolean } = {},
): Omit<EventData["mission.paused"], "sessionID"> | undefined => {
  const { cap } = state;
  if (cap === null) return undefined;
  const used = usedOf(state, counted);
  for (const name of names) {
    const limit = cap[name];
    if (limit !== undefined && used[name] >= limit) return { name, used: rounded(used[name]), cap: limit };
  }
  return undefined;
};

/**
 * The cap that forbids the agent's next request; undefined: none. Reservations do not count, because running Tasks may
 * leave part of them unused.
 */
export const stopReason = (state: MissionState): ReturnType<typeof reachedOf> => reachedOf(state, { reserves: false });

export const units: Record<Name, string> = {
  maxCostUSD: "USD",
  maxTokens: "tokens",
  maxSteps: "model calls",
  maxMinutes: "minutes of work",
};

export const pausedText = ({ name, used, cap }: Pick<EventData["mission.paused"], "name" | "used" | "cap">): string =>
  `The Mission's budget is used up: ${used} of ${cap} ${units[name]} (${name}) by it and its Tasks. Nothing more is dispatched; wake it with a higher budget to continue.`;

export const rounded = (used: number): number => Number(used.toFixed(used < 1 ? 6 : 2));
