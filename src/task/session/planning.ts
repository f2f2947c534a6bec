import { isPlanDue } from "../../domain/session/approval.ts";
import { gitHistory } from "../../tool/command/git-history.ts";
import { failed } from "../../tool/result.ts";
import { artifact } from "../../tool/task/artifact.ts";
import { delegate } from "../../tool/task/delegate.ts";
import { slice } from "../../tool/task/slice.ts";
import { effectOf, type Tool } from "../../tool/tool.ts";
import type { Run } from "../run.ts";

/** What an agent can do before a person has approved its plan: look, ask, and write the plan. */

const beyond: ReadonlySet<string> = new Set([artifact.name, delegate.name]);

/** The tools of an agent that only read, and `slice` whether the agent has it or not. */
export const planningTools = (own: readonly Tool[]): Tool[] => {
  const reading = own.flatMap((tool) => {
    if (tool.name === gitHistory.name) return [gitHistory];
    return (tool.effect === "none" || tool.effect === "log") && !beyond.has(tool.name) ? [tool] : [];
  });
  return reading.some(({ name }) => name === slice.name) ? reading : [...reading, slice];
};

/**
 * Wraps a tool: a call that may change something does nothing while the plan waits for approval, for example because
 * the same reply has just revised it.
 */
export const heldBack = (run: Pick<Run, "state">, tool: Tool): Tool => ({
  ...tool,
  meant(input) {
    const meant = tool.meant?.(input);
    return meant && { ...meant, tool: heldBack(run, meant.tool) };
  },
  run(input, context) {
    const effect = effectOf(tool, input);
    const reads = (effect === "none" || effect === "log") && !beyond.has(tool.name);
    if (reads || !isPlanDue(run.state())) return tool.run(input, context);
    return Promise.resolve(
      failed(
        "The plan has to be approved first, or again since it was changed. Nothing was done. End your turn to ask.",
      ),
    );
  },
});
