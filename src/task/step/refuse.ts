import { shellQuote } from "../../shell-quote.ts";
import { shown } from "../../tool/result.ts";
import type { Run } from "../run.ts";
import { messageFromService } from "./message.ts";

/** Returns a change to the agent because a rule forbids it, and says how to undo it. */
export const refuse = async (run: Run): Promise<void> => {
  const { denied, round, version, workspace } = run.state();
  if (denied === null) throw new Error("Expected files that a rule forbids to change, got none.");
  const { files, more } = denied;
  const lines = files.map(
    ({ path, rule, origin }) => `- ${shown(path.toWellFormed())}: ${rule}, a rule of the ${origin}`,
  );
  const base = workspace?.baseCommit ?? "HEAD";
  const undo = `git diff --binary ${base} -- ${shellQuote(files[0]?.path.toWellFormed() ?? "PATH")} | git apply -R`;
  const text = `Your work changes files that a rule forbids to change, so none of it can land (round ${round + 1} of ${run.limits.checkRounds}). By which tool, command or move it came about makes no difference.

${lines.join("\n")}${more === 0 ? "" : `\nand ${more} more`}

Make each of them exactly what it was before you began, and leave it alone: in a shell, \`${undo}\` takes the change of a file back; remove a file that was not there. Then finish what you were asked for without them. What cannot be done without them, say in your last message, and why: it is the report of the whole work, in place of the one before.`;
  await run.record([await messageFromService(run, "permissions", text)], { decidedAt: version });
};
