import { readdirSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { inThread } from "../../src/thread.ts";
import { paging } from "../../src/tool/file/page.ts";

const threads = () => readdirSync("/proc/self/task").length;

test("a thread without work ends after five seconds; control: it is there before", async () => {
  const page = () => inThread(paging, { path: "a.txt", bytes: Buffer.from("one\n") });
  await Promise.all([page(), page()]);
  const working = threads();
  await pause(3000);
  expect(threads()).toBe(working);
  await pause(4000);
  expect(threads()).toBeLessThan(working);
  expect((await page()).ok).toBe(true);
});
