import { git } from "../../tool/command/git.ts";
import { gitHistory } from "../../tool/command/git-history.ts";
import { list } from "../../tool/file/list.ts";
import { read } from "../../tool/file/read.ts";
import { search } from "../../tool/file/search.ts";
import { failed } from "../../tool/result.ts";
import type { Tool } from "../../tool/tool.ts";

/** The tools by which the Mission's agent looks at the project as its head has it. It writes nothing. */

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

/** The same tools as a Task's in fewer words: these are read with every request of a Mission. */
export const lookTools = [
  { ...list, description: "Lists a folder of the project, as committed at its head." },
  { ...read, description: "Reads a text file there, or the rest of a cut result, with line numbers." },
  { ...search, description: "Searches file contents there with ripgrep." },
  gitOfHead,
] as Tool[];

/** Whether a call of this tool needs the project's files. */
export const isLook = (tool: string | undefined): boolean => lookTools.some(({ name }) => name === tool);
