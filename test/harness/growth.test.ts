import { expect, test } from "vitest";
import { growthOf, slopeOf, stepSlopeOf } from "./growth.ts";

test("the slope is that of most points: one that is off does not move it, and noise only a little", () => {
  const line = [0, 100, 200, 300, 400, 500].map((x) => [x, 7 + 3 * x] as const);
  expect(slopeOf(line)).toBe(3);
  expect(slopeOf(line.with(2, [200, 90_000]))).toBe(3);
  expect(slopeOf(line.map(([x, y], index) => [x, y + (index % 2 === 0 ? 20 : -20)] as const))).toBeCloseTo(3, 0);
  expect(slopeOf(line.map(([x]) => [x, 5] as const))).toBe(0);
  expect(() => slopeOf([[1, 1]])).toThrow("two points or more");
});

test("a drop in the middle does not hide what grows before and after it; control: between all pairs it does", () => {
  const line = [0, 100, 200, 300, 400, 500].map((x) => [x, 7 + 3 * x - (x > 200 ? 5000 : 0)] as const);
  expect(stepSlopeOf(line)).toBe(3);
  expect(slopeOf(line)).toBeLessThan(0);
});

test("what added more than its bound over all the points is found; control: what stayed within it is not", () => {
  const points = [0, 50, 100].map((tasks) => ({ tasks, memory: 1000 + 9 * tasks, files: 30 + tasks / 25 }));
  const found = (memory: number, files: number) =>
    growthOf(points, { memory, files }).flatMap(({ name, tooMuch }) => (tooMuch ? [name] : []));
  expect(found(800, 3)).toEqual(["memory", "files"]);
  expect(found(1000, 5)).toEqual([]);
});
