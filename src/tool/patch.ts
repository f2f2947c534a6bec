import { z } from "zod";
import { apply } from "./apply.ts";
import { answer, type Tool } from "./tool.ts";

const input = z.strictObject({
  patch: z.string().min(1),
  mode: z
    .enum(["apply", "check", "check-applied"])
    .optional()
    .describe("check: does it apply? check-applied: is it in the files already?"),
});

export const patch: Tool<z.infer<typeof input>> = {
  name: "apply_patch",
  description:
    "Changes several files at once, all or nothing: adds, updates, moves and deletes. Takes a unified diff, or `*** Begin Patch`, then `*** Add File: path`, `*** Delete File: path` or " +
    "`*** Update File: path` (and `*** Move to: path`) with hunks of ` `, `-` and `+` lines below `@@`, then `*** End Patch`. A hunk goes where its lines stand, at one place or not at all. " +
    "Returns the files with their counts, or the hunk that does not fit and what stands there.",
  input,
  effect: "workspace",
  run: ({ patch: text, mode = "apply" }, { workspace, signal }) => answer(signal, () => apply(workspace, text, mode)),
};
