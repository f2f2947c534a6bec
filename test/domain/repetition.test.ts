import { describe, expect, test } from "vitest";
import { callHash, findRepetition, recordTurn, repetitionNote } from "../../src/domain/session/repetition.ts";
import { noRepetition } from "../../src/domain/state/stream.ts";
import { defaultLimits } from "../../src/protocol/limit.ts";

/** Which calls count as the same. */

const turns = (given: readonly { tool?: string; input: object; output: string }[]) =>
  findRepetition(
    given.reduce(
      (circle, { tool = "shell", input, output }, index) =>
        recordTurn(circle, callHash(tool, input, `call_${index}`), { outcome: "ok", output }, true),
      noRepetition,
    ),
    3,
  );
const cut = (id: string, text: string) =>
  `Exit code 0 after ${id.length}.1 s.\n${text}\n… 900 characters left out; all of it: \`read\` or \`search\` path output:call_${id} …\n${text}`;

test("an agent is told at the third same result, and ended at the twelfth", () => {
  const call = callHash("shell", { command: "make" }, "call_1");
  let circle = noRepetition;
  const seen = Array.from({ length: 12 }, (_, at) => {
    const note = repetitionNote(circle, call, { outcome: "ok", output: "red" }, true);
    circle = recordTurn(circle, call, { outcome: "ok", output: `red${note}` }, true);
    return [at + 1, note !== "", findRepetition(circle, defaultLimits.loopRepeats) !== undefined];
  });
  expect(seen).toEqual(Array.from({ length: 12 }, (_, at) => [at + 1, at >= 2, at >= 11]));
});

describe("results that were cut", () => {
  test("name themselves by their call, and are the same for all that", () => {
    const same = ["01", "0222", "03"].map((id) => ({ input: { command: "make" }, output: cut(id, "red") }));
    expect(turns(same)).toEqual({ turns: 1, times: 3 });
    expect(turns(same.map((call, index) => ({ ...call, output: cut("1", `red ${index}`) })))).toBeUndefined();
  });

  test("read by the name that they have, too", () => {
    const read = ["01", "02", "03"].map((id) => ({ input: { path: `output:call_${id}` }, output: "red" }));
    expect(turns(read)).toEqual({ turns: 1, times: 3 });
    expect(turns(read.map((call, index) => ({ ...call, output: `red ${index}` })))).toBeUndefined();
    expect(turns(["a", "b", "c"].map((path) => ({ input: { path }, output: "red" })))).toBeUndefined();
  });
});

test("a plan that shows what its budget has used by then is the same; control: another plan is not", () => {
  const plan = (used: number, state: string) => ({
    tool: "task_status",
    input: {},
    output: `{\n "plan": "${state}",\n "budget": {\n  "maxSteps": 90\n },\n "used": {\n  "maxSteps": ${used}\n },\n "reserved": {\n  "maxSteps": ${90 - used}\n }\n}`,
  });
  expect(turns([1, 2, 3].map((used) => plan(used, "ready")))).toEqual({ turns: 1, times: 3 });
  expect(turns([1, 2, 3].map((used) => plan(used, `done ${used}`)))).toBeUndefined();
});

describe("polling", () => {
  const thrice = (tool: string, input: object) =>
    turns([1, 2, 3].map(() => ({ tool, input, output: "still running" })));

  test("is no repetition: a background command is read, a command sleeps first", () => {
    expect(thrice("process", { action: "read", id: "p1-1" })).toBeUndefined();
    expect(thrice("shell", { command: "sleep 5; curl -s localhost:3000" })).toBeUndefined();
    expect(thrice("shell", { command: "until test -e done; do sleep $n; done" })).toBeUndefined();
    expect(thrice("shell", { command: "gh pr checks 12 --json state" })).toBeUndefined();
    expect(thrice("shell", { command: "cd app && glab ci status" })).toBeUndefined();
    expect(thrice("task_evidence", { task: "task_1", part: "checks" })).toBeUndefined();
  });

  test("control: the same without the wait is one", () => {
    for (const [tool, input] of [
      ["read", { path: "p1-1" }],
      ["shell", { command: "curl -s localhost:3000" }],
      ["shell", { command: "cat sleep.txt" }],
      ["shell", { command: "gh pr view 12" }],
      ["shell", { command: "npm test" }],
      ["task_evidence", { task: "task_1", part: "diff" }],
      ["grep", { command: "sleep 5" }],
    ] as const)
      expect(thrice(tool, input)).toEqual({ turns: 1, times: 3 });
  });
});
