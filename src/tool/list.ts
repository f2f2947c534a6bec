import { z } from "zod";
import { FileRefused } from "../workspace/files.ts";
import { answer, ok, shown, type Tool } from "./tool.ts";

const input = z.strictObject({
  path: z.string().optional().describe("Folder, relative to the project's root; default: the root"),
  depth: z.number().int().min(1).max(10).optional().describe("Levels to show; default 1"),
});

const limit = 500;

export const list: Tool<z.infer<typeof input>> = {
  name: "list",
  description:
    "Lists a folder of the project: one path a line, relative to the root, folders with a `/` at the end, files with their size in bytes. " +
    `Hidden and ignored entries are shown, \`.git\` is not; at most ${limit} entries. To find a file by its name or content, use \`search\`.`,
  input,
  effect: "none",
  run: ({ path = "", depth = 1 }, { workspace, signal }) =>
    answer(signal, async () => {
      let found: Awaited<ReturnType<typeof workspace.files.list>>;
      try {
        found = await workspace.files.list(path, { depth, limit });
      } catch (error) {
        // Asked for a file: say what it is.
        if (!(error instanceof FileRefused) || error.kind !== "not-a-file") throw error;
        const name = path.replace(/\/+$/, "");
        const parent = await workspace.files.list(name.split("/").slice(0, -1).join("/"), { limit: 100_000 });
        const entry = parent.entries.find((candidate) => candidate.path === name.replace(/^(\.\/)+/, ""));
        if (entry === undefined) throw error;
        found = { entries: [entry], truncated: false };
      }
      const { entries, truncated } = found;
      if (entries.length === 0) return ok(`${path === "" ? "The project's root" : shown(path)} is empty.`);
      const lines = entries.map((entry) => {
        switch (entry.kind) {
          case "file":
            return `${shown(entry.path)}  ${entry.bytes}`;
          case "directory":
            return `${shown(entry.path)}/`;
          case "link":
            return `${shown(entry.path)}  symbolic link`;
          case "other":
            return `${shown(entry.path)}  neither file nor folder`;
        }
      });
      const rest = truncated ? [`… more than ${limit} entries; list a folder below, or use search …`] : [];
      return ok([...lines, ...rest].join("\n"));
    }),
};
