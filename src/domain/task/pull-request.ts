import type { CheckState } from "../../protocol/task/status.ts";

/** Describes a Task's change for its pull request, in the Markdown that all forges share. */

export type Told = {
  taskID: string;
  report: string;
  checks: readonly CheckState[];
  /** The proof by contrast in words; null: no tests ran on the base. */
  contrast: string | null;
  /** The address of the service's page; undefined: no link is written. */
  page: string | undefined;
};

/** In characters. Forges accept 65,536 for the whole text. */
const longestReport = 20_000;
const mostChecks = 100;

export const pullRequestBody = ({ taskID, report, checks, contrast, page }: Told): string => {
  const text = report.trim();
  const shown = text.length <= longestReport ? text : `${text.slice(0, longestReport)}\n\n…`;
  const rows = checks.slice(0, mostChecks).map(({ name, state, baseline, stale }) => {
    const before = baseline === null ? "" : ` (before: ${baseline.state})`;
    return `| ${cell(name)} | ${stale ? "of an earlier tree" : state}${before} |`;
  });
  const more = checks.length - rows.length;
  return [
    shown === "" ? "" : inert(shown),
    rows.length === 0 ? "" : ["### Checks", "", "| Check | Result |", "|---|---|", ...rows].join("\n"),
    more > 0 ? `And ${more} more.` : "",
    contrast === null ? "" : `Proof by contrast: ${inert(contrast)}.`,
    page === undefined
      ? `Task: ${taskID}`
      : `Task: [${taskID}](${page}/ui/task/${taskID}), [checks and evidence](${page}/ui/task/${taskID}?tab=checks)`,
  ]
    .filter((part) => part !== "")
    .join("\n\n");
};

/**
 * Makes an agent's text inert on a forge: a name behind an at sign would notify people, and a line that begins with a
 * slash is a command to GitLab. An invisible space behind the at sign or before the slash prevents both and leaves the
 * text readable. Code stays as it is.
 */
export const inert = (text: string): string =>
  text.replaceAll(
    /(```[\s\S]*?(?:```|$)|~~~[\s\S]*?(?:~~~|$)|`[^`\n]*`)|(?<![\w/])@(?=\w)|^([ \t>]*)\/(?=\w)/gm,
    (found: string, code: string | undefined, before: string | undefined) =>
      code !== undefined ? code : before !== undefined ? `${before}${space}/` : `${found}${space}`,
  );

const space = "\u200b";

/** A table cell: one line of code, at most 200 characters. */
const cell = (text: string): string => {
  const line = text.replaceAll(/\s+/g, " ").replaceAll("`", "'").replaceAll("|", "\\|").trim();
  return `\`${line.length <= 200 ? line : `${line.slice(0, 200)}…`}\``;
};
