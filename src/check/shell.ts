import { join } from "node:path";
import { plainLine } from "../process/plain-text.ts";
import type { CommandResult } from "../process/process.ts";
import { shellQuote } from "../shell-quote.ts";
import type { CheckEnvironment } from "../workspace/workspace.ts";

/** Helpers for checks that run the project's commands. */

/** The absolute path of a check's `cwd`. */
export const folderOf = ({ root }: CheckEnvironment, cwd: string | undefined): string =>
  cwd === undefined ? root : join(root, cwd);

/** Why a command failed if its program does not exist, with a remedy; undefined for any other end. */
export const missingProgram = (ran: CommandResult): string | undefined => {
  if (ran.ended !== "exit" || ran.exitCode !== 127) return undefined;
  const line = ran.output.slice(-1000).trimEnd().split("\n").at(-1) ?? "";
  const end = [": command not found", ": not found"].find((text) => line.endsWith(text));
  if (end === undefined) return undefined;
  const name = line.slice(0, -end.length).split(" ").at(-1);
  return `exit 127, ${name} was not found: install it in the project or on this machine, on the PATH that the service was started with`;
};

/** A line of shell that puts the project's local tools (Node, Python) before the service's PATH. */
export const toolPath = (root: string, folder = ""): string => {
  const cwd = join(root, folder);
  const folders = [join(cwd, "node_modules/.bin"), join(root, "node_modules/.bin"), join(root, ".venv/bin")];
  return `export PATH=${[...new Set(folders)].map(shellQuote).join(":")}:"$PATH"`;
};

/** The last lines as a terminal shows them; the log keeps the bytes. */
export const lastLines = (output: string, lines = 40, chars = 4000): string =>
  output.slice(-enough).trimEnd().split("\n").slice(-lines).map(plainLine).join("\n").slice(-chars);

/** Characters of output from which the last lines are taken. */
const enough = 64 * 1024;
