import { describe, expect, test } from "vitest";
import { exitCodeOf } from "../../../src/domain/evidence/exit-code.ts";
import { cutWords, tellingLines } from "../../../src/domain/evidence/output.ts";

const red = { red: true };
const green = { red: false };
const many = (line: string, count = 60): string => `${line}\n`.repeat(count);

/** What a reviewer is shown of an output, and what an exit code stands for. */

describe("of a failed command", () => {
  test("the cause is shown, which stands before the stack, and the end", () => {
    const output = `a.ts 20ms\n\nOops! Something went wrong! :(\n\nESLint: 9.39.2\n\nError: Error while loading rule 'no-generated': You have used a rule\nOccurred while linting a.ts\n${many("    at Array.forEach (<anonymous>)")}    at last (linter.js:2203:43)\n`;
    const told = tellingLines(output, red);
    expect(told).toMatch(
      /^Error: Error while loading rule 'no-generated'[^\n]*\nOccurred while linting a\.ts\n[\s\S]*\n…\n[\s\S]*linter\.js:2203:43\)$/,
    );
    // One that passed is shown by its end alone, be there a word of an error.
    expect(tellingLines(output, green)).not.toContain("Error while loading");
  });

  test.each([
    ["vitest", " × sum > adds 8ms\n   → expected 3 to be 4\n", " × sum > adds 8ms"],
    [
      "node:test",
      "TAP version 13\n# Subtest: fails in no way\nok 1 - fails in no way\nnot ok 2 - adds\n",
      "not ok 2 - adds",
    ],
    ["pytest", "a.py .F\n\n    assert 1 == 2\nE       assert 1 == 2\n", "E       assert 1 == 2"],
    ["go", "=== RUN   TestA\n--- FAIL: TestA (0.00s)\n    a_test.go:4: got 1\n", "--- FAIL: TestA (0.00s)"],
    [
      "cargo",
      "   Compiling a\nerror[E0425]: cannot find value `x`\n --> src/a.rs:2:5\n",
      "error[E0425]: cannot find value `x`",
    ],
    ["tsc", "src/a.ts(3,1): error TS2322: Type 'string' is not assignable\n", "src/a.ts(3,1): error TS2322"],
    [
      "python",
      'Traceback (most recent call last):\n  File "a.py"\nValueError: no\n',
      "Traceback (most recent call last):",
    ],
    ["words", "all fine: 0 errors\nThe port could not be opened\n", "The port could not be opened"],
  ])("%s: the first line that looks like an error", (_, output, cause) =>
    expect(tellingLines(`${many("working, 0 failed")}${output}${many("done with it")}`, red)).toContain(cause),
  );
});

describe("the line with the counts of a run is never what is cut", () => {
  const noise = `${many("url.ts | 21.08 | 9.73 | 15 | 21.67 | ...16,226", 40)}-----|-----|-----|-----|-----|-----\n${many("x".repeat(300))} M package.json\n`;
  test.each([
    ["vitest", " Test Files  3 passed (3)\n      Tests  34 passed | 2 skipped (36)"],
    ["jest", "Test Suites: 1 passed, 1 total\nTests:       2 skipped, 3 passed, 5 total"],
    ["node:test", "# tests 3\n# pass 2\n# fail 0\n# skipped 1"],
    ["node:test, in colour no more", "ℹ tests 3\nℹ pass 2\nℹ fail 0\nℹ skipped 1"],
    ["mocha", "  12 passing (20ms)\n  2 pending"],
    ["pytest", "======== 3 passed, 1 skipped in 0.12s ========"],
    ["pytest -q", "3 passed, 1 skipped in 0.12s"],
    ["go", "ok  \texample.com/a\t0.003s"],
    ["cargo", "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s"],
    ["rspec", "12 examples, 0 failures, 1 pending"],
  ])("%s", (_, counts) => {
    for (const how of [green, red]) {
      const told = tellingLines(`${noise}Error: of some kind\n${many("y".repeat(200))}${counts}\n${noise}`, how);
      for (const line of counts.split("\n")) expect(told).toContain(line);
      expect(told).toContain("M package.json");
      expect(told).not.toContain("url.ts |");
    }
  });
  test("of many, those that failed", () => {
    const told = tellingLines(
      `${many("ok  \texample.com/a\t0.003s", 30)}FAIL\texample.com/b\t0.003s\n${many("ok  \texample.com/c\t0.003s", 30)}`,
      red,
    );
    expect(told).toContain("FAIL\texample.com/b\t0.003s");
  });
});

test("of a very long output the beginning and the end are looked at", () => {
  const told = tellingLines(`Error: at first\n${many("x", 500_000)}# tests 7\n`, red);
  expect(told).toMatch(/^Error: at first\nx\nx\nx\n…\nx\n# tests 7$/);
});

test("a short output is shown as it is; a long one stays within its room", () => {
  expect(tellingLines("x\n\n 1 failed\n 28 passed  \n\n", green)).toBe("x\n 1 failed\n 28 passed");
  expect(tellingLines("", red)).toBe("");
  const long = tellingLines(many(`Error: ${"z".repeat(2000)}`, 2000), red);
  expect(long.length).toBeLessThanOrEqual(1300);
  expect(cutWords("on the PATH that the service", 26)).toBe("on the PATH that the…");
  expect(cutWords("y".repeat(50), 10)).toBe(`${"y".repeat(9)}…`);
});

describe("an exit code", () => {
  test.each([
    "npx eslint a; npx vitest; git status --short",
    "npx tsc\nnpx vitest",
    "npx tsc -p . ; echo tsc $?",
    "for f in a b; do npx tsc $f; npx vitest $f; done",
    "if npm test; then echo ok; fi",
    "cat <<'X' > a\none\nX\nnpm test; ls",
    "npm run dev & npm test",
  ])("is that of the last command: %s", (text) => expect(exitCodeOf(text)).toEqual({ last: true, masked: true }));
  test.each([
    "npx eslint a && npx vitest | tail -5",
    "cd a; export X=1; npm test;",
    "set -euo pipefail; npx tsc; npx vitest",
    "node -e 'a; b; c'",
    'echo "a; b"; npm test',
    "npm test 2>&1 | tee a.log # a; b",
    "X=$(a; b) npm test",
    "cat <<X\na; b\nc\nX",
    "npx vitest \\\n  --run a",
    "npm test &> out",
  ])("counts for all of: %s", (text) => expect(exitCodeOf(text)).toEqual({ last: false, masked: false }));
  test("of an alternative says little", () =>
    expect(exitCodeOf("npm test || true")).toEqual({ last: false, masked: true }));
});
