import { needsNewCode, type Report, type TestResult } from "./report.ts";

/**
 * Proof by contrast: the results of the tests that a Task added or changed, on the base and with the change. A test
 * that fails on the base and passes with the change proves the change. A failure counts only if the runner reports the
 * test as failed, by its name.
 */

export type Contrast = { result: "proves" | "same" | "cannot-run"; reason: string | null; firstLines: string | null };

/**
 * The tests that fail on the base, or the final result where no further run is needed. `red`: failures that count;
 * `failed`: the names of all failed tests.
 */
export type OnBase = { red: TestResult[]; failed: string[] } | Contrast;

const cannotRun = (reason: string, firstLines: string | null = null): Contrast => ({
  result: "cannot-run",
  reason,
  firstLines: firstLines === null ? null : linesOf(firstLines),
});

export const needsCode = "needs the new code";

/** `missing`: whether a file imports something that the base does not have. */
export const judgeBase = (report: Report, missing: (file: string) => boolean): OnBase => {
  const failed = report.tests.filter(({ outcome }) => outcome === "failed");
  const red = failed.filter(({ file, message }) => !needsNewCode(message) && !(file !== null && missing(file)));
  const green = report.tests.filter(({ outcome }) => outcome === "passed").length;
  const names = failed.map(({ name }) => name);
  if (red.length > 0) return { red, failed: names };
  const [first] = failed;
  if (first !== undefined) return cannotRun(needsCode, `${first.name}\n${first.message}`);
  const [broken] = report.broken;
  if (broken !== undefined) return cannotRun(needsCode, broken);
  return green === 0 ? cannotRun("the runner reported no test") : { red: [], failed: [] };
};

/** `again`: a second run on the base; undefined if no test was red in the first one. */
export const judgeContrast = (
  { red, failed }: { red: TestResult[]; failed: string[] },
  again: Report | undefined,
  work: Report,
): Contrast => {
  if (red.length > 0 && (again === undefined || !isSame(failed, namesOf(again, "failed"))))
    return cannotRun("flaky", "Two runs on the base had different results.");
  const lost = work.tests.find(({ outcome }) => outcome === "failed");
  if (lost !== undefined) return cannotRun("it fails with the change, too", `${lost.name}\n${lost.message}`);
  const [broken] = work.broken;
  if (broken !== undefined) return cannotRun("it does not run with the change", broken);
  if (red.length === 0) return { result: "same", reason: null, firstLines: null };
  const passed = new Set(namesOf(work, "passed"));
  const proven = red.find(({ name }) => passed.has(name));
  return proven === undefined
    ? cannotRun("what is red on the base does not run with the change")
    : { result: "proves", reason: null, firstLines: linesOf(`${proven.name}\n${proven.message}`) };
};

const namesOf = ({ tests }: Report, wanted: TestResult["outcome"]): string[] =>
  tests.filter(({ outcome }) => outcome === wanted).map(({ name }) => name);

const isSame = (one: readonly string[], other: readonly string[]): boolean =>
  one.toSorted().join("\n") === other.toSorted().join("\n");

const mostLines = 5;
const longest = 500;

/** The first lines that are not blank, at most 5 lines and 500 characters. */
export const linesOf = (text: string): string =>
  text
    .slice(0, 8 * longest)
    .split("\n")
    .filter((line) => line.trim() !== "")
    .slice(0, mostLines)
    .join("\n")
    .slice(0, longest);
