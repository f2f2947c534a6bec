import type { EventData } from "../../protocol/event/event.ts";
import type { MissionBudget } from "../../protocol/mission/status.ts";
import type { Usage } from "../../protocol/task/status.ts";
import type { MissionState } from "../state/mission.ts";
import { phaseState } from "./plan.ts";

/**
 * The budget over the tree: what the Mission's own agent and its ended Tasks used, and what is reserved for those that
 * run. A Task is dispatched with a share of the rest as its own budget, so that the whole cannot go beyond the cap.
 */

type Name = keyof MissionBudget;
const names: readonly Name[] = ["maxCostUSD", "maxTokens", "maxSteps", "maxMinutes"];

const amounts = (usage: Usage, minutes: number): Record<Name, number> => ({
  maxCostUSD: usage.costUSD ?? 0,
  maxTokens: usage.inputTokens + usage.outputTokens,
  maxSteps: usage.modelCalls,
  maxMinutes: minutes,
});

/** Used by the tree as far as the Mission knows; what is reserved counts until the Task ends, unless it is left out. */
export const usedOf = (state: MissionState, { reserves = true } = {}): Record<Name, number> => {
  const sum = amounts(state.usage, state.answeredMs / 60_000);
  for (const { ends, reserved } of state.tasks) {
    // The usage of a Task goes on over its attempts: the newest end has the whole. Each attempt has its own time.
    const last = ends.at(-1);
    const minutes = ends.reduce((all, end) => all + (end.minutes ?? 0), 0);
    const used = last === undefined ? undefined : amounts(last.usage, minutes);
    for (const name of names) sum[name] += used?.[name] ?? (reserves ? (reserved?.[name] ?? 0) : 0);
  }
  return sum;
};

/** The cap that is reached; undefined: none. */
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

/** Whether a cap stands against the agent's next request; what running Tasks have reserved may come back. */
export const stopReason = (state: MissionState): ReturnType<typeof reachedOf> => reachedOf(state, { reserves: false });

/** The share of the rest for one more Task: as much as for each phase that is still to be dispatched. null: no cap. */
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

/** As precise as it is counted, and never more than there is. */
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
