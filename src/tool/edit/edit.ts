import { z } from "zod";
import { inThread } from "../../thread.ts";
import { answer, failed, ok } from "../result.ts";
import type { Tool } from "../tool.ts";
import { applyEdits, type Edits, editing } from "./replace.ts";

const one = z.strictObject({
  old: z.string().min(1).describe("As it stands in the file, without line numbers"),
  new: z.string(),
  all: z.boolean().optional().describe("Every match"),
});

const input = z.strictObject({
  path: z.string().min(1),
  edits: z.array(one).min(1).max(100).describe("Applied in order"),
});

const maxBytes = 16 * 1024 * 1024;

export const edit: Tool<z.infer<typeof input>> = {
  name: "edit",
  description:
    "Replaces texts in one file that you have read, all or none. `old` must stand there once: give enough lines around it; white space at line ends and a block's indentation " +
    "may differ.",
  input,
  effect: "workspace",
  run: ({ path, edits }, { workspace, signal, touched }) =>
    answer(signal, async () => {
      const { bytes } = await workspace.files.read(path, maxBytes);
      const request = { path, bytes, edits };
      const quick = isSmall(request) ? applyEdits({ ...request, little: true }) : "too much";
      const made = quick === "too much" ? await inThread(editing, request, { signal, give: [bytes] }) : quick;
      if (made === "too much") throw new Error("Expected edits without a bound on effort to have an end.");
      if ("failed" in made) return failed(made.failed);
      // When a thread did the work, the bytes may have been transferred to it.
      const before = quick === "too much" ? undefined : bytes;
      await workspace.files.write(path, made.bytes);
      touched?.([{ path: workspace.files.inside(path), before }]);
      return ok(made.summary);
    }),
};

/** The most characters, counted once for each edit, that are processed here rather than in a thread. */
const mostRead = 256 * 1024;

const isSmall = ({ bytes, edits }: Edits): boolean =>
  edits.reduce((sum, change) => sum + bytes.length + change.old.length + change.new.length, 0) <= mostRead;
