import { join } from "node:path";
import type { Ran } from "../../process/process.ts";
import type { CommandCheck } from "../../protocol/check.ts";
import { shellQuote } from "../../shell-quote.ts";
import type { CheckPlace } from "../../workspace/workspace.ts";
import { isFound } from "../pattern.ts";
import type { CheckOptions, CheckResult } from "../run.ts";

/** A command, whose exit decides. */

export const runCommandCheck = async (
  check: CommandCheck,
  place: CheckPlace,
  options: CheckOptions,
): Promise<CheckResult> => {
  const ran = await place.run({
    run: `${toolPath(place.inside, check.cwd)}\n${check.run}`,
    cwd: folderOf(place, check.cwd),
    ...(check.env === undefined ? {} : { env: check.env }),
    timeoutMs: check.timeoutSeconds * 1000,
    keepBytes: options.limits.commandOutputBytes,
    signal: options.signal,
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
  };
};

export const folderOf = ({ root }: CheckPlace, cwd: string | undefined): string =>
  cwd === undefined ? root : join(root, cwd);

/** What a shell says of a command that is not there; undefined: it did not end for that. */
export const missingProgram = (ran: Ran): string | undefined => {
  if (ran.ended !== "exit" || ran.exitCode !== 127) return undefined;
  const line = ran.output.slice(-1000).trimEnd().split("\n").at(-1) ?? "";
  const end = [": command not found", ": not found"].find((text) => line.endsWith(text));
  if (end === undefined) return undefined;
  const name = line.slice(0, -end.length).split(" ").at(-1);
  return `exit 127, ${name} was not found: install it in the project or on this machine, on the PATH that the service was started with`;
};

/** The project's tools first: local packages of Node and Python, then what the service finds. */
export const toolPath = (root: string, folder = ""): string => {
  const cwd = join(root, folder);
  const folders = [join(cwd, "node_modules/.bin"), join(root, "node_modules/.bin"), join(root, ".venv/bin")];
  return `export PATH=${[...new Set(folders)].map(shellQuote).join(":")}:"$PATH"`;
};

const judge = async (check: CommandCheck, ran: Ran): Promise<string | null> => {
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

export const lastLines = (output: string, lines = 40, chars = 4000): string =>
  output.trimEnd().split("\n").slice(-lines).join("\n").slice(-chars);
