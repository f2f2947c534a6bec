import { z } from "zod";
import type { Files } from "../workspace/files.ts";
import { FileRefused } from "../workspace/files.ts";
import { likeness, linesOf, numbered, textOf } from "./text.ts";
import { answer, counted, failed, maxOutput, ok, shown, type Tool } from "./tool.ts";

const input = z.strictObject({
  path: z.string().min(1).describe("File, relative to the project's root"),
  offset: z.number().int().min(1).optional().describe("First line to read, counted from 1"),
  limit: z.number().int().min(1).max(5000).optional().describe("Number of lines; default 2000"),
});

/** Larger files are for `search` and `shell`. */
const maxBytes = 16 * 1024 * 1024;
const maxLine = 2000;

export const read: Tool<z.infer<typeof input>> = {
  name: "read",
  description:
    "Reads a text file of the project. Returns its lines, each with its number and a tab before it; the numbers are not part of the file. " +
    "Reads the first 2000 lines; for more, give `offset` and `limit`. Read a file before you edit it. A binary file is only named with its size.",
  input,
  effect: "none",
  run: ({ path, offset = 1, limit = 2000 }, { workspace, signal }) =>
    answer(signal, async () => {
      let bytes: Buffer;
      try {
        ({ bytes } = await workspace.files.read(path, maxBytes));
      } catch (error) {
        if (!(error instanceof FileRefused) || (error.kind !== "missing" && error.kind !== "not-a-file")) throw error;
        return failed(`${error.message}. ${await hint(workspace.files, path, error.kind)}`.trim());
      }
      if (bytes.length === 0) return ok(`${shown(path)} is empty.`);
      const text = textOf(bytes);
      if (text === undefined) return ok(`${shown(path)} is a binary file of ${counted(bytes.length, "byte")}.`);

      const all = linesOf(text);
      if (offset > all.length)
        return failed(
          `Expected offset of at most ${all.length}, the number of lines in ${shown(path)}, got ${offset}.`,
        );
      const lines: string[] = [];
      let size = 0;
      for (const line of all.slice(offset - 1, offset - 1 + limit)) {
        const cut =
          line.length > maxLine ? `${line.slice(0, maxLine)}… ${line.length - maxLine} more characters` : line;
        size += cut.length + 8;
        if (size > maxOutput && lines.length > 0) break;
        lines.push(cut);
      }
      const last = offset + lines.length - 1;
      const rest =
        last < all.length ? `\n… lines ${offset} to ${last} of ${all.length}; read on with offset ${last + 1} …` : "";
      return ok(numbered(lines, offset) + rest);
    }),
};

/** What a model may have meant by a name that is not there. */
const hint = async (files: Files, path: string, kind: "missing" | "not-a-file"): Promise<string> => {
  if (kind === "not-a-file") return "Use `list` for a folder.";
  const wanted = path.split("/").at(-1) ?? path;
  const { entries } = await files.list("", { depth: 8, limit: 5000 });
  const near = entries
    .filter(({ kind: entry, path: found }) => entry === "file" && !found.includes("node_modules/"))
    .map(({ path: found }) => {
      const name = found.split("/").at(-1) ?? found;
      const like = likeness(name.toLowerCase(), wanted.toLowerCase());
      return { found, score: name === wanted ? 2 : Math.max(like, likeness(found, path) - 0.1) };
    })
    .filter(({ score }) => score >= 0.6)
    .sort((left, right) => right.score - left.score)
    .slice(0, 5);
  return near.length === 0 ? "" : `Near names: ${near.map(({ found }) => shown(found)).join(", ")}.`;
};
