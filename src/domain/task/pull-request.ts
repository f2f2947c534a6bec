import type { CheckState } from "../../protocol/task/status.ts";

/** What a pull request says of a Task's change, in the Markdown that forges have in common. */

export type Told = {
  taskID: string;
  report: string;
  checks: readonly CheckState[];
  /** In words; null: no tests ran on the base. */
  contrast: string | null;
  /** Address of the service's page; undefined: there is no link. */
  page: string | undefined;
};

/** Characters of the report: forges take 65,536 of the whole. */
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
 * Words of an agent call nobody and order nothing: names behind an at sign notify people, and a line that begins with a
 * slash is a command to GitLab. An invisible space behind or before the sign leaves the words as they read. Code stays.
 */
export const inert = (text: string): string =>
  text.replaceAll(
    /(```[\s\S]*?(?:```|$)|~~~[\s\S]*?(?:~~~|$)|`[^`\n]*`)|(?<![\w/])@(?=\w)|^([ \t>]*)\/(?=\w)/gm,
    (found: string, code: string | undefined, before: string | undefined) =>
      code !== undefined ? code : before !== undefined ? `${before}${space}/` : `${found}${space}`,
  );

const space = "\u200b";

/** One line of code in a table. */
const cell = (text: string): string => {
  const line = text.replaceAll(/\s+/g, " ").replaceAll("`", "'").replaceAll("|", "\\|").trim();
  return `\`${line.length <= 200 ? line : `${line.slice(0, 200)}…`}\``;
};
