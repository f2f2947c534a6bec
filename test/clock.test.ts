import { expect, test } from "vitest";
import { createClock, createPassed } from "../src/clock.ts";

/** What passes, whatever the machine's clock says. */

test("time goes on by what has passed since the start", () => {
  let wall = 1_000_000;
  let passed = 5000;
  const clock = createClock({ wall: () => wall, passed: () => passed });
  expect(clock().getTime()).toBe(1_000_000);
  wall -= 3_600_000;
  passed += 250;
  expect(clock().getTime()).toBe(1_000_250);
  wall += 48 * 3_600_000;
  passed += 250;
  expect(clock().getTime()).toBe(1_000_500);
});

test("time asleep has passed, and what the system rounds has not", () => {
  let awake = 100;
  let all = 90_000;
  const passed = createPassed(
    () => awake,
    () => all,
  );
  const begun = passed();
  awake += 1500;
  all += 1490;
  expect(passed() - begun).toBe(1500);
  awake += 1500;
  all += 8 * 3_600_000;
  expect(passed() - begun).toBe(8 * 3_600_000 + 1490);
});

test("the machine's own times come out right", async () => {
  const clock = createClock();
  const before = Date.now();
  await new Promise((resolve) => {
    setTimeout(resolve, 50);
  });
  expect(Math.abs(clock().getTime() - Date.now())).toBeLessThan(1000);
  expect(clock().getTime()).toBeGreaterThanOrEqual(before + 40);
});
