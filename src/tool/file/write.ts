import { z } from "zod";
import { countLines } from "./text.ts";
import { answer, counted, ok, shown } from "../result.ts";
import type { Tool } from "../tool.ts";

const input = z.strictObject({
  path: z.string().min(1),
  content: z.string(),
});

export const write: Tool<z.infer<typeof input>> = {
  name: "write",
  description: "Writes a whole file, with the folders it needs; what stood in it is replaced.",
  beside: { edit: "To change a part, use `edit`." },
  input,
  effect: "workspace",
  run: ({ path, content }, { workspace, signal, touched }) =>
    answer(signal, async () => {
      const bytes = Buffer.from(content);
      const before =
        touched &&
        (await workspace.files.read(path, mostBefore).then(
          (file) => file.bytes,
          () => undefined,
        ));
      const { created } = await workspace.files.write(path, bytes);
      touched?.([{ path: workspace.files.inside(path), before: created ? null : before }]);
      const size = `${counted(countLines(bytes), "line")}, ${counted(bytes.length, "byte")}`;
      return ok(`${created ? "Created" : "Replaced"} ${shown(path)} (${size}).`);
    }),
};

/** Longest previous content, in bytes, that is kept for a comparison. */
const mostBefore = 256 * 1024;
