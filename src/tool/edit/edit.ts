import { createTwoFilesPatch } from "diff";
import { z } from "zod";
import { find, type Reading, startsOf } from "./match.ts";
import { linesOf, nearest, numbered, textOf } from "../file/text.ts";
import { answer, counted, failed, truncateMiddle, ok, shown } from "../result.ts";
import type { Tool } from "../tool.ts";

const one = z
  .strictObject({
    old: z.string().min(1).describe("As it stands in the file, without line numbers"),
    new: z.string(),
    all: z.boolean().optional().describe("Every match; else there must be exactly one"),
  })
  .refine((edit) => edit.old !== edit.new, { error: "Expected `new` to differ from `old`", path: ["new"] });

const input = z.strictObject({
  path: z.string().min(1),
  edits: z.array(one).min(1).max(100).describe("Applied in order"),
});

type One = z.infer<typeof one>;

const maxBytes = 16 * 1024 * 1024;

export const edit: Tool<z.infer<typeof input>> = {
  name: "edit",
  description:
    "Replaces texts in one file, all of them or none. `old` must stand there once: give enough lines around it. White space at line ends and a block's indentation " +
    "may differ. Returns the change as a diff; when an `old` is not found, the nearest lines.",
  input,
  effect: "workspace",
  run: ({ path, edits }, { workspace, signal }) =>
    answer(signal, async () => {
      const { bytes } = await workspace.files.read(path, maxBytes);
      const before = textOf(bytes);
      if (before === undefined)
        return failed(`Expected a text file at ${shown(path)}, got a binary file of ${counted(bytes.length, "byte")}.`);

      let after = before;
      let matches = 0;
      const notes: string[] = [];
      for (const [index, change] of edits.entries()) {
        const which = edits.length === 1 ? "" : `Edit ${index + 1} of ${edits.length}: `;
        const made = replaceIn(after, change);
        if ("why" in made) return failed(`${which}${made.why(shown(path))}`);
        after = made.text;
        matches += made.count;
        if (made.reading !== "exact") notes.push(`${which}${readings[made.reading]}`);
      }
      if (after === before) return failed(`The edits undo each other: ${shown(path)} would stay as it is.`);
      await workspace.files.write(path, after);
      const many = matches === 1 ? "1 match" : `${matches} matches`;
      const summary = [`Replaced ${many} in ${shown(path)}.`, ...notes].join("\n");
      const body = diffOf(path, before, after);
      return ok(
        body === undefined ? summary : truncateMiddle(`${summary}\n${body}`, "read the file to see the rest", 8000),
      );
    }),
};

const readings: Record<Exclude<Reading, "exact">, string> = {
  "line ends": "Your `old` differed in white space at line ends; lines you did not change keep theirs.",
  indentation: "Your `old` was indented otherwise; what you added was indented like the lines around it.",
};

/** undefined when there are too many differences for a useful diff in reasonable time. */
const diffOf = (path: string, before: string, after: string): string | undefined =>
  createTwoFilesPatch(`a/${path}`, `b/${path}`, before, after, "", "", {
    context: 3,
    maxEditLength: 2000,
    timeout: 500,
  })
    ?.split("\n")
    .slice(1)
    .join("\n");

type Made = { text: string; count: number; reading: Reading } | { why: (path: string) => string };

/** A byte order mark stays first. Pure. */
export const replaceIn = (text: string, change: One): Made => {
  if (!text.startsWith("\uFEFF") || change.old.startsWith("\uFEFF")) return replace(text, change);
  const made = replace(text.slice(1), change);
  return "why" in made ? made : { ...made, text: `\uFEFF${made.text}` };
};

const replace = (text: string, { old, new: fresh, all = false }: One): Made => {
  const { reading, places } = find(text, old, fresh, { apart: all });
  if (places.length === 0 && old.endsWith("\n") && text !== "" && !text.endsWith("\n")) {
    // The last line of the file has no line end, and must not get one.
    const made = replace(`${text}\n`, { old, new: fresh, all });
    if (!("why" in made)) return { ...made, text: made.text.replace(/\r?\n$/, "") };
  }
  if (places.length === 0) return { why: (path) => miss(path, text, old, fresh) };
  if (places.length > 1 && (!all || reading === "indentation"))
    return {
      why: (path) =>
        `Expected exactly one match in ${path}, got ${places.length}, at lines ${places
          .slice(0, 20)
          .map(({ line }) => line)
          .join(", ")}${places.length > 20 ? ", …" : ""}. Give more lines around the one you mean${
          reading === "indentation" ? " as the file has them" : ", or set `all`"
        }; nothing was changed.`,
    };
  const parts: string[] = [];
  let at = 0;
  for (const place of places) {
    parts.push(text.slice(at, place.from), place.fresh);
    at = place.to;
  }
  return { text: parts.join("") + text.slice(at), count: places.length, reading };
};

const miss = (path: string, text: string, old: string, fresh: string): string => {
  const none = `Expected the text in ${path}, got no match; nothing was changed.`;
  const there = fresh.trim().length < 3 ? undefined : startsOf(text, fresh)[0];
  const done =
    there === undefined ? "" : ` The new text is there already, at line ${text.slice(0, there).split("\n").length}.`;
  const near = nearest(text, old);
  if (near === undefined) return `${none}${done} Nothing in the file is like it: read the file.`;
  const why = near.spacing ? "They differ in white space only." : "Copy the text from there.";
  const lines = numbered(near.lines.slice(0, linesOf(old).length), near.first);
  return truncateMiddle(`${none}${done} The nearest lines:\n${lines}\n${why}`, "read the file", 6000);
};
