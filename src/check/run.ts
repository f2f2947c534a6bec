import type { RunCheck } from "../protocol/check.ts";
import type { Limits } from "../protocol/limit.ts";
import type { CheckPlace } from "../workspace/workspace.ts";
import type { Browser } from "./browser/visit.ts";
import { runCommandCheck } from "./kind/command.ts";
import { runFileCheck } from "./kind/file.ts";
import { runHttpCheck } from "./kind/http.ts";

/** Runs a check where its files are, by its kind. One that fails or cannot run is a result, not an error. */

export type CheckResult = {
  /** `error`: it could not be run; why and what helps stands in `reason`. */
  state: "passed" | "failed" | "error";
  exitCode: number | null;
  durationMs: number;
  output: string;
  /** The last lines, for people and for the agent. */
  tail: string;
  /** Why it did not pass; null when it did. */
  reason: string | null;
  /** Files that show it. */
  artifacts?: { filename: string; title: string; mime: string; bytes: Buffer }[];
  /** Once more on the same files would say the same, or take as long. */
  final: boolean;
};

export type CheckOptions = {
  limits: Limits;
  signal: AbortSignal;
  /** Commands share this machine's network. */
  network: boolean;
  browser: Browser;
  /** What is kept under a hash. */
  blob: (sha256: string) => Promise<Buffer | undefined>;
  onOutput?: (text: string) => void;
};

export const runCheck = async (check: RunCheck, place: CheckPlace, options: CheckOptions): Promise<CheckResult> => {
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
