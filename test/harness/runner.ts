import { relative } from "node:path";
import { type RunnerTestFile, type RunnerTestSuite, TestRunner } from "vitest";
import slow from "../slow.json" with { type: "json" };

/**
 * Leaves the slow tests out when the whole suite runs by day, and runs nothing else where TEST_PART=slow
 * (`npm run test:slow`). At night, and where files are named, everything runs.
 */
export default class PartRunner extends TestRunner {
  onCollected(files: RunnerTestFile[]): void {
    const part = process.env["TEST_PART"];
    if (part !== "day" && part !== "slow") return;
    for (const file of files) {
      const path = relative(this.config.root, file.filepath);
      const names = new Set(namesIn(file));
      const gone = Object.keys((slow as Record<string, { tests: object }>)[path]?.tests ?? {}).filter(
        (name) => !names.has(name),
      );
      // Some are a sample by day, and come at night.
      if (part === "slow" && gone.length > 0)
        console.warn(`Of test/slow.json, not in ${path} by day: ${gone.join("; ")}.`);
      leaveOut(file, (name) => slowTests.has(keyOf(path, name)) === (part === "day"));
    }
  }
}

const keyOf = (file: string, name: string): string => `${file} > ${name}`;

/** The tests of `test/slow.json`, each as its file and its name. */
export const slowTests: ReadonlySet<string> = new Set(
  Object.entries(slow).flatMap(([file, { tests }]) => Object.keys(tests).map((name) => keyOf(file, name))),
);

const namesIn = (suite: RunnerTestSuite | RunnerTestFile): string[] =>
  suite.tasks.flatMap((task) => (task.type === "suite" ? namesIn(task) : [task.fullTestName]));

/** Also suites and files of which nothing is left, so that their services are not started. */
const leaveOut = (suite: RunnerTestSuite | RunnerTestFile, isOut: (name: string) => boolean): void => {
  for (const task of suite.tasks)
    if (task.type === "suite") leaveOut(task, isOut);
    else if (isOut(task.fullTestName)) task.mode = "skip";
  if (suite.tasks.every(({ mode }) => mode === "skip" || mode === "todo")) suite.mode = "skip";
};
