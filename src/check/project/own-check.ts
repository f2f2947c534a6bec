import type { Facts } from "../../model/model.ts";
import type { CheckSpec } from "../../protocol/check.ts";

/**
 * The project's own commands as checks, for a request that names none: what passes on the base must pass at the end.
 * Empty where they get no time (`timeoutSeconds` 0).
 */
export const ownChecks = (
  checks: readonly CheckSpec[],
  detected: Facts["detected"],
  timeoutSeconds: number,
): CheckSpec[] => {
  if (checks.length > 0 || timeoutSeconds === 0) return [];
  return (["test", "build", "lint", "typecheck"] as const).flatMap((kind): CheckSpec[] => {
    const run = detected[kind];
    if (run === undefined) return [];
    return [{ id: `project-${kind}`, name: run, kind, run, timeoutSeconds, required: false, baseline: false }];
  });
};
