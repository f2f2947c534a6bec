import { expect, test } from "vitest";
import type { Now } from "../../src/protocol/field.ts";
import { isSlow } from "../../src/protocol/slow.ts";
import { learnUsual, usualOf } from "../../src/task/usual-duration.ts";

/** How long something usually takes, and when it is slow. */

const at = (seconds: number): string => new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString();
const doing = (text: string, kind: Now["kind"] = "tool", since = at(0)): Now => ({ kind, text, since });
const waits = doing("Waiting for a/b", "model", at(99));
const learn = (project: string, now: Now, ...seconds: number[]): void => {
  for (const each of seconds) learnUsual(project, now, waits, at(each));
};

test("the median of what it took in this project, once it was seen three times; the newest count", () => {
  const tests = doing("Running `npm test`");
  learn("one", tests, 4, 60);
  expect(usualOf("one", tests)).toBeUndefined();
  learn("one", tests, 5);
  expect(usualOf("one", tests)).toBe(5000);
  expect(usualOf("one", doing("Running `npm run build`"))).toBeUndefined();
  expect(usualOf("two", tests)).toBeUndefined();
  learn("one", tests, ...Array.from({ length: 15 }, () => 30));
  expect(usualOf("one", tests)).toBe(30_000);
});

test("what goes on, what was stopped, and what waits for somebody teaches nothing", () => {
  const tests = doing("Running `make`");
  for (let index = 0; index < 3; index += 1) {
    learnUsual("three", tests, { ...tests, text: "Running `make` and 1 more" }, at(5));
    learnUsual("three", tests, doing("Stopping", "stop", at(5)), at(5));
    learn("three", doing("Waiting in the queue", "queue"), 5);
  }
  expect(usualOf("three", tests)).toBeUndefined();
  expect(usualOf("three", doing("Waiting in the queue", "queue"))).toBeUndefined();
  learn("three", tests, 5, 5, 5);
  expect(usualOf("three", tests)).toBe(5000);
});

test("slow is three times the usual, and ten seconds at least; without a usual time nothing is, nor a model that writes", () => {
  const since = at(0);
  const is = (usualMs: number | undefined, seconds: number) =>
    isSlow({ kind: "tool", since, ...(usualMs === undefined ? {} : { usualMs }) }, Date.parse(at(seconds)));
  expect([is(20_000, 59), is(20_000, 60), is(100, 9), is(100, 10), is(undefined, 9999)]).toEqual([
    false,
    true,
    false,
    true,
    false,
  ]);
  const late = { since, usualMs: 100 };
  const soFar = { count: 212, unit: "line" as const };
  expect([
    isSlow({ ...late, kind: "model" }, Date.parse(at(60))),
    isSlow({ ...late, kind: "model", soFar }, Date.parse(at(60))),
    isSlow({ ...late, kind: "tool", soFar }, Date.parse(at(60))),
  ]).toEqual([true, false, true]);
});

test("a thousand things are remembered, not all", () => {
  learn("four", doing("first"), 1, 1, 1);
  for (let index = 0; index < 2000; index += 1) learn("four", doing(`other ${index}`), 1);
  expect(usualOf("four", doing("first"))).toBeUndefined();
});
