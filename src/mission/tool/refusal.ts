import { planKey } from "../../domain/mission/approval.ts";
import { reachedOf, rounded, units, usedOf } from "../../domain/mission/budget.ts";
import type { Grant } from "../../domain/mission/grant.ts";
import {
  blockersOf,
  failuresOf,
  isGivenUp,
  maxPhaseTries,
  phaseState,
  productionsOf,
  workOf,
} from "../../domain/mission/plan.ts";
import { deliveredBy, type Dispatched, isRunning, type MissionState } from "../../domain/state/mission.ts";
import type { PlannedPhase } from "../../protocol/mission/status.ts";

/**
 * Why nothing is dispatched, in words for the Mission's agent: what stands in the way, and what it can do next. The
 * caller adds what was refused.
 */

/** Most ids that an answer names. */
const mostIDs = 40;

export const phaseIDs = ({ plan }: Pick<MissionState, "plan">): string => {
  if (plan.length === 0) return "there is none yet: call plan";
  return `${firstNames(plan.map(({ id }) => id))}${plan.length > mostIDs ? ", which `task_status` shows" : ""}`;
};

/** The first names of a list, and how many more there are: an answer stays short, however many phases there are. */
export const firstNames = (named: readonly string[]): string =>
  `${named.slice(0, mostIDs).join(", ")}${named.length > mostIDs ? ` and ${named.length - mostIDs} more` : ""}`;

const byTask = (task: Dispatched | undefined): string => (task === undefined ? "" : ` (Task ${task.taskID})`);

/** Why the phase cannot be dispatched now; undefined: it can. */
export const phaseRefusal = (state: MissionState, phase: PlannedPhase, brief: string): string | undefined => {
  const { id } = phase;
  switch (phaseState(state, phase)) {
    case "running":
      return `Phase ${id} is under way${byTask(workOf(state, id).findLast(isRunning))}. You are woken when it ends; what is to be different in it, say with \`task_message\`.`;
    case "producing":
      return `Phase ${id} waits for a squad that is made for it${byTask(productionsOf(state, id).findLast(isRunning))}. You are woken when that ends: dispatch the phase then.`;
    case "done":
      return `Phase ${id} is done${byTask(workOf(state, id).findLast((task) => deliveredBy(task) !== undefined))}. What is wrong in it is corrected with \`task_message\` to that Task; work that comes after it is a phase of its own.`;
    case "waiting":
    case "ready":
    case "failed":
    case "cancelled":
      return unready(state, phase, brief);
  }
};

const unready = (state: MissionState, phase: PlannedPhase, brief: string): string | undefined => {
  const { id } = phase;
  const before = blockersOf(state, phase);
  if (before.length > 0) return blockedText(state, id, before);
  const failures = failuresOf(state, id);
  if (failures.length > maxPhaseTries)
    return `Phase ${id} failed ${failures.length} times and is not tried again. Report it to the user, or plan another way.`;
  if (isGivenUp(state, id))
    return `Phase ${id} was given up twice, the second time with another brief, and is not tried again. Plan another way, or report it to the user.`;
  const same = failures.find((task) => task.brief === brief);
  return same === undefined
    ? undefined
    : `Phase ${id} failed with this very brief, as ${same.taskID}. Read \`task_evidence\` of that Task, and write a brief that takes up why it failed.`;
};

const blockedText = (state: MissionState, id: string, before: readonly string[]): string => {
  const standing = before.map((other) => {
    const phase = state.plan.find((one) => one.id === other);
    return { other, now: phase === undefined ? "no longer in the plan" : phaseState(state, phase) };
  });
  const comes = standing.some(({ now }) => now === "running" || now === "producing");
  const next = standing.some(({ now }) => now === "ready")
    ? "Dispatch what is ready first."
    : comes
      ? "You are woken when what runs has ended."
      : "Bring that about first, or change `after`.";
  const list = standing.map(({ other, now }) => `${other} (${now})`).join(", ");
  return `Phase ${id} starts from ${list}, which ${before.length === 1 ? "is" : "are"} not done. ${next}`;
};

/** Why there is no budget for one more Task. */
export const budgetRefusal = (state: MissionState, share: Extract<Grant, { ok: false }>): string => {
  const reached = reachedOf(state);
  const what =
    reached === undefined
      ? `The Mission's cap of ${share.cap} ${units[share.name]} (${share.name}) has ${share.left} left for this Task; ${rounded(usedOf(state)[share.name])} are used or reserved, and the rest is kept back for corrections.`
      : `The Mission's budget is used up: ${reached.used} of ${reached.cap} ${units[reached.name]} (${reached.name}) are used or reserved.`;
  const next = state.tasks.some(isRunning)
    ? "Running Tasks give back what they do not use: end your turn without a call, and dispatch it when one has ended."
    : "Nothing runs that could give something back: call `finish` with blocked, and say which cap the user has to raise and for what.";
  return `${what} ${next}`;
};

/**
 * Set when the user changed the plan after the agent had read it for this reply: what the agent made of the old plan
 * would undo or ignore that change. Without a full stop; undefined: the user changed nothing.
 */
export const planEditRefusal = ({ planEdited, reply }: MissionState): string | undefined =>
  planEdited > (reply?.read ?? 0)
    ? "The user has changed the plan meanwhile. What they changed is the next thing that you read; call this again if it still holds then"
    : undefined;

/** Says that the plan has to be approved and is not. */
export const approvalRefusal = (state: MissionState): string =>
  state.planDenied && state.askedPlan === planKey(state)
    ? "The user did not approve the plan as it stands. Change it as they said with `plan` or `phase`, then end your turn without a call: they are asked again, and you are woken with the answer."
    : "The user approves the plan before anything is dispatched, and again after each change. End your turn without a call: the user is asked, and you are woken with the answer.";
