import { git } from "../../tool/command/git.ts";
import { gitHistory } from "../../tool/command/git-history.ts";
import { list } from "../../tool/file/list.ts";
import { read } from "../../tool/file/read.ts";
import { search } from "../../tool/file/search.ts";
import { failed } from "../../tool/result.ts";
import type { Tool } from "../../tool/tool.ts";

/** The tools by which the Mission's agent looks at the project at its head. They write nothing. */

const gitOfHead: typeof gitHistory = {
  ...gitHistory,
  description: "Git there, to read: `log`, `diff` of a commit or range, `show` a commit.",
  async run(call, context) {
    if (call.action === "diff" && call.revision === undefined)
      return failed(
        "Expected a commit or range in `revision`: these files are those of HEAD, and nobody changes them.",
      );
    return git.run(call, context);
  },
};

/** Parameters as models read them; an argument whose name says enough has no description. */
const told = (properties: Record<string, object>, ...required: string[]) => ({
  type: "object",
  properties,
  ...(required.length === 0 ? {} : { required }),
});
const text = (description?: string) => ({ type: "string", ...(description === undefined ? {} : { description }) });
const number = { type: "integer" };

/**
 * The same tools as a Task's, described in fewer words because these descriptions are sent with every request of a
 * Mission. They accept every argument that a Task's accept.
 */
export const lookTools = [
  {
    ...list,
    description: "Lists a folder of the project, as committed at its head; from `offset` on.",
    parameters: told({ path: text("Default: the root"), depth: number, offset: number }),
  },
  {
    ...read,
    description: "Reads a text file there, or the rest of a cut result, with line numbers.",
    parameters: told(
      { path: text("File, or `output:…` as a cut result named it"), offset: number, limit: number },
      "path",
    ),
  },
  {
    ...search,
    description: "Searches file contents there with ripgrep.",
    parameters: told(
      {
        pattern: text("Regular expression; `(?i)` in front ignores case"),
        path: text("File, folder or `output:…`; default: all"),
        glob: text(),
        literal: { type: "boolean" },
        mode: { type: "string", enum: ["lines", "files", "count"] },
        context: number,
        offset: number,
      },
      "pattern",
    ),
  },
  {
    ...gitOfHead,
    parameters: told(
      {
        action: { type: "string", enum: ["log", "diff", "show"] },
        revision: text(),
        paths: { type: "array", items: text() },
        stat: { type: "boolean", description: "Counts only" },
        limit: number,
      },
      "action",
    ),
  },
] as Tool[];

/** Whether a call of this tool needs the project's files. */
export const isLook = (tool: string | undefined): boolean => lookTools.some(({ name }) => name === tool);
