import { fieldsOf, parsedJSON, type Report, stringOf, type TestResult } from "./report.ts";

/** Reads `go test -json`: one event per line. Go before 1.24 reports a failed build as plain lines. */

const outcomes: Readonly<Record<string, TestResult["outcome"]>> = { pass: "passed", fail: "failed", skip: "skipped" };

export const readGoReport = (text: string): Report | undefined => {
  const report: Report = { tests: [], broken: [] };
  const output = new Map<string, string>();
  let events = 0;
  for (const line of text.split("\n")) {
    if (!line.startsWith("{")) {
      if (line.includes("[build failed]") || line.includes("[setup failed]")) report.broken.push(line);
      continue;
    }
    const event = fieldsOf(parsedJSON(line));
    const action = stringOf(event["Action"]);
    events += Number(action !== "");
    if (action === "build-fail") report.broken.push(stringOf(event["ImportPath"]));
    const name = stringOf(event["Test"]);
    if (name === "") continue;
    const key = `${stringOf(event["Package"])} ${name}`;
    if (action === "output") {
      const said = stringOf(event["Output"]);
      if (!said.trimStart().startsWith("===")) output.set(key, (output.get(key) ?? "") + said);
    }
    const outcome = outcomes[action];
    if (outcome !== undefined)
      report.tests.push({
        file: null,
        name: key,
        outcome,
        message: outcome === "failed" ? (output.get(key) ?? "") : "",
      });
  }
  return events === 0 && report.broken.length === 0 ? undefined : withoutParents(report);
};

/** Drops a test that has subtests: its subtests report the results. */
const withoutParents = ({ tests, broken }: Report): Report => {
  const parents = new Set<string>();
  for (const { name } of tests)
    for (let at = name.indexOf("/"); at >= 0; at = name.indexOf("/", at + 1)) parents.add(name.slice(0, at));
  return { broken, tests: tests.filter(({ name }) => !parents.has(name)) };
};
