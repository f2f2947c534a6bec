import type { RunCheck } from "../protocol/check.ts";
import type { CheckEnvironment } from "../workspace/workspace.ts";
import type { CheckOptions, CheckResult } from "./check.ts";
import { runCommandCheck } from "./kind/command.ts";
import { runFileCheck } from "./kind/file.ts";
import { runHttpCheck } from "./kind/http.ts";

/**
 * Runs a check of any kind in the given place. A check that fails or cannot run is a result, not an error; rejects when
 * the signal aborts.
 */
export const runCheck = async (
  check: RunCheck,
  place: CheckEnvironment,
  options: CheckOptions,
): Promise<CheckResult> => {
  switch (check.kind) {
    case "command":
    case "build":
    case "test":
    case "lint":
    case "typecheck":
      return runCommandCheck(check, place, options);
    case "file":
      return runFileCheck(check, place, options);
    case "http":
      return runHttpCheck(check, place, options);
    case "visual":
      return (await import("./kind/visual.ts")).runVisualCheck(check, place, options);
  }
};
