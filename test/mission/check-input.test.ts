import { expect, test } from "vitest";
import { z } from "zod";
import { checkInput } from "../../src/mission/tool/check-input.ts";
import { checkRequest } from "../../src/protocol/check.ts";
import { parseArguments } from "../../src/tool/argument.ts";

/** A check of a Mission's agent is that of a request, whatever is told of it. */

const good: object[] = [
  { kind: "test", run: "npm test", baseline: true, expect: { exitCode: 1, stdoutMatches: "ok" } },
  { kind: "file", path: "a.txt", exists: false },
  { kind: "http", start: "serve", url: "http://127.0.0.1:3000/", expect: { bodyMatches: "x" }, env: { A: "1" } },
  {
    kind: "visual",
    start: "serve",
    url: "http://127.0.0.1:3000/",
    baseline: "a.png",
    viewport: { width: 800, height: 600 },
  },
  { kind: "review", criteria: "It reads well.", required: false },
];

test.each(good)("what a request takes is taken, with the same defaults: %j", (check) => {
  expect(checkInput.parse(check)).toEqual(checkRequest.parse(check));
});

test.each([
  { kind: "file", run: "true" },
  { kind: "command" },
  { kind: "command", run: "true", path: "a.txt" },
  { kind: "file", path: "../a.txt" },
  { kind: "other", run: "true" },
  { kind: "command", run: "true", unknown: 1 },
])("what a request refuses is refused: %j", (check) => {
  expect([checkInput.safeParse(check).success, checkRequest.safeParse(check).success]).toEqual([false, false]);
});

test.each<[check: unknown, wrong: string]>([
  [
    { kind: "command", run: "true", expect: { stdoutMatches: "(?m)^a" } },
    'checks.0.expect.stdoutMatches: Expected a regular expression, got "(?m)^a"',
  ],
  [
    { kind: "file", path: "../a.txt" },
    'checks.0.path: Expected a path inside the project without "..", got "../a.txt"',
  ],
  [{ run: "true" }, "checks.0.kind: Expected one of "],
  [{ kind: "command", run: "true", wrong: 1 }, 'checks.0: Unrecognized key: "wrong"'],
])("what is wrong is said of the form that was meant: %j", (check, wrong) => {
  const read = parseArguments(z.strictObject({ checks: z.array(checkInput) }), { checks: [check] });
  expect("wrong" in read && read.wrong).toContain(wrong);
});

test("what can mean one thing only is taken as meant, in a check as in every argument", () => {
  const checks = [{ kind: "command", run: "true", timeoutSeconds: "5" }];
  const read = parseArguments(z.strictObject({ checks: z.array(checkInput) }), { checks });
  expect(read).toMatchObject({ data: { checks: [{ kind: "command", run: "true", timeoutSeconds: 5 }] } });
});
