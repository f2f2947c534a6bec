import { z } from "zod";
import type { Tool } from "../tool.ts";
import { git } from "./git.ts";

const input = z.strictObject({
  action: z.enum(["diff", "log", "show"]),
  paths: z.array(z.string().min(1)).max(200).optional().describe("Not for show"),
  revision: z
    .string()
    .regex(/^[A-Za-z0-9_][A-Za-z0-9_./~^@{}+-]*$/)
    .max(200)
    .optional()
    .describe("diff, log: commit or range; show: a commit, default HEAD"),
  stat: z.boolean().optional().describe("diff, show: counts only"),
  limit: z.number().int().min(1).max(500).optional().describe("log; default 20"),
});

/** Git for an agent that judges a Task's tree and changes nothing: `diff` without a revision shows the whole change. */
export const gitHistory: Tool<z.infer<typeof input>> = {
  name: "git",
  description:
    "Read-only Git in the tree under review: `diff` (without a revision: the whole change, HEAD against its base), `log`, `show` a commit.",
  input,
  effect: "none",
  run: (call, context) => {
    const base = context.state().workspace?.baseCommit ?? undefined;
    const whole = call.action === "diff" && base !== undefined && context.workspace.prepared.kind === "worktree";
    return git.run(whole ? { revision: `${base}..HEAD`, ...call } : call, context);
  },
};
