import { z } from "zod";
import type { Files } from "../../workspace/file/files.ts";
import { FileRefused } from "../../workspace/file/files.ts";
import { kindOf } from "./binary-kind.ts";
import { likeness, linesOf, numbered, textOf } from "./text.ts";
import { answer, failed, maxOutput, ok, outputPath, shown } from "../result.ts";
import type { Tool, ToolResult } from "../tool.ts";

const input = z.strictObject({
  path: z.string().min(1).describe("File, or `output:…` as a cut result named it"),
  offset: z.number().int().min(1).max(1e9).optional().describe("First line, from 1"),
  limit: z.number().int().min(1).max(5000).optional().describe("Lines; default 2000"),
  column: z.number().int().min(1).max(1e9).optional().describe("First character, for very long lines"),
});

/** Bytes. Larger files are for `search` and `shell`. */
const maxBytes = 16 * 1024 * 1024;
const maxLine = 2000;

export const read: Tool<z.infer<typeof input>> = {
  name: "read",
  description:
    "Reads a text file, or the rest of a cut result. Each line comes with its number and a tab in front, which are not part of it; " +
    "when there is more, with the `offset` to go on. Read a file before you edit it.",
  input,
  effect: "none",
  run: (page, context) =>
    answer(context.signal, async () => {
      const { path } = page;
      if (path.startsWith(outputPath)) {
        const kept = await context.kept(path.slice(outputPath.length));
        return kept === undefined ? failed(noOutput(path)) : paged(kept, page);
      }
      const { files } = context.workspace;
      let bytes: Buffer;
      try {
        ({ bytes } = await files.read(path, maxBytes));
      } catch (error) {
        if (!(error instanceof FileRefused)) throw error;
        if (error.kind === "too-big") return failed(`${error.message}. Use \`search\`, or \`shell\` for a part of it.`);
        if (error.kind !== "missing" && error.kind !== "not-a-file") throw error;
        return failed(`${error.message}. ${await hint(files, path, error.kind)}`.trim());
      }
      if (bytes.length === 0) return ok(`${shown(path)} is empty.`);
      const text = textOf(bytes);
      return text === undefined ? ok(`${shown(path)} is ${kindOf(bytes)}.`) : paged(text, page);
    }),
};

/** The answer when no output is kept at the path. */
export const noOutput = (path: string): string =>
  `Expected ${outputPath} and the id that a cut result of this Task named, got ${shown(path.slice(0, 100))}.`;

const paged = (text: string, { path, offset = 1, limit = 2000, column = 1 }: z.infer<typeof input>): ToolResult => {
  const all = linesOf(text);
  if (offset > all.length)
    return failed(`Expected offset of at most ${all.length}, the number of lines in ${shown(path)}, got ${offset}.`);
  const lines: string[] = [];
  let size = 0;
  for (const line of all.slice(offset - 1, offset - 1 + limit)) {
    const from = column - 1;
    const left = line.length - from - maxLine;
    const cut =
      left > 0
        ? `${line.slice(from, from + maxLine)}… ${left} more characters, from column ${column + maxLine}`
        : line.slice(from);
    size += cut.length + 8;
    if (size > maxOutput && lines.length > 0) break;
    lines.push(cut);
  }
  const last = offset + lines.length - 1;
  const rest = last < all.length ? `\n… lines ${offset} to ${last} of ${all.length}; more: offset ${last + 1} …` : "";
  return ok(numbered(lines, offset) + rest);
};

/** Suggests what a model may have meant by a name that does not exist. */
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
