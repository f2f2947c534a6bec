import type { Goal } from "../../protocol/task/status.ts";
import { evidenceLines, type ShownEvidence } from "./shown.ts";

/** Writes the brief that a reviewer gets, and reads it back for reviewers without a language model. */

export type Brief = { request: string; diff: string; parts: JudgedPart[] };
/** A slice, or a check with criteria to judge. */
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
  report:
    "# What the author reports, which proves nothing; what it decided where the request left it open is yours to judge",
  rounds: "# Earlier rounds of this review, and what the author answered",
  conflicts: "# Where this change and the project's met, and both sides of it",
  landed: "# What was accepted before, and must still hold where later words do not change it",
  phase: "# The phase of the Mission's plan that this delivers",
  part: "# Part ",
  evidence: "Evidence that the service recorded:",
  before: "Seen before the last change, a line each:",
  files: "# The changed files",
  diff: "# The diff",
};

/** The material of a review. Texts are inserted unchanged: the caller marks them as foreign. */
export type BriefTexts = {
  request: string;
  /** Messages of people and of the Mission after the request, and answers to questions. */
  later: readonly string[];
  rounds: readonly { findings: string; answer: string }[];
  /** The author's own report of its work; "": there is none. */
  report?: string;
  /** Both sides of each conflict with the project that was resolved since the last review, newest first. */
  conflicts?: readonly string[];
  /** What an earlier landing or acceptance of the same Task contains, one item each, and what the diff is of. */
  landed?: { items: readonly string[]; diff: string } | null;
  phase?: { title: string; objective: string; acceptance: readonly string[] } | null;
  /** Every changed file on one line; absent if the diff shows them all. */
  files?: string;
  diff: string;
  /** The file with the project's conventions, which the author was told to follow; "": there is none. */
  guide?: string;
  /**
   * In how many turns the reviewer may look at the committed tree before it judges; 0 (default): it has only the brief.
   */
  looks?: number;
};

/** A slice, or a check with criteria to judge. `criterion`: used if there is no acceptance; by default the request. */
export type Part = {
  contract: Pick<Goal["contract"], "title" | "objective" | "acceptance">;
  criterion?: string;
  evidence: readonly ShownEvidence[];
};

/** Writes the brief. */
export const briefOf = (
  goals: readonly Part[],
  {
    request,
    later,
    rounds,
    report = "",
    conflicts = [],
    landed = null,
    phase = null,
    files = "",
    diff,
    guide = "",
    looks = 0,
  }: BriefTexts,
): string => {
  const said = new Set<string>();
  return [
    headings.request,
    request,
    ...(later.length === 0 ? [] : [headings.later, ...later]),
    ...(landed === null ? [] : [[headings.landed, ...landed.items.map((item) => `- ${item}`), landed.diff].join("\n")]),
    ...(phase === null ? [] : [phaseOf(phase)]),
    ...goals.map((goal, index) => partOf(goal, index, said)),
    ...(report === "" ? [] : [headings.report, report]),
    ...(rounds.length === 0
      ? []
      : [
          headings.rounds,
          ...rounds.flatMap(({ findings, answer }) => (answer === "" ? [findings] : [findings, answer])),
        ]),
    ...(conflicts.length === 0 ? [] : [headings.conflicts, conflictWords, ...conflicts]),
    ...(files === "" ? [] : [headings.files, files]),
    headings.diff,
    diff,
    [
      ...(looks === 0
        ? []
        : [
            `What the diff cannot tell, such as callers outside of it, is in the tree that will land: \`read\`, \`list\`, \`search\` and \`git\` show it, in ${looks} turns at most, several calls in one.${guide === "" ? "" : ` The author was told to follow the conventions in \`${guide}\`.`}`,
          ]),
      goals.length === 1
        ? "Judge it with one call of `verdict`."
        : `Judge each part, 1 to ${goals.length}, in one call of \`verdict\`.`,
    ].join(" "),
  ].join("\n\n");
};

const conflictWords =
  "While the author worked, the project changed the same places, so that the change could not land; the author has made one version of both since. Look at each place in the tree that will land: what the project changed there has to hold still, and so has what was asked for of this change. " +
  "The diff below is against the project as it is now: what was dropped of the project's side is a removed line in it, and what was dropped of this Task's side is in no line of it. Where either was lost without a reason, reject it and name the place.";

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
  { contract: { title, objective, acceptance }, criterion = "the request itself", evidence }: Part,
  index: number,
  said: Set<string>,
): string => {
  const { now, before } = evidenceLines(evidence, said);
  return [
    `${headings.part}${index + 1}: ${title}`,
    ...(objective === "" ? [] : [objective]),
    ...(acceptance.length === 0 ? [`Its criterion is ${criterion}.`] : acceptance.map((one) => `- ${one}`)),
    headings.evidence,
    ...(now.length === 0 ? ["- none"] : now),
    ...(before.length === 0 ? [] : [headings.before, ...before]),
  ].join("\n");
};

/** Reads a brief back. A text that is not a brief has no parts. */
export const readBrief = (text: string): Brief => {
  const from = text.indexOf(`\n\n${headings.part}`);
  const starts = [headings.phase, headings.landed].map((heading) => text.lastIndexOf(`\n\n${heading}\n`, from));
  // No line of a diff or of the list of files can look like a heading; the words of people and authors can.
  const diff = text.lastIndexOf(`\n\n${headings.diff}\n\n`);
  const ends = [headings.report, headings.rounds, headings.conflicts, headings.files].map((heading) =>
    text.indexOf(`\n\n${heading}\n\n`, from),
  );
  if (!text.startsWith(headings.request) || from < 0 || diff < from) return { request: "", diff: "", parts: [] };
  const to = Math.min(diff, ...ends.filter((end) => end >= 0));
  const items = (lines: readonly string[]) => lines.flatMap((line) => (line.startsWith("- ") ? [line.slice(2)] : []));
  return {
    request: text.slice(headings.request.length, Math.min(from, ...starts.filter((start) => start >= 0))).trim(),
    diff: text.slice(diff + headings.diff.length + 4, text.lastIndexOf("\n\n")),
    parts: text
      .slice(from, to)
      .split(`\n\n${headings.part}`)
      .slice(1)
      .map((part) => {
        const lines = part.split("\n");
        const middle = lines.lastIndexOf(headings.evidence);
        const before = lines.indexOf(headings.before, middle);
        return {
          part: Number(lines[0]?.split(":")[0]),
          acceptance: items(lines.slice(1, middle)),
          evidence: items(lines.slice(middle + 1, before < 0 ? undefined : before)).filter((line) => line !== "none"),
        };
      }),
  };
};
