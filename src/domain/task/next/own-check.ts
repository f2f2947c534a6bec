import { isRun } from "../../../protocol/check.ts";
import { brokenOf, checksBroken, isDue, isGating, onBase } from "../../evidence/check.ts";
import { isChanged, type TaskState } from "../../state/task.ts";
import type { Step, StepPolicy } from "./step.ts";

/**
 * The step that the project's own checks need, where the request names no checks; undefined: none. A check that passed
 * on the base must pass at the end. A check that did not pass there decides nothing, so it runs only once. A check that
 * did not end in time before (`doubted`) waits for its result on the base, because it does not run on the work if it
 * did not end on the base.
 */
export const nextOwnCheckStep = (state: TaskState, rules: StepPolicy): Step | undefined => {
  if (!isChanged(state) || state.checks.length > 0 || state.unchecked) return undefined;
  if (state.ownChecks.length === 0)
    return rules.own.length === 0 ? undefined : { kind: "propose", checks: [...rules.own] };
  const own = state.ownChecks.filter(isRun);
  const untold = own.filter(({ id }) => state.results[id] === undefined);
  const now = untold.filter(({ id }) => !rules.doubted.includes(id) || onBase(state, id) !== undefined);
  if (now.length > 0) return { kind: "check", checks: now };
  if (own.some(({ id }) => onBase(state, id) === undefined)) return { kind: "compare" };
  const counts = own.filter((check) => isGating(state, check) || state.results[check.id]?.state === "passed");
  const due = counts.filter((check) => isDue(state, check));
  if (due.length > 0) return { kind: "check", checks: due };
  const broken = brokenOf(state);
  if (broken.length === 0) return undefined;
  return rules.retries && state.round < rules.checkRounds
    ? { kind: "feedback", failed: broken }
    : { kind: "settle", end: { lifecycleStatus: "failed", failure: checksBroken(state, broken) } };
};
