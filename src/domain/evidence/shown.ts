import { aboutOf as whatOf, type CheckSpec } from "../../protocol/check.ts";
import type { Goal } from "../../protocol/task/status.ts";
import { needsCode } from "../contrast/verdict.ts";
import { type CheckRun, isOfPresentFiles, type TaskState } from "../state/task.ts";
import { onBase, specsOf } from "./check.ts";
import { countsIn, cutWords } from "./output.ts";

/**
 * A slice's evidence as a reviewer reads it: the evidence on the files under review in full, and earlier evidence on
 * one line each.
 */

type Piece = Goal["evidence"][number];

/** What is known in addition to a piece of evidence. */
export type About = {
  /** For a check: its name, its last result, and its result on the base. */
  check?: {
    name: string;
    /** The command, unless the name is the command. */
    runs?: string;
    result: CheckRun;
    before: CheckRun | undefined;
  };
  /** For stale evidence: it was observed on the present files, but under an earlier contract. */
  sameFiles?: boolean;
  /** For stale evidence: files that were edited since. */
  edited?: readonly string[];
};
export type ShownEvidence = Piece & { about?: About };

/** The most characters of a command and of a reason, and the most files, on one line. */
const longestCommand = 200;
const longestReason = 160;
const mostFiles = 4;
/** The most pieces of evidence from before the last change; the oldest are left out. */
const mostOld = 8;

/** What is known about a piece of evidence. `edited`: the files that were edited after a call, as far as is known. */
export const aboutOf = (state: TaskState, { id, kind }: Piece, edited: (callID: string) => string[]): About => {
  const proof = state.evidence.findLast((one) => one.id === id);
  const result = state.results[id];
  const spec = specsOf(state).find((one) => one.id === id);
  return {
    ...(kind === "check" && result !== undefined && spec !== undefined && spec.kind !== "review"
      ? { check: { name: spec.name, ...runsOf(spec), result, before: onBase(state, id) } }
      : {}),
    sameFiles: proof !== undefined && isOfPresentFiles(state, proof),
    edited: edited(id),
  };
};

const runsOf = (spec: CheckSpec): { runs?: string } => {
  const runs = whatOf(spec)
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .join(" ⏎ ");
  return runs === spec.name ? {} : { runs: bothEnds(runs) };
};

/**
 * The items on the files under review (`now`), and those from before the last change. `said`: lines of output that are
 * in the brief already; the lines written now are added.
 */
export const evidenceLines = (
  evidence: readonly ShownEvidence[],
  said = new Set<string>(),
): { now: string[]; before: string[] } => {
  const present = evidence.filter(({ stale }) => !stale);
  // The diff already shows what an earlier commit contained.
  const old = evidence.filter(({ stale, kind }) => stale && kind !== "change");
  const left = old.length - mostOld;
  return {
    now: [...present.flatMap((piece) => (isVoid(piece) ? [] : linesOf(piece, said))), ...voidLines(present)],
    before: [...(left > 0 ? [`- ${left} more, older ones`] : []), ...old.slice(-mostOld).map(oldLine)],
  };
};

const isVoid = ({ about }: ShownEvidence): boolean => about?.check?.result.state === "error";

/** Checks that could not run, grouped by reason, which most of them share. */
const voidLines = (evidence: readonly ShownEvidence[]): string[] => {
  const groups = new Map<string, { names: string[]; line: (names: string) => string }>();
  for (const { about } of evidence) {
    if (about?.check?.result.state !== "error") continue;
    const { name, result, before } = about.check;
    const reason = cutWords(result.reason ?? "no reason is known", longestReason);
    if (result.unfinished === true) {
      groups.set(name, { names: [name], line: (names) => `- check: ${names} ${reason}` });
      continue;
    }
    const when =
      before?.state === "error" ? ", before the work neither" : before === undefined ? "" : wasBefore(before);
    const line = (names: string) => `- checks that could not run${when}: ${names}: ${reason}`;
    const key = line("");
    groups.set(key, { names: [...(groups.get(key)?.names ?? []), name], line });
  }
  return [...groups.values()].map(({ names, line }) => line(names.toSorted().join(", ")));
};

const wasBefore = ({ state }: CheckRun): string =>
  ({
    passed: ", passed before the work",
    failed: ", failed before the work",
    error: ", could not run before the work",
  })[state];

/** The lines of output of a check that also failed on the base, and so does not count. */
const fewLines = 2;

const isRedAnyway = (check: About["check"]): boolean =>
  check?.result.state === "failed" && check.before?.state === "failed";

const linesOf = ({ kind, summary, lastLines, contrast, about }: ShownEvidence, said: Set<string>): string[] => {
  if (contrast?.reason === needsCode) return ["- contrast: cannot tell: the tests need the new code"];
  const onTheBase = contrast?.result === "proves" ? `on the base: ${contrast.firstLines}` : contrast?.firstLines;
  const output = (lastLines ?? "").split("\n");
  return [
    `- ${kind}: ${summary}${about?.check === undefined ? "" : checkWords(about.check)}`,
    ...saidLines((isRedAnyway(about?.check) ? output.slice(0, fewLines) : output).join("\n"), said),
    ...saidLines(onTheBase ?? "", said),
  ];
};

const checkWords = ({ result, before, runs }: NonNullable<About["check"]>): string => {
  const was =
    before === undefined
      ? ""
      : before.state !== result.state
        ? wasBefore(before)
        : { passed: "", failed: ", before the work, too", error: ", before the work neither" }[before.state];
  const by = result.redefined ?? [];
  // If the check failed, its reason says this.
  const defined =
    by.length === 0 || result.state !== "passed" ? "" : `, also as ${by.join(", ")} had it before the work`;
  return `${was}${result.flaky === true ? ", at its second try" : ""}${defined}${runs === undefined ? "" : `, run as \`${runs}\``}`;
};

const oldLine = ({ kind, summary, lastLines, about }: ShownEvidence): string => {
  const counts = countsIn(lastLines ?? "");
  const [, command, exit] = /^`([\s\S]*)` (exit [\s\S]*)$/.exec(summary) ?? [];
  const short = command === undefined ? cutWords(summary, longestCommand) : `\`${bothEnds(command)}\` ${exit}`;
  const edited = about?.edited ?? [];
  const files = [...edited.slice(0, mostFiles), ...(edited.length > mostFiles ? ["…"] : [])].join(", ");
  const since =
    about?.sameFiles === true ? "; for an earlier contract" : edited.length === 0 ? "" : `; edited since: ${files}`;
  const check = about?.check === undefined ? "" : checkWords(about.check);
  return `- ${kind}: ${short}${check}${counts === "" ? "" : `: ${counts}`}${since}`;
};

const bothEnds = (command: string): string =>
  command.length <= longestCommand
    ? command
    : `${command.slice(0, longestCommand / 2)} … ${command.slice(-longestCommand / 2)}`;

/** Shorter lines are not replaced: repeating them costs little, and they may mean something else elsewhere. */
const shortest = 12;

/**
 * Printed output, marked so that no line of it looks like evidence. Lines already in the brief are not repeated, except
 * counts: commands that fail for the same reason mostly print the same lines.
 */
const saidLines = (text: string, said: Set<string>): string[] => {
  if (text === "") return [];
  const lines = text.split("\n").map((line) => {
    const words = line.trim();
    const isKnown = words.length >= shortest && countsIn(words) === "" && said.has(words);
    said.add(words);
    return isKnown ? asAbove : `  | ${line}`;
  });
  return lines.filter((line, at) => line !== asAbove || lines[at - 1] !== asAbove);
};

const asAbove = "  | … as above";
