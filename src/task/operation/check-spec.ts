import { ServiceError } from "../../error.ts";
import { aboutOf, checkRequest, type CheckSpec, checkSpec } from "../../protocol/check.ts";
import type { TaskCreate } from "../../protocol/task/request.ts";
import { viewportOf } from "./visual-baseline.ts";

/**
 * Fills in the defaults of a request's checks; a bare string is a command. Ids are the caller's, otherwise `check-1`,
 * `check-2`, …
 */
export const checkSpecs = (checks: NonNullable<TaskCreate["checks"]>): CheckSpec[] => {
  const seen = new Set<string>();
  return checks.map((check, index) => {
    const given = checkRequest.parse(typeof check === "string" ? { kind: "command", run: check } : check);
    if (given.kind === "file" && !given.exists && given.matches !== undefined)
      throw invalidField(
        `checks[${index}].matches`,
        `Expected no pattern for a file that must not exist, got ${JSON.stringify(given.matches)}`,
      );
    const id = given.id ?? `check-${index + 1}`;
    if (seen.has(id))
      throw invalidField(`checks[${index}].id`, `Expected a different id for every check, got "${id}" twice`);
    seen.add(id);
    const size = given.kind === "visual" ? { viewport: viewportOf(given.viewport) } : {};
    const bounds =
      given.kind === "review"
        ? { baseline: false, timeoutSeconds: 600 }
        : { baseline: given.baseline === true, timeoutSeconds: given.timeoutSeconds };
    const spec = checkSpec.parse({ ...given, ...size, ...bounds, id, name: given.name ?? "" });
    return { ...spec, name: given.name ?? aboutOf(spec).slice(0, 200) };
  });
};

export const invalidField = (path: string, message: string) =>
  new ServiceError("invalid_request", `body.${path}: ${message}.`, {
    issues: [{ path: `body.${path}`, message, code: "custom" }],
  });
