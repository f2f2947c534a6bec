import { relative } from "node:path";
import { truncateMiddle } from "../../tool/result.ts";
import type { Files } from "../../workspace/file/files.ts";

/**
 * Finds the project's conventions for agents: the nearest `AGENTS.md` (otherwise `CLAUDE.md`), searched from the
 * project's root up to the repository's top.
 */

const names = ["AGENTS.md", "CLAUDE.md"];
const maxBytes = 1024 * 1024;
const maxChars = 16 * 1024;

/**
 * `top`: files of the repository, which `root` is or lies in. Resolves to undefined when there is no such file or only
 * empty ones.
 */
export const readGuide = async (root: Files, top: Files): Promise<{ path: string; text: string } | undefined> => {
  const prefix = relative(top.root, root.root);
  const parts = prefix === "" || prefix.startsWith("..") ? [] : prefix.split("/");
  for (const name of names)
    for (let depth = parts.length; depth >= 0; depth--) {
      const above = parts.length - depth;
      const read = await (above === 0
        ? root.read(name, maxBytes)
        : top.read([...parts.slice(0, depth), name].join("/"), maxBytes)
      ).catch(() => undefined);
      const text = read?.bytes.toString("utf8").trim() ?? "";
      if (text === "") continue;
      const path = `${"../".repeat(above)}${name}`;
      return {
        path,
        text: truncateMiddle(
          text,
          above === 0 ? `read ${path} for them` : `they stand in ${path}, above your folder`,
          maxChars,
        ),
      };
    }
  return undefined;
};
