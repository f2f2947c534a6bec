import { expect, test } from "vitest";
import { checkInput } from "../../src/mission/tool/check-input.ts";
import { checkRequest } from "../../src/protocol/check.ts";

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
