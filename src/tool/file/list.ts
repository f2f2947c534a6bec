import { z } from "zod";
import { type Entry, FileRefused } from "../../workspace/file/files.ts";
import { answer, failed, ok, shown } from "../result.ts";
import type { Tool } from "../tool.ts";

const input = z.strictObject({
  path: z.string().optional().describe("Folder; default: the root"),
  depth: z.number().int().min(1).max(10).optional().describe("Levels; default 1"),
  offset: z.number().int().min(1).max(20_000).optional().describe("First entry, from 1"),
});

const page = 500;

export const list: Tool<z.infer<typeof input>> = {
  name: "list",
  description:
    "Lists a folder: one path a line from the root, folders with a `/` at the end, files with their bytes; hidden and ignored entries too. " +
    `${page} at a time. To find a file by name or content, use \`search\`.`,
  input,
  effect: "none",
  run: ({ path = "", depth = 1, offset = 1 }, { workspace, signal }) =>
    answer(signal, async () => {
      let found: Awaited<ReturnType<typeof workspace.files.list>>;
      try {
        found = await workspace.files.list(path, { depth, limit: offset - 1 + page });
      } catch (error) {
        // The path is a file: describe it.
        if (!(error instanceof FileRefused) || error.kind !== "not-a-file") throw error;
        const name = path.replace(/(?<!\/)\/+$/, "");
        const parent = await workspace.files.list(name.split("/").slice(0, -1).join("/"), { limit: 100_000 });
        const entry = parent.entries.find((candidate) => candidate.path === name.replace(/^(\.\/)+/, ""));
        if (entry === undefined) throw error;
        found = { entries: [entry], truncated: false };
      }
      const { entries, truncated } = found;
      if (entries.length === 0) return ok(`${path === "" ? "The project's root" : shown(path)} is empty.`);
      if (offset > entries.length)
        return failed(`Expected offset of at most ${entries.length}, the number of entries, got ${offset}.`);
      const lines = entries.slice(offset - 1).map(lineOf);
      const last = offset - 1 + lines.length;
      const rest = truncated
        ? [`… entries ${offset} to ${last}; more: offset ${last + 1}, or list a folder below …`]
        : [];
      return ok([...lines, ...rest].join("\n"));
    }),
};

const lineOf = (entry: Entry): string => {
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
};
