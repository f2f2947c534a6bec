import type { CommandResult } from "../../process/process.ts";
import type { CommandCheck } from "../../protocol/check.ts";
import type { CheckEnvironment } from "../../workspace/workspace.ts";
import type { CheckOptions, CheckResult } from "../check.ts";
import { matchesPattern } from "../pattern.ts";
import { folderOf, lastLines, missingProgram, toolPath } from "../shell.ts";

/** A check that runs a command; its exit code decides and, if set, a pattern on its stdout. */
export const runCommandCheck = async (
  check: CommandCheck,
  place: CheckEnvironment,
  options: CheckOptions,
): Promise<CheckResult> => {
  const ran = await place.run({
    run: `${toolPath(place.rootInSandbox, check.cwd)}\n${check.run}`,
    cwd: folderOf(place, check.cwd),
    ...(check.env === undefined ? {} : { env: check.env }),
    timeoutMs: check.timeoutSeconds * 1000,
    keepBytes: options.limits.commandOutputBytes,
    signal: options.signal,
    fresh: true,
    ...(options.onOutput === undefined ? {} : { onOutput: options.onOutput }),
  });
  options.signal.throwIfAborted();
  const lacks = check.expect?.exitCode === undefined ? missingProgram(ran) : undefined;
  const reason = lacks ?? (await judge(check, ran));
  return {
    state: ran.ended === "not-started" || lacks !== undefined ? "error" : reason === null ? "passed" : "failed",
    exitCode: ran.exitCode,
    durationMs: ran.durationMs,
    output: ran.output,
    tail: lastLines(ran.output),
    reason,
    final: ran.ended !== "exit" || lacks !== undefined,
    ...(ran.ended === "timeout" || ran.ended === "disk" ? { unfinished: true as const } : {}),
  };
};

const judge = async (check: CommandCheck, ran: CommandResult): Promise<string | null> => {
  switch (ran.ended) {
    case "not-started":
      return `could not be started: ${ran.output}`;
    case "timeout":
      return `did not end within ${check.timeoutSeconds} s`;
    case "aborted":
      return "was stopped";
    case "disk":
      return "was stopped, because the Task uses too much disk space";
    case "exit":
  }
  const wanted = check.expect?.exitCode ?? 0;
  if (ran.exitCode !== wanted)
    return ran.exitCode === null
      ? "was killed by a signal"
      : `exit ${ran.exitCode}${wanted === 0 ? "" : ` instead of ${wanted}`}`;
  const pattern = check.expect?.stdoutMatches;
  if (pattern === undefined) return null;
  const found = await matchesPattern(pattern, ran.stdout);
  if (found === true) return null;
  return found === false ? `output does not match /${pattern}/` : `the output ${found} /${pattern}/`;
};
