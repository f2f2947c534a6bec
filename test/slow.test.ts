import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { slowTests } from "./harness/runner.ts";
import slow from "./slow.json" with { type: "json" };

/** Which tests are left to `npm run test:slow` and the night. */

test("each listed test has a file, with a reason; those that skip themselves loudly are not listed", () => {
  const root = join(import.meta.dirname, "..");
  const files = Object.entries(slow);
  expect(files.filter(([file]) => !existsSync(join(root, file))).map(([file]) => file)).toEqual([]);
  expect(files.filter(([, { why }]) => why.length < 5).map(([file]) => file)).toEqual([]);
  expect([...slowTests].filter((name) => /postgres/i.test(name))).toEqual([]);
});
