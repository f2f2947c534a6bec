import type { Report, TestResult } from "./report.ts";

/**
 * Reads TAP as node:test writes it: subtests are indented and precede the line of their suite; details are in a YAML
 * block.
 */

type Point = { indent: number; failed: boolean; skipped: boolean; name: string; details: string[] };

export const readTapReport = (text: string): Report | undefined => {
  const lines = text.split("\n");
  if (!lines.some((line) => line.startsWith("TAP version"))) return undefined;
  const report: Report = { tests: [], broken: [] };
  /** Names of the enclosing suites, by depth. */
  const around: string[] = [];
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at] ?? "";
    const indent = indentOf(line);
    const depth = indent / 4;
    if (line.startsWith("# Subtest: ", indent)) {
      around.length = depth;
      around[depth] = plain(line.slice(indent + "# Subtest: ".length));
      continue;
    }
    const point = pointOf(line, indent);
    if (point === undefined) continue;
    if (lines[at + 1]?.trim() === "---") {
      at += 2;
      for (; at < lines.length && lines[at] !== `${" ".repeat(indent + 2)}...`; at += 1)
        point.details.push((lines[at] ?? "").slice(indent + 2));
    }
    add(report, point, around.slice(0, depth));
  }
  return report;
};

const add = (report: Report, point: Point, suites: readonly string[]): void => {
  const detail = (name: string) => valueOf(point.details, name);
  if (detail("type") === "suite" || detail("failureType") === "subtestsFailed") return;
  const error = [detail("name"), detail("error")].filter((part) => part !== "").join(": ");
  // node:test reports a file that did not load as a test with the file's name.
  if (point.failed && point.details.some((line) => line.startsWith("exitCode:"))) {
    report.broken.push(`${point.name}: ${error}`);
    return;
  }
  const location = detail("location");
  const outcome: TestResult["outcome"] = point.skipped ? "skipped" : point.failed ? "failed" : "passed";
  report.tests.push({
    // Only failures have a location. Tests are matched by name, so `file` may be null for the others.
    file: location === "" || !point.failed ? null : location.split(":").slice(0, -2).join(":"),
    name: [...suites, point.name].join(" "),
    outcome,
    message: error,
  });
};

const indentOf = (line: string): number => {
  let at = 0;
  while (line[at] === " ") at += 1;
  return at;
};

const pointOf = (line: string, indent: number): Point | undefined => {
  const rest = line.slice(indent);
  const failed = rest.startsWith("not ok ");
  if (!failed && !rest.startsWith("ok ")) return undefined;
  const dash = rest.indexOf(" - ");
  if (dash < 0) return undefined;
  const told = rest.slice(dash + 3);
  const directive = [" # SKIP", " # TODO"].map((word) => told.indexOf(word)).find((at) => at >= 0);
  const name = plain(directive === undefined ? told : told.slice(0, directive));
  return { indent, failed, skipped: directive !== undefined, name, details: [] };
};

const plain = (name: string): string => name.replaceAll("\\#", "#").replaceAll("\\\\", "\\");

/**
 * The value of a field of the YAML block, unquoted; the lines of a multi-line text (`|-`); empty if the field is
 * absent.
 */
const valueOf = (details: readonly string[], field: string): string => {
  const at = details.findIndex((line) => line.startsWith(`${field}: `));
  if (at < 0) return "";
  const value = (details[at] ?? "").slice(field.length + 2);
  if (value !== "|-" && value !== "|")
    return value.startsWith("'") && value.endsWith("'") ? value.slice(1, -1).replaceAll("\\'", "'") : value;
  const lines: string[] = [];
  for (const line of details.slice(at + 1)) {
    if (!line.startsWith("  ")) break;
    lines.push(line.slice(2));
  }
  return lines.join("\n");
};
