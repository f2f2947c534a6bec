import type { Goal } from "../../protocol/task/status.ts";

/** The text that a reviewer gets, and how reviewers without a language model read it back. */

export type Brief = { request: string; diff: string; parts: JudgedPart[] };
/** A slice, or a check that is judged. */
export type JudgedPart = {
  /** Its number in the verdict: random ids would cost tokens and make every request unique. */
  part: number;
  acceptance: string[];
  /** Evidence that still applies to the present files. */
  evidence: string[];
};

const headings = {
  request: "# What was asked for",
  later: "# What was said later, in order; later words win over earlier ones",
  rounds: "# Earlier rounds of this review, and what the author answered",
  phase: "# The phase of the Mission's plan that this delivers",
  part: "# Part ",
  evidence: "Evidence that the service recorded:",
  files: "# The changed files",
  diff: "# The diff",
};
const old = " (on another tree)";

/** What a review is about; texts are inserted unchanged: the caller marks them as foreign. */
export type BriefTexts = {
  request: string;
  /** Messages of people and of the Mission after the request, and answers to questions. */
  later: readonly string[];
  rounds: readonly { findings: string; answer: string }[];
  phase?: { title: string; objective: string; acceptance: readonly string[] } | null;
  /** Every changed file in a line; absent where the diff says it all. */
  files?: string;
  diff: string;
  /** How often the reviewer may look at the committed tree before it judges; by default it has the brief alone. */
  looks?: number;
};

/** Writes the brief. */
export const briefOf = (
  goals: readonly Pick<Goal, "contract" | "evidence">[],
  { request, later, rounds, phase = null, files = "", diff, looks = 0 }: BriefTexts,
): string =>
  [
    headings.request,
    request,
    ...(later.length === 0 ? [] : [headings.later, ...later]),
    ...(phase === null ? [] : [phaseOf(phase)]),
    ...goals.map(partOf),
    ...(rounds.length === 0 ? [] : [headings.rounds, ...rounds.flatMap(({ findings, answer }) => [findings, answer])]),
    ...(files === "" ? [] : [headings.files, files]),
    headings.diff,
    diff,
    [
      ...(looks === 0
        ? []
        : [
            `What the diff cannot tell, such as callers outside of it, is in the tree that will land: \`read\`, \`list\`, \`search\` and \`git\` show it, in ${looks} turns at most, several calls in one.`,
          ]),
      goals.length === 1
        ? "Judge it with one call of `verdict`."
        : `Judge each part, 1 to ${goals.length}, in one call of \`verdict\`.`,
    ].join(" "),
  ].join("\n\n");

const phaseOf = ({ title, objective, acceptance }: NonNullable<BriefTexts["phase"]>): string =>
  [
    headings.phase,
    `${title}: ${objective}`,
    ...(acceptance.length === 0
      ? []
      : [
          "Each of these is a criterion of its own for the whole result, whatever the parts below say:",
          ...acceptance.map((one) => `- ${one}`),
        ]),
  ].join("\n");

const partOf = (
  { contract: { title, objective, acceptance }, evidence }: Pick<Goal, "contract" | "evidence">,
  index: number,
): string =>
  [
    `${headings.part}${index + 1}: ${title}`,
    ...(objective === "" ? [] : [objective]),
    ...(acceptance.length === 0 ? ["Its criterion is the request itself."] : acceptance.map((one) => `- ${one}`)),
    headings.evidence,
    ...(evidence.length === 0 ? ["- none"] : []),
    ...evidence.flatMap(({ kind, summary, lastLines, contrast, stale }) => [
      `- ${kind}: ${summary}${stale ? old : ""}`,
      ...saidLines(lastLines ?? ""),
      ...saidLines(
        contrast?.result === "proves" ? `on the base: ${contrast.firstLines}` : (contrast?.firstLines ?? ""),
      ),
    ]),
  ].join("\n");

/** What was printed, marked as such, so that no line of it looks like evidence. */
const saidLines = (text: string): string[] => (text === "" ? [] : text.split("\n").map((line) => `  | ${line}`));

/** Reads a brief back. A text that is not a brief has no parts. */
export const readBrief = (text: string): Brief => {
  const from = text.indexOf(`\n\n${headings.part}`);
  const phase = text.lastIndexOf(`\n\n${headings.phase}\n`, from);
  // No line of a diff, and none of the list of files, looks like a heading; what people and authors said may.
  const diff = text.lastIndexOf(`\n\n${headings.diff}\n\n`);
  const ends = [headings.rounds, headings.files].map((heading) => text.indexOf(`\n\n${heading}\n\n`, from));
  if (!text.startsWith(headings.request) || from < 0 || diff < from) return { request: "", diff: "", parts: [] };
  const to = Math.min(diff, ...ends.filter((end) => end >= 0));
  const items = (lines: readonly string[]) => lines.flatMap((line) => (line.startsWith("- ") ? [line.slice(2)] : []));
  return {
    request: text.slice(headings.request.length, phase < 0 ? from : phase).trim(),
    diff: text.slice(diff + headings.diff.length + 4, text.lastIndexOf("\n\n")),
    parts: text
      .slice(from, to)
      .split(`\n\n${headings.part}`)
      .slice(1)
      .map((part) => {
        const lines = part.split("\n");
        const middle = lines.lastIndexOf(headings.evidence);
        return {
          part: Number(lines[0]?.split(":")[0]),
          acceptance: items(lines.slice(1, middle)),
          evidence: items(lines.slice(middle + 1)).filter((line) => line !== "none" && !line.endsWith(old)),
        };
      }),
  };
};
