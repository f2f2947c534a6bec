import type { Report, TestResult } from "./report.ts";

/** Reads what `cargo test` prints: a line for each test, then the output of the failed ones. */

const outcomes: Readonly<Record<string, TestResult["outcome"]>> = {
  ok: "passed",
  FAILED: "failed",
  ignored: "skipped",
};

export const readCargoReport = (text: string): Report | undefined => {
  const broken = text.split("\n").filter((line) => line.startsWith("error: could not compile"));
  if (!text.includes("test result:") && broken.length === 0) return undefined;
  const tests = text.split("\n").flatMap((line): TestResult[] => {
    const at = line.lastIndexOf(" ... ");
    if (!line.startsWith("test ") || at < 0) return [];
    const name = line.slice("test ".length, at);
    const outcome = outcomes[line.slice(at + " ... ".length).split(/[ ,]/)[0] ?? ""];
    return outcome === undefined
      ? []
      : [{ file: null, name, outcome, message: outcome === "failed" ? saidBy(text, name) : "" }];
  });
  return { tests, broken };
};

/** The output below `---- name stdout ----`, without the stack trace. */
const saidBy = (text: string, name: string): string => {
  const head = `---- ${name} stdout ----\n`;
  const at = text.indexOf(head);
  if (at < 0) return "";
  const said = text.slice(at + head.length, at + head.length + 4000).trimStart();
  const ends = ["\nstack backtrace:", "\n---- ", "\n\n\n", "\nnote: "].map((mark) => said.indexOf(mark));
  return said.slice(0, Math.min(said.length, ...ends.filter((end) => end >= 0))).trim();
};
