import { shellQuote } from "../../shell-quote.ts";
import type { Facts, PromptMessage } from "../model.ts";

/**
 * What the steps of all instructions share. A step yields the calls of one turn, receives their results, and ends with
 * a verdict. It is replayed from its start for every reply, with the results in the conversation: so it keeps no state,
 * and a restarted service continues where the log ends.
 */

export type Call = { tool: string; input: unknown };

export type Result = Extract<PromptMessage, { role: "tool" }>["results"][number];

export type Verdict = { ok: true; report: string } | { ok: false; why: string };

export type Asking<T> = Generator<Call[], T, Result[]>;

export type Step = Asking<Verdict>;

export type World = {
  facts: Facts;
  /** Files that this request wrote before: they belong to the project, although Git does not track them yet. */
  written: ReadonlySet<string>;
  /** Commands that the operator allowed, by name. */
  codemods: Readonly<Record<string, string>>;
};

export const done = (report: string): Verdict => ({ ok: true, report });

export const failed = (why: string): Verdict => ({ ok: false, why });

export const firstLine = (text: string): string => text.split("\n", 1)[0] ?? "";

export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;

export const missing: Result = {
  callID: "",
  tool: "",
  outcome: "error",
  output: "The call has no result.",
  exitCode: null,
};

/** For calls that are safe to repeat: a call that a restart interrupted is repeated until it has a result. */
export function* repeatable(calls: Call[]): Asking<Result[]> {
  const results = yield calls;
  for (;;) {
    const open = calls.flatMap((_, at) => (results[at]?.outcome === "interrupted" ? [at] : []));
    if (open.length === 0) return results;
    const again = yield open.flatMap((at) => calls[at] ?? []);
    for (const [index, at] of open.entries()) {
      const result = again[index];
      if (result !== undefined) results[at] = result;
    }
  }
}

export function* one(call: Call): Asking<Result> {
  const [result] = yield* repeatable([call]);
  return result ?? missing;
}

export function* once(call: Call): Asking<Result> {
  const [result] = yield [call];
  return result ?? missing;
}

export const commandSeconds = 600;

/** How a command ended, in short: `exit 1 after 0.3 s`. */
export const endOf = ({ output, exitCode }: Result): string =>
  exitCode === null
    ? firstLine(output)
    : firstLine(output)
        .replace(/^Exit code/, "exit")
        .replace(/\.$/, "");

const escapes = new RegExp(`${String.fromCharCode(27)}\\[[0-9;?]*[A-Za-z]`, "g");

const failure =
  /^\s*(?:not ok\b|✖|✗|×|FAIL\b|FAILED\b|E\s{3})|\berror TS\d+|\b\w*Error\b|\berror[: ]|\bFAILED\b|^\S+:\d+:\d+:? .*\berror\b/i;

/** The first lines that look like a failure, else the last lines that are not empty. */
export const firstFailure = (output: string): string => {
  const lines = output
    .replaceAll(escapes, "")
    .split("\n")
    .slice(1)
    .map((line) => line.trim().slice(0, 200))
    .filter((line) => line !== "" && line !== "(no output)");
  const telling = lines.filter((line) => failure.test(line)).slice(0, 3);
  return (telling.length > 0 ? telling : lines.slice(-2)).join(" | ");
};

// ---- whole outputs -------------------------------------------------------------------------------------------------

const pageBytes = 10_000;

const lineBytes = 6_000;

const pages = 40;

/** Ends a line that was truncated. */
export const cutMark = "@cut@";

/**
 * All lines that a command prints. A tool's result is sized for a model, so they are read page by page; a page that
 * does not arrive as it was sent is an error. `whole` is false when there are more than 400 kB.
 */
export function* linesOf(command: string): Asking<{ lines: string[]; whole: boolean } | { why: string }> {
  const lines: string[] = [];
  for (let page = 0; page < pages; page += 1) {
    const from = page * pageBytes;
    const awk =
      `BEGIN { print "@begin" } ` +
      `{ if (length($0) > ${lineBytes}) $0 = substr($0, 1, ${lineBytes}) "${cutMark}"; n = length($0) + 1; ` +
      `if (at >= ${from} && at < ${from + pageBytes}) { print; shown++ } at += n } ` +
      `END { print "@end " shown + 0 " " at + 0 }`;
    const run = `set -o pipefail\nexport LC_ALL=C TZ=UTC\n{\n${command}\n} | awk ${shellQuote(awk)}`;
    const result = yield* one({ tool: "shell", input: { command: run, timeoutSeconds: commandSeconds } });
    if (result.outcome !== "ok") return { why: `${endOf(result)} (${firstFailure(result.output)})` };
    const got = result.output.split("\n");
    const body = got.slice(got.indexOf("@begin") + 1);
    const end = /^@end (\d+) (\d+)$/.exec(body.pop() ?? "");
    if (end === null || Number(end[1]) !== body.length)
      return { why: "the output of a command did not come back whole" };
    lines.push(...body);
    if (Number(end[2]) <= from + pageBytes) return { lines, whole: true };
  }
  return { lines, whole: false };
}
