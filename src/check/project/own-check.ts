import type { Facts } from "../../model/model.ts";
import type { CheckSpec } from "../../protocol/check.ts";

/**
 * The project's own commands as advisory checks, for a request that names no checks: their results are shown and do not
 * decide.
 */
export const ownChecks = ({ checks, detected }: Facts, timeoutSeconds: number): CheckSpec[] => {
  if (checks.length > 0 || timeoutSeconds === 0) return [];
  return (["test", "build", "lint", "typecheck"] as const).flatMap((kind): CheckSpec[] => {
    const run = detected[kind];
    if (run === undefined) return [];
    return [{ id: `project-${kind}`, name: run, kind, run, timeoutSeconds, required: false, baseline: false }];
  });
};
