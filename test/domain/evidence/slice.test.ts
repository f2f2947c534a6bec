import { expect, test } from "vitest";
import { requestSlice } from "../../../src/domain/evidence/slice.ts";
import type { CheckSpec } from "../../../src/protocol/check.ts";

const settled = { id: "chk_1", required: true, baseline: false, timeoutSeconds: 60 };
const acceptance = (...checks: object[]) =>
  requestSlice("task_1", "T", "Do it.", checks as CheckSpec[]).contract.acceptance;

test("whoever accepts a Task reads what its checks require; control: a command that has to exit with 0 is its name", () => {
  const command = {
    ...settled,
    kind: "command",
    name: "greets",
    run: "node a.js",
    expect: { stdoutMatches: "^hello" },
  };
  const plain = { ...settled, kind: "test", name: "npm test", run: "npm test" };
  const gone = { ...settled, kind: "file", name: "no log", path: "debug.log", exists: false };
  expect(acceptance(command, plain, gone)).toEqual([
    "`greets` passes: `node a.js` prints what matches /^hello/",
    "`npm test` passes",
    "`no log` passes: `file debug.log` is not there",
  ]);
});
