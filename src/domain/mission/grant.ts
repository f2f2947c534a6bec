import type { MissionBudget } from "../../protocol/mission/status.ts";
import type { Usage } from "../../protocol/task/status.ts";
import { type Dispatched, isWork, type MissionState } from "../state/mission.ts";
import { amounts, minutesOf, type Name, names, rounded, units, usedOf } from "./budget.ts";
import { phaseState } from "./plan.ts";

/**
 * What a Task of a Mission may use, decided before the Task can use it: when it is dispatched, when it continues after
 * its end, and when its budget changes. Every grant is reserved in the same commit, so that the Mission and its Tasks
 * together cannot exceed the cap by more than the calls under way.
 */

export type Grant =
  | { ok: true; budget: MissionBudget | null }
  /**
   * `why`: the limit that prevents the grant: the Mission's cap, the Task's own budget, or the wanted one. `cap`: that
   * limit. `left`: what is left of the Mission's cap; for the other two, what the Task has used.
   */
  | { ok: false; name: Name; left: number; cap: number; why: "cap" | "own" | "wanted" };

/**
 * The part of the amount kept from first attempts that belongs to the agent alone: no Task gets it, so that the agent
 * can still think while they run.
 */
const thought = 1 / 3;

/**
 * A share is at most `mostMeans` times the mean use of the phases that the same squad did, once two of them have ended,
 * but never below `leastPart` of the cap. What another squad used, which may be one agent or ten, says nothing about
 * this one.
 */
const mostMeans = 3;
const leastPart = 0.01;

/**
 * The budget of one more Task: an equal share of the rest for each phase that is not dispatched yet, or the wanted
 * amount, as far as that much is left. null: no cap. `kept`: the percentage of each cap that no first attempt gets.
 * `squad`: who does the Task; absent: the Task does the work of no phase and is measured against all squads.
 */
export const shareOf = (
  state: MissionState,
  wanted: MissionBudget | undefined,
  { first, kept, squad }: { first: boolean; kept: number; squad?: string },
): Grant => {
  const { cap } = state;
  if (cap === null) return { ok: true, budget: wanted ?? null };
  const used = usedOf(state);
  const open = state.plan.filter((phase) => ["waiting", "ready", "failed"].includes(phaseState(state, phase)));
  const shares = Math.max(1, open.length);
  const budget: MissionBudget = { ...wanted };
  for (const name of names) {
    const limit = cap[name];
    if (limit === undefined) continue;
    const left = limit - used[name] - (limit * kept * (first ? 1 : thought)) / 100;
    const share = Math.min(left / shares, Math.max(mostMeans * meanOf(state, name, squad), leastPart * limit));
    const given = Math.min(down(name, left), wanted?.[name] ?? down(name, share));
    if (given <= 0) return { ok: false, name, left: Math.max(0, rounded(left)), cap: limit, why: "cap" };
    budget[name] = given;
  }
  return { ok: true, budget };
};

/** The mean use of an ended phase, by this squad if one is named; infinity: fewer than two phases have ended. */
const meanOf = ({ tasks }: MissionState, name: Name, squad: string | undefined): number => {
  const used = new Map<string, number>();
  for (const task of tasks) {
    const last = task.ends.at(-1);
    if (last === undefined || !isWork(task) || (squad !== undefined && task.squad.id !== squad)) continue;
    used.set(task.phase, (used.get(task.phase) ?? 0) + amounts(last.usage, minutesOf(task))[name]);
  }
  const sum = [...used.values()].reduce((all, one) => all + one, 0);
  return sum > 0 && used.size > 1 ? sum / used.size : Number.POSITIVE_INFINITY;
};

/**
 * The budget of a Task that continues, or whose budget is to change: what it has, or what is wanted, as far as the cap
 * allows. `used`: by the Task so far, with the minutes of its ended attempts. `exact`: grant all that is wanted, or
 * nothing.
 */
export const grantOf = (
  state: MissionState,
  task: Dispatched,
  {
    own,
    wanted,
    used,
    running,
    kept,
    exact,
  }: {
    own: MissionBudget | null;
    wanted: MissionBudget | undefined;
    used: { usage: Usage; minutes: number };
    running: boolean;
    kept: number;
    exact: boolean;
  },
): Grant => {
  const cap = state.cap ?? {};
  const others = usedOf({ ...state, tasks: state.tasks.filter(({ taskID }) => taskID !== task.taskID) });
  const so = amounts(used.usage, used.minutes);
  const budget: MissionBudget = { ...(exact ? {} : own), ...wanted };
  for (const name of names) {
    const limit = cap[name];
    const has = wanted?.[name] ?? (exact ? undefined : own?.[name]);
    // The minutes of a budget apply only to the attempt that begins.
    const base = name === "maxMinutes" ? 0 : so[name];
    if (has !== undefined && has <= base && !running)
      return { ok: false, name, left: base, cap: has, why: wanted?.[name] === undefined ? "own" : "wanted" };
    if (limit === undefined) continue;
    const left = limit - others[name] - (name === "maxMinutes" ? so[name] : 0) - (limit * kept * thought) / 100;
    const most = down(name, left);
    const had = running ? (own?.[name] ?? base) : base;
    const given = Math.min(has ?? most, most);
    // The budget of a running Task is already reserved, so lowering it is always possible.
    const lowers = running && has !== undefined && has <= had;
    if (!lowers && (given <= had || (exact && given !== has)))
      return { ok: false, name, left: Math.max(0, rounded(left - base)), cap: limit, why: "cap" };
    budget[name] = lowers ? has : given;
  }
  return { ok: true, budget: Object.keys(budget).length === 0 ? null : budget };
};

/** Rounds down to the precision in which an amount is counted, so that shares never exceed what is left. */
const down = (name: Name, amount: number): number => Math.floor(amount * parts[name]) / parts[name];
const parts: Record<Name, number> = { maxCostUSD: 1e6, maxTokens: 1, maxSteps: 1, maxMinutes: 100 };

export const grantText = ({ name, left, cap, why }: Extract<Grant, { ok: false }>): string => {
  switch (why) {
    case "cap":
      return `The Mission's cap of ${cap} ${units[name]} (${name}) leaves ${left}, beside what is used and reserved; what running Tasks do not use comes back when they end. For more than that its user has to wake the Mission with a higher budget`;
    case "own":
      return `The Task has used up its own budget of ${cap} ${units[name]} (${name}), so it would end at once. Give it a higher one`;
    case "wanted":
      return `Expected budget.${name} beyond the ${rounded(left)} ${units[name]} that the Task has used, got ${cap}`;
  }
};

/**
 * How many of a Task's newest attempts failed in a row with the same code. With another message it would fail in that
 * way again.
 */
export const sameFailures = ({ ends }: Pick<Dispatched, "ends">): { times: number; code: string } => {
  const last = ends.at(-1);
  if (last?.outcome !== "failed" || last.code === undefined) return { times: 0, code: "" };
  const other = ends.findLastIndex(({ outcome, code }) => outcome !== "failed" || code !== last.code);
  return { times: ends.length - 1 - other, code: last.code };
};

/** After this many failures in a row with the same code, the agent can no longer tell a Task to continue. */
export const maxSameFailures = 3;

/** Whether no Task of this kind (work or production) has ended for the phase yet. */
export const isFirst = ({ tasks }: MissionState, phaseID: string, production: boolean): boolean =>
  !tasks.some((task) => task.phase === phaseID && (task.production !== null) === production && task.ends.length > 0);
