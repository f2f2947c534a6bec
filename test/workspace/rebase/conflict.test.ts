import { expect, test } from "vitest";
import { conflictPlaces } from "../../../src/workspace/rebase/conflict.ts";

/** The places of a conflict, as a reviewer is shown them. */

const lines = (from: number, to: number): string =>
  Array.from({ length: to - from + 1 }, (_, at) => `line ${from + at}\n`).join("");
const met = (project: string, base: string, task: string, end = "\n"): string =>
  [`<<<<<<< 1234567`, project, `||||||| 89abcde`, base, `=======`, task, `>>>>>>> fedcba9`, ""].join(end);

test("each place has both sides by name, what stood there before, its line and those around it", () => {
  const text = `${lines(1, 5)}${met("mine 6", "line 6", "task 6")}${lines(7, 20)}${met("mine 21", "line 21", "task 21")}`;
  const [first = "", second = "", ...more] = conflictPlaces(text);
  expect(more).toEqual([]);
  expect(first).toBe(`at line 6:
line 3
line 4
line 5
<<<<<<< what the project had by then
mine 6
||||||| what stood there before both
line 6
=======
task 6
>>>>>>> what this Task had
line 7
line 8
line 9`);
  expect(second).toMatch(/^at line 27:\nline 18\nline 19\nline 20\n<<<<<<< what the project had by then\nmine 21\n/);
});

test("carriage returns are no reason to miss one; a text without a whole one has none", () => {
  const [only = "", ...more] = conflictPlaces(met("mine", "was", "task", "\r\n"));
  expect([more, only.includes("what this Task had")]).toEqual([[], true]);
  const harmless = ["", "a\n=======\nb\n", "<<<<<<< begun\nand never ended\n", "<<<<<<<\n=======\n>>>>>>>\n"];
  expect(harmless.flatMap(conflictPlaces)).toEqual([]);
});
