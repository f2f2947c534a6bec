import assert from "node:assert/strict";
import { test } from "node:test";
import { parseAmount, sum } from "./sum.js";

test("nothing adds up to zero", () => {
  assert.equal(sum([]), 0);
});

test("whole amounts", () => {
  assert.equal(sum([5, 7, -2]), 10);
});

test("cents stay exact", () => {
  assert.equal(sum(["0.10", "0.20"].map(parseAmount)), 0.3);
});

test("an amount has at most two decimals", () => {
  assert.throws(() => parseAmount("1.234"), RangeError);
});
