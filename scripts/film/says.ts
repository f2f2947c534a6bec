import type { MockRequest, MockTurn } from "../../test/harness/double/mock-provider.ts";

/**
 * What the model of the film says, turn by turn: it reads, runs the tests, writes one, mends the sum and runs them
 * again.
 */

const call = (tool: string, input: object) => ({ tool, input });

const regression = `import assert from "node:assert/strict";
import { test } from "node:test";
import { parseAmount, sum } from "./sum.js";

const amounts = (...texts) => texts.map(parseAmount);

test("ten cents, ten times", () => {
  assert.equal(sum(Array.from({ length: 10 }, () => 0.1)), 1);
});

test("a long invoice does not drift", () => {
  const lines = Array.from({ length: 1000 }, () => 19.99);
  assert.equal(sum(lines), 19990);
});

test("refunds cancel out", () => {
  assert.equal(sum(amounts("0.30", "-0.10", "-0.20")), 0);
});
`;

const turns: readonly MockTurn[] = [
  {
    text: "I'll read how totals are added and what the tests cover.",
    calls: [call("read", { path: "sum.js" }), call("read", { path: "sum.test.js" })],
    usage: { input: 4180, output: 96 },
    latencyMs: 900,
  },
  {
    text: "`sum` adds floating-point numbers, and `0.1 + 0.2` is not `0.3`. The tests should show it:",
    calls: [call("shell", { command: "npm test" })],
    usage: { input: 5230, output: 74 },
    latencyMs: 700,
  },
  {
    text: "One test fails. I'll add more that catch the drift, then fix it.",
    calls: [call("write", { path: "drift.test.js", content: regression })],
    usage: { input: 5610, output: 312 },
    overMs: 3600,
  },
  {
    text: "The fix: add whole cents.",
    calls: [
      call("edit", {
        path: "sum.js",
        edits: [
          {
            old: "/** Adds up amounts of money. */",
            new: "/** Adds up amounts of money, in whole cents, so that totals do not drift. */",
          },
          {
            old: "amounts.reduce((total, amount) => total + amount, 0);",
            new: "amounts.reduce((cents, amount) => cents + Math.round(amount * 100), 0) / 100;",
          },
        ],
      }),
    ],
    usage: { input: 6020, output: 188 },
    overMs: 1400,
  },
  { calls: [call("shell", { command: "npm test" })], usage: { input: 6310, output: 41 }, latencyMs: 500 },
  {
    text: "Totals no longer drift.\n\n- `sum` now adds whole cents and divides once at the end.\n- Three new tests in `drift.test.js` cover repeated cents, long invoices and refunds.\n- All tests pass.",
    usage: { input: 6580, output: 96 },
    latencyMs: 900,
  },
];

export const says = ({ turn }: MockRequest): MockTurn => turns[turn] ?? { text: "Done." };
