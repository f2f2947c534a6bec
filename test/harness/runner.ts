import { relative } from "node:path";
import { type RunnerTestFile, type RunnerTestSuite, TestRunner } from "vitest";
import slow from "../slow.json" with { type: "json" };
import { seededRandom } from "./random.ts";

/**
 * Runs a part of the slow tests when the whole suite runs by day: of ten that take about as long one, which one a seed
 * says that is printed (TEST_SEED brings the same again). At night, and where files are named, all of them run.
 */
export default class DayRunner extends TestRunner {
  onCollected(files: RunnerTestFile[]): void {
    const seed = process.env["TEST_DAY_SEED"];
    if (seed === undefined) return;
    const left = leftOut(Number(seed));
    for (const file of files)
      leaveOut(file, (name) => left.has(keyOf(relative(this.config.root, file.filepath), name)));
  }
}

/** How many of the slow tests share one run. */
const share = 10;

/** Those of `test/slow.json` that a run with this seed leaves out. */
export const leftOut = (seed: number): Set<string> => {
  const random = seededRandom(seed);
  const all = Object.entries(slow)
    .flatMap(([file, { tests }]) =>
      Object.entries(tests).map(([name, seconds]) => ({ key: keyOf(file, name), seconds })),
    )
    .toSorted((a, b) => b.seconds - a.seconds);
  const left = new Set<string>();
  for (let from = 0; from < all.length; from += share) {
    const alike = all.slice(from, from + share);
    const chosen = random.below(alike.length);
    for (const [index, { key }] of alike.entries()) if (index !== chosen) left.add(key);
  }
  return left;
};

const keyOf = (file: string, name: string): string => `${file} > ${name}`;

/** Also suites and files of which nothing is left, so that their services are not started. */
const leaveOut = (suite: RunnerTestSuite | RunnerTestFile, isOut: (name: string) => boolean): void => {
  for (const task of suite.tasks)
    if (task.type === "suite") leaveOut(task, isOut);
    else if (isOut(task.fullTestName)) task.mode = "skip";
  if (suite.tasks.every(({ mode }) => mode === "skip" || mode === "todo")) suite.mode = "skip";
};
