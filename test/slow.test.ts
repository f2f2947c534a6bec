import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { leftOut } from "./harness/runner.ts";
import slow from "./slow.json" with { type: "json" };

/** Which slow tests run by day. */

const all = Object.entries(slow).flatMap(([file, { tests }]) => Object.keys(tests).map((name) => `${file} > ${name}`));

test("a run by day has a tenth of the slow tests, the same for the same seed; each comes in some run", () => {
  const seeds = Array.from({ length: 100 }, (_, seed) => seed);
  const run = new Set<string>();
  for (const seed of seeds) {
    const left = leftOut(seed);
    expect(left).toEqual(leftOut(seed));
    expect(left.size).toBe(all.length - Math.ceil(all.length / 10));
    for (const name of all) if (!left.has(name)) run.add(name);
  }
  expect([...run].toSorted()).toEqual(all.toSorted());
});

test("each listed test has a file; those that skip themselves loudly are not listed", () => {
  const files = Object.keys(slow);
  expect(files.filter((file) => !existsSync(join(import.meta.dirname, "..", file)))).toEqual([]);
  expect(all.filter((name) => /postgres/i.test(name))).toEqual([]);
});
