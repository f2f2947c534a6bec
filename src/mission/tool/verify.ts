import { z } from "zod";
import type { Verification } from "../../protocol/mission/status.ts";
import { ServiceError } from "../../error.ts";
import { checkSpecs } from "../../task/operation/check-spec.ts";
import { failed, ok } from "../../tool/result.ts";
import type { Tool } from "../../tool/tool.ts";
import { aboutOf, type CheckSpec } from "../../protocol/check.ts";
import type { MissionRun } from "../run.ts";
import { verify } from "../verify.ts";
import { checkInput } from "./check-input.ts";

/** The tool that runs checks on the project's head. */

const input = z.strictObject({
  checks: z.array(checkInput).min(1).max(20).optional().describe("As in `dispatch`. Default: the user's, of the whole"),
});

export const verifyTool = (run: MissionRun): Tool<z.infer<typeof input>> => ({
  name: "verify",
  description: "Runs checks on a throw-away copy of the project's head, and shows what came of them.",
  input,
  effect: "log",
  run: ({ checks: given }, context) =>
    run.inOrder(async () => {
      const checks = given === undefined ? run.state().checks : asked(given);
      if (typeof checks === "string") return failed(`${checks} Nothing was run.`);
      if (checks.length === 0)
        return failed("Expected `checks`, because the user gave none for the whole; got none. Nothing was run.");
      const of = given === undefined ? "acceptance" : "asked";
      const done = await verify(run, { callID: context.callID, of, checks }, context);
      return typeof done === "string"
        ? failed(`${done} Nothing was run.`)
        : ok(`On ${done.commit}:\n${evidenceText(done.results, checks)}`);
    }),
});

/** The given checks, with every default; a string says why they cannot be run. */
const asked = (given: Parameters<typeof checkSpecs>[0]): CheckSpec[] | string => {
  try {
    const specs = checkSpecs(given);
    if (specs.some(({ kind }) => kind === "review"))
      return "Expected checks that the service runs, got one of the kind review: dispatch a Task that reviews.";
    if (given.some((check) => typeof check === "object" && check.kind !== "review" && check.baseline !== false))
      return "Expected no baseline: there is no work to compare with.";
    return specs;
  } catch (error) {
    if (error instanceof ServiceError) return error.message;
    throw error;
  }
};

/** One line for each check; for red ones also what they run and the end of their output. */
export const evidenceText = (results: readonly Verification[], checks: readonly CheckSpec[]): string =>
  results
    .map(({ checkID, name, state, required, reason, tail }) => {
      const spec = state === "passed" ? undefined : checks.find((check) => check.id === checkID);
      const line = `${spec === undefined ? name : namedCheck(spec)}: ${state}${required ? "" : " (not required)"}${reason === null ? "" : `, ${reason}`}`;
      return tail.trim() === "" ? line : `${line}\n<data from="check">\n${inert(tail.trimEnd())}\n</data>`;
    })
    .join("\n");

/** Most characters of what a check runs, as shown beside its name. */
const longestAbout = 400;

/** The name of a check, and what it runs where the name does not say so. */
export const namedCheck = (spec: CheckSpec): string => {
  const about = aboutOf(spec);
  if (about === spec.name) return spec.name;
  return `${spec.name} (${about.length > longestAbout ? `${about.slice(0, longestAbout)}…` : about})`;
};

const inert = (text: string): string => text.replaceAll(/<(\/?data\b)/gi, "<\u200B$1");
