import type { Source } from "../../check/diagnostic/diagnostics.ts";
import { createFinder } from "../../check/diagnostic/find-checker.ts";
import type { Run } from "../run.ts";
import { filesAt } from "../session/project-facts.ts";

/**
 * The checkers of a Task's edits: the commands that its environment names, otherwise those found in the user's
 * directory. undefined: edits are not checked.
 */
export const checkersOf = (run: Run): Source | undefined => {
  const { diagnostics = run.diagnostics.enabled } = run.environment;
  if (diagnostics === false || !run.diagnostics.enabled) return undefined;
  if (diagnostics !== true) return { commands: diagnostics };
  const files = filesAt(run, run.state().directory);
  return files && { find: createFinder({ files, onPath: (name) => run.processes.finds(run.stream, name) }) };
};
