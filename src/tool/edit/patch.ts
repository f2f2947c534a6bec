import { z } from "zod";
import { apply } from "./patch-apply.ts";
import { answer } from "../result.ts";
import { type Tool, hiddenFromModels } from "../tool.ts";

const input = z.strictObject({
  patch: z.string().min(1),
  /**
   * Whether to change the files, or only to report if the patch applies or is in them already: for the built-in model.
   */
  mode: z.enum(["apply", "check", "check-applied"]).optional().meta(hiddenFromModels),
});

export const patch: Tool<z.infer<typeof input>> = {
  name: "apply_patch",
  description:
    "Changes several files, all or none. Takes a unified diff, or `*** Begin Patch`, then `*** Add File: path`, `*** Delete File: path` or " +
    "`*** Update File: path` (and `*** Move to: path`) with hunks of ` `, `-` and `+` lines below `@@`, then `*** End Patch`. A hunk's lines must stand at exactly one place.",
  input,
  effect: "workspace",
  run: ({ patch: text, mode = "apply" }, { workspace, signal, touched }) =>
    answer(signal, () => apply(workspace, text, mode, signal, touched)),
};
