import type { z } from "zod";
import type { AgentSpec, ModelRef } from "../domain/agent.ts";
import { ServiceError } from "../errors.ts";
import type { CheckSpec, checkRequest, TaskCreate } from "../protocol/task.ts";

/** What a request leaves open, filled in: the title and the checks. */

/** An external agent brings its model; every other Task needs one that can be called. */
export const modelFor = (
  { runtime }: AgentSpec,
  wanted: string | undefined,
  resolve: (ref: string | undefined) => ModelRef,
): ModelRef => {
  if (runtime === undefined) return resolve(wanted);
  const name = runtime.slice("acp:".length);
  if (wanted === undefined) return `acp/${name}`;
  throw wrong("model", `Expected no model with the external agent ${name}, which brings its own, got "${wanted}"`);
};

/** The first line of the request, without Markdown decoration, at most 80 characters. */
export const titleOf = (request: string): string => {
  const first = request.split("\n").find((line) => line.trim() !== "") ?? "Task";
  const plain = first.replace(/^[\s#>*-]+/, "").trim() || first.trim();
  const characters = Array.from(plain);
  return characters.length <= 80 ? plain : `${characters.slice(0, 79).join("")}…`;
};

/** Checks with every default; a bare string is a command. Ids are the caller's, else `check-1`, `check-2`, … */
export const checkSpecs = (checks: NonNullable<TaskCreate["checks"]>): CheckSpec[] => {
  const seen = new Set<string>();
  return checks.map((check, index) => {
    const given: z.input<typeof checkRequest> = typeof check === "string" ? { kind: "command", run: check } : check;
    const { id = `check-${index + 1}`, name = given.run } = given;
    if (seen.has(id)) throw wrong(`checks[${index}].id`, `Expected a different id for every check, got "${id}" twice`);
    seen.add(id);
    const pattern = given.expect?.stdoutMatches;
    if (pattern !== undefined && !isPattern(pattern))
      throw wrong(
        `checks[${index}].expect.stdoutMatches`,
        `Expected a regular expression, got ${JSON.stringify(pattern)}`,
      );
    const { exitCode } = given.expect ?? {};
    return {
      id,
      name: name.slice(0, 200),
      kind: given.kind,
      run: given.run,
      ...(given.cwd === undefined ? {} : { cwd: given.cwd }),
      ...(given.env === undefined ? {} : { env: given.env }),
      timeoutSeconds: given.timeoutSeconds ?? 600,
      required: given.required ?? true,
      baseline: given.baseline ?? false,
      ...(exitCode === undefined && pattern === undefined
        ? {}
        : {
            expect: {
              ...(exitCode === undefined ? {} : { exitCode }),
              ...(pattern === undefined ? {} : { stdoutMatches: pattern }),
            },
          }),
    };
  });
};

const wrong = (path: string, message: string) =>
  new ServiceError("invalid_request", `body.${path}: ${message}.`, {
    issues: [{ path: `body.${path}`, message, code: "custom" }],
  });

const isPattern = (text: string): boolean => {
  try {
    return new RegExp(text, "m") instanceof RegExp;
  } catch {
    return false;
  }
};
