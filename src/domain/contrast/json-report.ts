import { fieldsOf, listOf, parsedJSON, type Report, stringOf, type TestResult } from "./report.ts";

/** Reads the JSON reports of vitest and jest (which share one form), mocha and rspec; undefined for any other text. */

const outcomes: Readonly<Record<string, TestResult["outcome"]>> = { passed: "passed", failed: "failed" };

export const readJestReport = (text: string): Report | undefined => {
  const { testResults } = fieldsOf(parsedJSON(text));
  if (!Array.isArray(testResults)) return undefined;
  const report: Report = { tests: [], broken: [] };
  for (const file of testResults.map(fieldsOf)) {
    const tests = listOf(file["assertionResults"]).map(fieldsOf);
    if (file["status"] === "failed" && !tests.some(({ status }) => status === "failed"))
      report.broken.push(stringOf(file["message"]));
    for (const test of tests)
      report.tests.push({
        file: stringOf(file["name"]),
        name: stringOf(test["fullName"]),
        outcome: outcomes[stringOf(test["status"])] ?? "skipped",
        message: listOf(test["failureMessages"]).map(stringOf).join("\n"),
      });
  }
  return report;
};

export const readMochaReport = (text: string): Report | undefined => {
  const { tests, failures, pending } = fieldsOf(parsedJSON(text));
  if (!Array.isArray(tests) || !Array.isArray(failures)) return undefined;
  const nameOf = (test: Record<string, unknown>) => stringOf(test["fullTitle"]);
  const skipped = new Set(listOf(pending).map((test) => nameOf(fieldsOf(test))));
  const all = tests.map(fieldsOf);
  const known = new Set(all.map(nameOf));
  return {
    tests: all.map((test) => {
      const { message, stack } = fieldsOf(test["err"]);
      const failed = message !== undefined || stack !== undefined;
      return {
        file: stringOf(test["file"]),
        name: nameOf(test),
        outcome: skipped.has(nameOf(test)) ? "skipped" : failed ? "failed" : "passed",
        message: stringOf(stack) || stringOf(message),
      };
    }),
    // A failed hook is listed only among the failures, not among the tests.
    broken: failures
      .map(fieldsOf)
      .filter((failure) => !known.has(nameOf(failure)))
      .map((failure) => `${nameOf(failure)}: ${stringOf(fieldsOf(failure["err"])["message"])}`),
  };
};

export const readRspecReport = (text: string): Report | undefined => {
  const { examples, messages, summary } = fieldsOf(parsedJSON(text));
  if (!Array.isArray(examples)) return undefined;
  const outside = Number(fieldsOf(summary)["errors_outside_of_examples_count"]) || 0;
  return {
    tests: examples.map(fieldsOf).map((example) => {
      const exception = fieldsOf(example["exception"]);
      return {
        file: stringOf(example["file_path"]),
        name: stringOf(example["full_description"]),
        outcome: outcomes[stringOf(example["status"])] ?? "skipped",
        message:
          exception["class"] === undefined ? "" : `${stringOf(exception["class"])}: ${stringOf(exception["message"])}`,
      };
    }),
    broken: outside === 0 ? [] : [listOf(messages).map(stringOf).join("\n")],
  };
};
