import { sizeLimits, textAt } from "../file/bounded-read.ts";
import { FileRefused } from "../file/folder.ts";

/** Picks the settings of a repository that are needed to read it. */

const keptSections = new Set(["core", "extensions"]);
const keptKeys =
  /^\s*(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol|safecrlf|objectformat|refstorage|compatobjectformat|partialclone|worktreeconfig)\s*(=|$)/i;

/** The text of the file; "" if it is not a regular file, or far too long for a config. */
const textOf = (file: string): string => {
  try {
    return textAt(file, sizeLimits.config) ?? "";
  } catch (error) {
    if (error instanceof FileRefused) return "";
    throw error;
  }
};

/**
 * The part of a git config that is needed to read the repository, without remotes with tokens, headers, helpers and
 * programs.
 */
export const plainConfig = (file: string): string => {
  const text = textOf(file);
  const lines: string[] = [];
  let kept = false;
  for (const line of text.split("\n")) {
    const section = /^\s*\[\s*([A-Za-z0-9.-]+)(?:\s*("(?:[^"\\]|\\.)*"))?\s*\]\s*$/.exec(line);
    if (section !== null || /^\s*\[/.test(line)) {
      const name = section?.[1]?.toLowerCase() ?? "";
      kept = keptSections.has(name) && section?.[2] === undefined;
      if (kept) lines.push(`[${name}]`);
    } else if (kept && keptKeys.test(line) && !line.endsWith("\\")) lines.push(line);
  }
  return `${lines.join("\n")}\n`;
};
