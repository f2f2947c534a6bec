import type { EventData } from "../../protocol/event/event.ts";
import type { MissionBudget } from "../../protocol/mission/status.ts";
import type { Usage } from "../../protocol/task/status.ts";
import type { MissionState } from "../state/mission.ts";
import { phaseState } from "./plan.ts";

/**
 * The budget of a Mission and its Tasks together: what its own agent and its ended Tasks used, plus what is reserved
 * for running ones. A Task is dispatched with a share of the rest as its own budget, so that the total cannot exceed
 * the cap.
 */

type Name = keyof MissionBudget;
const names: readonly Name[] = ["maxCostUSD", "maxTokens", "maxSteps", "maxMinutes"];

const amounts = (usage: Usage, minutes: number): Record<Name, number> => ({
  maxCostUSD: usage.costUSD ?? 0,
  maxTokens: usage.inputTokens + usage.outputTokens,
  maxSteps: usage.modelCalls,
  maxMinutes: minutes,
});

/**
 * Used by the Mission and its Tasks, as far as it knows. `reserves`: counts what is reserved for Tasks that have not
 * ended.
 */
export const usedOf = (state: MissionState, { reserves = true } = {}): Record<Name, number> => {
  const sum = amounts(state.usage, state.answeredMs / 60_000);
  for (const { ends, reserved } of state.tasks) {
    // Usage accumulates over the attempts of a Task, so its newest end has the total. Minutes count per attempt.
    const last = ends.at(-1);
    const minutes = ends.reduce((all, end) => all + (end.minutes ?? 0), 0);
    const used = last === undefined ? undefined : amounts(last.usage, minutes);
    for (const name of names) sum[name] += used?.[name] ?? (reserves ? (reserved?.[name] ?? 0) : 0);
  }
  return sum;
};

/** The first cap that is reached; undefined: none. */
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
 * The cap that forbids the agent's next request, if any. Reservations do not count, as running Tasks may not use them
 * up.
 */
export const stopReason = (state: MissionState): ReturnType<typeof reachedOf> => reachedOf(state, { reserves: false });

/**
 * The budget of one more Task: an equal share of the rest per phase that is not dispatched yet, or what is wanted, as
 * far as there is that much. null: no cap.
 */
export const shareOf = (
  state: MissionState,
  wanted: MissionBudget | undefined,
): { ok: true; budget: MissionBudget | null } | { ok: false; name: Name; left: number; cap: number } => {
  const { cap } = state;
  if (cap === null) return { ok: true, budget: wanted ?? null };
  const used = usedOf(state);
  const open = state.plan.filter((phase) => ["waiting", "ready", "failed"].includes(phaseState(state, phase)));
  const shares = Math.max(1, open.length);
  const budget: MissionBudget = { ...wanted };
  for (const name of names) {
    const limit = cap[name];
    if (limit === undefined) continue;
    const left = limit - used[name];
    const given = Math.min(down(name, left), wanted?.[name] ?? down(name, left / shares));
    if (given <= 0) return { ok: false, name, left: Math.max(0, rounded(left)), cap: limit };
    budget[name] = given;
  }
  return { ok: true, budget };
};

/** Rounds down to the precision in which it is counted, so that shares never exceed what is left. */
const down = (name: Name, amount: number): number => Math.floor(amount * parts[name]) / parts[name];
const parts: Record<Name, number> = { maxCostUSD: 1e6, maxTokens: 1, maxSteps: 1, maxMinutes: 100 };

const units: Record<Name, string> = {
  maxCostUSD: "USD",
  maxTokens: "tokens",
  maxSteps: "model calls",
  maxMinutes: "minutes of work",
};

export const pausedText = ({ name, used, cap }: Pick<EventData["mission.paused"], "name" | "used" | "cap">): string =>
  `The Mission's budget is used up: ${used} of ${cap} ${units[name]} (${name}) by it and its Tasks. Nothing more is dispatched; wake it with a higher budget to go on.`;

const rounded = (used: number): number => Number(used.toFixed(used < 1 ? 6 : 2));
