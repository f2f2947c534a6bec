import { failingLine } from "../../protocol/task/failing-line.ts";

/**
 * Selects the lines of an output that tell how a command went: for a failure the first line that looks like an error
 * and what follows it, the line in which a test runner counts, and the end.
 */

/** How many characters and lines are examined: at the beginning, where causes are, and at the end. */
const headRead = 128 * 1024;
const tailRead = 64 * 1024;
const headLines = 6000;
const tailLines = 2000;

const longestLine = 240;
const longest = 1200;

/** The most lines of the end alone, of the end beside other lines, after the first error, and of counts. */
const mostOfEnd = 4;
const fewOfEnd = 2;
const mostOfError = 4;
const mostCounts = 6;

/** Lines in which runners count: vitest and jest, node:test, mocha, pytest, go, cargo, rspec, unittest. */
const counts = [
  /^\s*(Test Files|Tests|Test Suites):?\s+(no tests|\d)/,
  /^(#|ℹ) ((tests|pass|fail) \d+|(skipped|todo) [1-9]\d*)$/,
  /^\s+\d+ (passing|failing|pending)\b/,
  /^(=+ )?\d+ (passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?)\b.* in \d[\d.]*s/,
  /^(=+ )?no tests ran in /,
  /^(ok|FAIL|---)\s+\S+\s+(\(?\d[\d.]*s\)?|\(cached\)|\[.*\])/,
  /^test result: /,
  /^\d+ examples?, \d+ failures?/,
  /^(Ran \d+ tests? in |FAILED \((failures|errors)=)/,
];

/** Matches counts of failures, which take precedence over other counts. */
const countsFailure = /[1-9]\d* (failed|failing|failures?|errors?)\b|^(# |ℹ )fail [1-9]|FAIL/;

/** Whether a line is a row of a table, such as a coverage report, which says nothing about the result. */
const isTable = (line: string): boolean =>
  /^[^|]*(\|[^|]*){3,}$/.test(line) || /^\s*(-+\|)+-*\s*$/.test(line) || /% coverage report from/i.test(line);

/** `red`: the command did not exit with 0. `suspect`: also search for an error because the exit code says little. */
export const tellingLines = (output: string, { red, suspect = red }: { red: boolean; suspect?: boolean }): string => {
  const whole = output.length <= headRead + tailRead;
  const text = whole ? output : `${output.slice(0, headRead)}\n${output.slice(-tailRead)}`;
  const all = text.split("\n").flatMap((line) => (line.trim() === "" ? [] : [line.slice(0, 4 * longestLine)]));
  const few = all.length <= headLines + tailLines;
  const lines = few ? all : [...all.slice(0, headLines), ...all.slice(-tailLines)];
  const counting = lines.flatMap((line, at) => (counts.some((one) => one.test(line)) ? [at] : []));
  const failures = counting.filter((at) => countsFailure.test(lines[at] ?? "")).slice(-mostCounts);
  const others = counting.filter((at) => !failures.includes(at)).slice(failures.length - mostCounts);
  const error = suspect ? failingLine(lines, red) : -1;
  const cause = error < 0 ? [] : Array.from({ length: mostOfError }, (_, after) => error + after);
  // By weight: the first ones get the room.
  const chosen = new Set([...failures, ...(failures.length < mostCounts ? others : []), ...cause]);
  const said = lines.flatMap((line, at) => (isTable(line) ? [] : [at]));
  for (const at of said.slice(chosen.size === 0 ? -mostOfEnd : -fewOfEnd).toReversed()) chosen.add(at);
  return fitted(lines, [...chosen]);
};

/** The lines of a text in which a test runner counts, joined into one. */
export const countsIn = (text: string): string =>
  text
    .split("\n")
    .flatMap((line) => (counts.some((one) => one.test(line)) ? [line.trim().replaceAll(/\s+/g, " ")] : []))
    .join(", ");

/** Cuts a text to whole words, at most `most` characters. */
export const cutWords = (text: string, most: number): string => {
  if (text.length <= most) return text;
  const end = text.lastIndexOf(" ", most - 1);
  return `${text.slice(0, end > most / 2 ? end : most - 1).trimEnd()}…`;
};

/** The lines at these indexes, with a mark where others are left out. */
const fitted = (lines: readonly string[], byWeight: readonly number[]): string => {
  let room = longest;
  const shown = byWeight
    .flatMap((at) => {
      const text = cutWords((lines[at] ?? "").trimEnd(), longestLine);
      room -= text.length + 3;
      return room < 0 || at >= lines.length ? [] : [{ at, text }];
    })
    .toSorted((a, b) => a.at - b.at);
  return shown
    .flatMap(({ at, text }, index) => {
      const before = shown[index - 1];
      return before !== undefined && at > before.at + 1 ? ["…", text] : [text];
    })
    .join("\n");
};
