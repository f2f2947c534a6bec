import { expect, test } from "vitest";
import { createTally } from "../../src/domain/evidence/tally.ts";
import { pacedMs } from "../harness/pace.ts";

/** How many tests a runner's output names, as each of them writes it; pieces of it end anywhere. */

const countOf = (output: string, size = output.length): [number, number] => {
  const tally = createTally();
  for (let at = 0; at < output.length; at += size) tally.take(output.slice(at, at + size));
  return [tally.lines(), tally.tests()];
};

const outputs: Record<string, [output: string, tests: number]> = {
  "node:test": ["✔ adds (1.2ms)\n✖ subtracts (0.5ms)\nℹ tests 2\n✖ failing tests:\n✖ subtracts (0.5ms)\n", 2],
  TAP: ["TAP version 13\nok 1 - adds\nnot ok 2 - subtracts\n1..2\n", 2],
  vitest: [
    " \u001b[32m✓\u001b[39m test/a.test.ts (12 tests) 30ms\n ❯ test/b.test.ts (3 tests | 1 failed) 9ms\n   × adds 5ms\n",
    15,
  ],
  jest: ["PASS ./sum.test.js\n  ✓ adds (2 ms)\n  ✓ subtracts\n", 2],
  pytest: ["tests/test_a.py ..F.s  [ 50%]\ntests/test_b.py .  [100%]\n", 6],
  "pytest -v": ["tests/test_a.py::test_one PASSED [ 50%]\ntests/test_a.py::test_two FAILED [100%]\n", 2],
  go: ["=== RUN   TestOne\n--- PASS: TestOne (0.00s)\n    --- FAIL: TestTwo/part (0.00s)\n", 2],
  cargo: ["running 2 tests\ntest a::one ... ok\ntest a::two ... FAILED\n", 2],
  surefire: [
    "[INFO] Tests run: 4, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s - in A\n[INFO] Tests run: 4\n",
    4,
  ],
  "no runner": ["compiling\nok then\n3 tests would be nice\n", 0],
};

for (const [runner, [output, tests]] of Object.entries(outputs))
  test(`${runner}: ${tests} tests, in pieces of any size`, () => {
    const lines = output.split("\n").length - 1;
    for (const size of [output.length, 1, 7]) expect([size, ...countOf(output, size)]).toEqual([size, lines, tests]);
  });

test("a line without an end is kept to a bound, and counted once it has one", () => {
  const tally = createTally();
  for (let index = 0; index < 1000; index += 1) tally.take("x".repeat(10_000));
  expect([tally.lines(), tally.tests()]).toEqual([0, 0]);
  tally.take("\n✓ adds\n");
  expect([tally.lines(), tally.tests()]).toEqual([2, 1]);
});

test("a hundred megabytes of lines of no runner take less than a second", () => {
  const piece = "needle\n".repeat(9000);
  const tally = createTally();
  const took = pacedMs(() => {
    for (let index = 0; index < 160; index += 1) tally.take(piece);
  }, 100);
  // A tenth of it.
  expect(tally.lines() % (160 * 9000)).toBe(0);
  expect(took).toBeLessThan(100);
});
