import type { FileCheck } from "../../protocol/check.ts";
import { FileRefused } from "../../workspace/file/files.ts";
import type { CheckEnvironment } from "../../workspace/workspace.ts";
import type { CheckOptions, CheckResult } from "../check.ts";
import { matchesPattern, searchMs } from "../pattern.ts";

/** A check that a file exists, and that a pattern matches its text. It starts no process. */

/** Largest file that is searched, in bytes. */
const maxSearched = 16 * 1024 * 1024;

export const runFileCheck = async (
  check: FileCheck,
  { files }: CheckEnvironment,
  { signal }: CheckOptions,
): Promise<CheckResult> => {
  const begun = performance.now();
  const { state, reason } = await judge(check, files).catch((error: unknown): Verdict => {
    if (error instanceof FileRefused) return { state: "error", reason: error.message };
    throw error;
  });
  signal.throwIfAborted();
  const told = reason ?? `${check.path}: as expected`;
  return {
    state,
    exitCode: null,
    durationMs: performance.now() - begun,
    output: `${told}\n`,
    tail: told,
    reason,
    final: true,
  };
};

type Verdict = Pick<CheckResult, "state" | "reason">;

const failed = (reason: string): Verdict => ({ state: "failed", reason });
const passed: Verdict = { state: "passed", reason: null };

const judge = async (
  { path, exists, matches, timeoutSeconds }: FileCheck,
  files: CheckEnvironment["files"],
): Promise<Verdict> => {
  const text = await files.read(path, matches === undefined ? 0 : maxSearched).then(
    ({ bytes }) => bytes.toString("utf8"),
    (error: unknown) => {
      if (!(error instanceof FileRefused)) throw error;
      if (error.kind === "missing") return undefined;
      // A folder satisfies `exists` as a file does; without a pattern nothing is read, so the size does not matter.
      if (matches === undefined && (error.kind === "too-big" || error.kind === "not-a-file")) return "";
      throw error;
    },
  );
  if (!exists) return text === undefined ? passed : failed(`Expected nothing at ${path}, got something there`);
  if (text === undefined) return failed(`Expected a file at ${path}, got nothing there`);
  if (matches === undefined) return passed;
  const found = await matchesPattern(matches, text, Math.min(searchMs, timeoutSeconds * 1000));
  if (found === true) return passed;
  return failed(
    found === false ? `Expected ${path} to match /${matches}/, got no match` : `${path} ${found} /${matches}/`,
  );
};
