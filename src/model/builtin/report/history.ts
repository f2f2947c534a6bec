import { counts, type Listed, order, plain, table } from "./markdown.ts";
import { type Asking, counted, linesOf } from "../step.ts";
import { shellQuote } from "../../../shell-quote.ts";
import { isDate } from "../grammar/argument.ts";

/** `summarise git log since X` and `changelog since X`: the commits after a commit, or from the start of a day. */

type Commit = {
  id: string;
  date: string;
  author: string;
  kind: string;
  scope: string;
  breaking: boolean;
  text: string;
  subject: string;
};

function* commitsSince(since: string): Asking<{ commits: Commit[]; whole: boolean } | { why: string }> {
  const range = isDate(since) ? `--since=${shellQuote(`${since}T00:00:00Z`)} HEAD` : shellQuote(`${since}..HEAD`);
  const known = isDate(since)
    ? ""
    : `git rev-parse -q --verify ${shellQuote(`${since}^{commit}`)} >/dev/null || { echo "error: no commit is named ${since} in this repository"; exit 3; }\n`;
  const read = yield* linesOf(
    `${known}git --no-pager log --no-color --no-show-signature --no-merges --date=short-local --format='%h%x09%cd%x09%an%x09%s' ${range} --`,
  );
  if ("why" in read) return { why: read.why.replace(/^exit 3 after [\d.]+ s \(error: (.*)\)$/, "$1") };
  const commits = read.lines.flatMap((line): Commit[] => {
    const [, id = "", date = "", author = "", subject = ""] =
      /^([0-9a-f]+)\t([\d-]+)\t([^\t]*)\t(.*)$/.exec(line) ?? [];
    if (id === "") return [];
    const typed = /^([A-Za-z]+)(?:\(([^()]*)\))?(!)?:\s+(\S.*)$/.exec(subject);
    const kind = (typed?.[1] ?? "").toLowerCase();
    const known_ = typed !== null && Object.hasOwn(headings, kind);
    return [
      {
        id,
        date,
        author,
        subject,
        kind: known_ ? kind : "",
        scope: known_ ? (typed[2] ?? "") : "",
        breaking: known_ && typed[3] === "!",
        text: known_ ? (typed[4] ?? subject) : subject,
      },
    ];
  });
  return { commits, whole: read.whole };
}

const headings: Record<string, string> = {
  feat: "Features",
  fix: "Fixes",
  perf: "Performance",
  revert: "Reverted",
  refactor: "Refactoring",
  docs: "Documentation",
  test: "Tests",
  build: "Build",
  ci: "Continuous integration",
  style: "Style",
  chore: "Chores",
  "": "Other changes",
};

const more = (whole: boolean) => (whole ? [] : ["", "There are more than could be read; these are the newest."]);

export function* history(since: string): Asking<Listed | { why: string }> {
  const found = yield* commitsSince(since);
  if ("why" in found) return found;
  const { commits, whole } = found;
  const people = counts(commits.map(({ author }) => author));
  const days = commits.map(({ date }) => date).toSorted(order);
  const summary =
    commits.length === 0
      ? `No commit since ${plain(since)} (merges are left out).`
      : `${counted(commits.length, "commit")} since ${plain(since)} by ${people.length === 1 ? "1 person" : `${people.length} people`}, ${days[0]} to ${days.at(-1)} (UTC, merges left out).`;
  const lines = [`# Git log since ${plain(since)}`, "", summary, ...more(whole)];
  if (commits.length > 0)
    lines.push(
      "",
      ...table(
        ["Author", "Commits"],
        people.map(([name, count]) => [plain(name), String(count)]),
      ),
      "",
      ...table(
        ["Commit", "Date", "Author", "Subject"],
        commits.map(({ id, date, author, subject }) => [id, date, plain(author), plain(subject)]),
      ),
    );
  return { lines, summary };
}

export function* changelog(since: string): Asking<Listed | { why: string }> {
  const found = yield* commitsSince(since);
  if ("why" in found) return found;
  const { commits, whole } = found;
  const summary = `${commits.length === 0 ? "No commit" : counted(commits.length, "commit")} since ${plain(since)} (merges are left out).`;
  const lines = [`# Changes since ${plain(since)}`, "", summary, ...more(whole)];
  const section = (heading: string, some: readonly Commit[]) => {
    if (some.length === 0) return;
    lines.push("", `## ${heading}`, "");
    for (const { id, scope, text } of some)
      lines.push(`- ${scope === "" ? "" : `**${plain(scope)}:** `}${plain(text)} (${id})`);
  };
  section(
    "Breaking changes",
    commits.filter(({ breaking }) => breaking),
  );
  const typed = commits.some(({ kind }) => kind !== "");
  for (const [kind, heading] of Object.entries(headings))
    section(
      typed ? heading : "Changes",
      commits.filter((commit) => commit.kind === kind && !commit.breaking),
    );
  return { lines, summary };
}
