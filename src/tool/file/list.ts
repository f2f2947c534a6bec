import { z } from "zod";
import type { Entry } from "../../workspace/file/files.ts";
import { answer, failed, ok, shown } from "../result.ts";
import type { Tool } from "../tool.ts";
import { installedNote } from "./installed.ts";

const input = z.strictObject({
  path: z.string().optional().describe("Default: the root"),
  depth: z.number().int().min(1).max(10).optional().describe("Default 1"),
  offset: z.number().int().min(1).max(20_000).optional(),
});

const page = 500;

export const list: Tool<z.infer<typeof input>> = {
  name: "list",
  description: "Lists a folder, hidden and ignored entries too; files with their bytes.",
  input,
  effect: "none",
  run: ({ path = "", depth = 1, offset = 1 }, context) =>
    answer(context.signal, async () => {
      const { files } = context.workspace;
      const there = await files.stat(path);
      const installed = path === "" || there?.kind === "file" ? undefined : installedNote(context, path);
      if (installed !== undefined) return failed(installed);
      if (there?.kind === "file" || there?.kind === "other") return ok(lineOf(there));
      const { entries, total, truncated } = await files.list(path, { depth, offset: offset - 1, limit: page });
      if (total === 0) return ok(`${path === "" ? "The project's root" : shown(path)} is empty.`);
      if (entries.length === 0)
        return failed(`Expected offset of at most ${total}, the number of entries, got ${offset}.`);
      const last = offset - 1 + entries.length;
      const rest = truncated
        ? [`… entries ${offset} to ${last}; more: offset ${last + 1}, or list a folder below …`]
        : [];
      return ok([...entries.map(lineOf), ...rest].join("\n"));
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
