import { join } from "node:path";
import type { CheckSpec } from "../protocol/task.ts";
import type { Limits } from "../protocol/limits.ts";
import type { Ran } from "../process/process.ts";
import type { Workspace } from "../workspace/workspace.ts";
import { isFound } from "./match.ts";

/** Runs a check of the command family in a workspace. A check that fails or cannot run is a result, not an error. */

export type CheckResult = {
  state: "passed" | "failed" | "error";
  exitCode: number | null;
  durationMs: number;
  output: string;
  /** The last lines, for people and for the agent. */
  tail: string;
  /** Why it did not pass; null when it did. */
  reason: string | null;
};

export const runCheck = async (
  check: CheckSpec,
  workspace: Workspace,
  options: { limits: Limits; signal: AbortSignal; onOutput?: (text: string) => void },
): Promise<CheckResult> => {
  const cwd = check.cwd === undefined ? workspace.root : join(workspace.root, check.cwd);
  const ran = await workspace.run({
    run: `${toolPath(workspace.inside, check.cwd)}\n${check.run}`,
    cwd,
    ...(check.env === undefined ? {} : { env: check.env }),
    timeoutMs: check.timeoutSeconds * 1000,
    keepBytes: options.limits.commandOutputBytes,
    signal: options.signal,
    ...(options.onOutput === undefined ? {} : { onOutput: options.onOutput }),
  });
  options.signal.throwIfAborted();
  const reason = await judge(check, ran);
  return {
    state: ran.ended === "not-started" ? "error" : reason === null ? "passed" : "failed",
    exitCode: ran.exitCode,
    durationMs: ran.durationMs,
    output: ran.output,
    tail: lastLines(ran.output),
    reason,
  };
};

/** The project's tools first: local packages of Node and Python, then what the service finds. */
const toolPath = (root: string, folder = ""): string => {
  const cwd = join(root, folder);
  const folders = [join(cwd, "node_modules/.bin"), join(root, "node_modules/.bin"), join(root, ".venv/bin")];
  return `export PATH=${[...new Set(folders)].map(quote).join(":")}:"$PATH"`;
};

const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

const judge = async (check: CheckSpec, ran: Ran): Promise<string | null> => {
  switch (ran.ended) {
    case "not-started":
      return `could not be started: ${ran.output}`;
    case "timeout":
      return `did not end within ${check.timeoutSeconds} s`;
    case "aborted":
      return "was stopped";
    case "exit":
  }
  const wanted = check.expect?.exitCode ?? 0;
  if (ran.exitCode !== wanted)
    return ran.exitCode === null
      ? "was ended by a signal"
      : `exit ${ran.exitCode}${wanted === 0 ? "" : ` instead of ${wanted}`}`;
  const pattern = check.expect?.stdoutMatches;
  if (pattern === undefined) return null;
  const found = await isFound(pattern, ran.stdout);
  if (found === true) return null;
  return found === false ? `output does not match /${pattern}/` : `the output ${found} /${pattern}/`;
};

const lastLines = (output: string, lines = 40, chars = 4000): string =>
  output.trimEnd().split("\n").slice(-lines).join("\n").slice(-chars);
