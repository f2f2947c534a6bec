import { createTwoFilesPatch } from "diff";
import { z } from "zod";
import { linesOf, nearest, numbered, textOf } from "./text.ts";
import { answer, counted, failed, fit, ok, shown, type Tool } from "./tool.ts";

const input = z
  .strictObject({
    path: z.string().min(1).describe("File, relative to the project's root"),
    old: z.string().min(1).describe("The exact text to replace, white space included"),
    new: z.string().describe("The text in its place"),
    all: z.boolean().optional().describe("Replace every match; default false: there must be exactly one"),
  })
  .refine((edit) => edit.old !== edit.new, { error: "Expected `new` to differ from `old`", path: ["new"] });

const maxBytes = 16 * 1024 * 1024;

export const edit: Tool<z.infer<typeof input>> = {
  name: "edit",
  description:
    "Replaces an exact text in one file. `old` must stand in the file exactly once: give enough lines around it, or set `all` to replace every match. " +
    "Do not put the line numbers of `read` into `old`. Returns the change as a unified diff; when `old` is not found, the nearest lines and nothing is changed.",
  input,
  effect: "workspace",
  run: (change, { workspace, signal }) =>
    answer(signal, async () => {
      const { path, all = false } = change;
      const { bytes } = await workspace.files.read(path, maxBytes);
      const before = textOf(bytes);
      if (before === undefined)
        return failed(`Expected a text file at ${shown(path)}, got a binary file of ${counted(bytes.length, "byte")}.`);

      const { old, fresh } = withLineEndings(before, change.old, change.new);
      const starts = startsOf(before, old);
      if (starts.length === 0) return failed(miss(path, before, old));
      if (starts.length > 1 && !all)
        return failed(
          `Expected exactly one match in ${shown(path)}, got ${starts.length}, at lines ${starts
            .slice(0, 20)
            .map((start) => lineAt(before, start))
            .join(", ")}. Give more lines around the one you mean, or set \`all\`.`,
        );
      const after = before.split(old).join(fresh);
      await workspace.files.write(path, after);
      const summary = `Replaced ${counted(starts.length, "match").replace("matchs", "matches")} in ${shown(path)}.`;
      // Beyond this many differences a diff would cost more time than it tells.
      const patch = createTwoFilesPatch(`a/${path}`, `b/${path}`, before, after, "", "", {
        context: 3,
        maxEditLength: 2000,
        timeout: 500,
      });
      const body = patch?.split("\n").slice(1).join("\n");
      return ok(body === undefined ? summary : fit(`${summary}\n${body}`, "read the file to see the rest", 8000));
    }),
};

/** A file with CRLF is edited with CRLF, whatever the model wrote. */
const withLineEndings = (text: string, old: string, fresh: string): { old: string; fresh: string } => {
  if (text.includes(old) || !text.includes("\r\n")) return { old, fresh };
  const windows = (part: string) => part.replaceAll(/\r?\n/g, "\r\n");
  return text.includes(windows(old)) ? { old: windows(old), fresh: windows(fresh) } : { old, fresh };
};

const startsOf = (text: string, part: string): number[] => {
  const starts: number[] = [];
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + part.length)) starts.push(at);
  return starts;
};

const lineAt = (text: string, at: number): number => linesOf(`${text.slice(0, at)}.`).length;

const miss = (path: string, text: string, old: string): string => {
  const near = nearest(text, old);
  const none = `Expected the text in ${shown(path)}, got no match; nothing was changed.`;
  if (near === undefined) return `${none} Nothing in the file is like it: read the file.`;
  const why = near.spacing ? "They differ in white space only." : "Copy the text from there.";
  return fit(`${none} The nearest lines:\n${numbered(near.lines, near.first)}\n${why}`, "read the file", 6000);
};
