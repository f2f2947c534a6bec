import { expect, test } from "vitest";
import type { StreamFrame } from "../../src/client/event-stream.ts";
import { createActivity, nowWords } from "../../src/cli/task/activity.ts";

/** What a terminal shows of what a Task does now. */

const since = "2026-01-01T00:00:00.000Z";
const later = Date.parse(since) + 14_000;
const frame = (type: string, data: object, at = since) => ({ type, at, data, id: 1 }) as unknown as StreamFrame;

test("what it does, for how long, and how much there is of it; the number is never cut off", () => {
  const now = { kind: "tool" as const, text: "Running `npm test`", since, soFar: { count: 37, unit: "test" as const } };
  expect(nowWords(now, later)).toBe("Running npm test · 14.0 s · 37 tests");
  expect(nowWords({ ...now, text: "x".repeat(200), soFar: { count: 1, unit: "line" } }, later, 10)).toBe(
    `${"x".repeat(9)}… · 14.0 s · 1 line`,
  );
  expect(nowWords({ kind: "model", text: "Waiting", since: new Date(later + 1000).toISOString() }, later)).toBe(
    "Waiting · 0 ms",
  );
});

test("the frames of a stream tell it; a late one of what is complete does not", () => {
  const doing = createActivity();
  const words = () => doing.words(later);
  expect(words()).toBe("");
  doing.take(frame("task.snapshot", { now: { kind: "model", text: "Waiting for mock/large", since } }));
  expect(words()).toBe("Waiting for mock/large · 14.0 s");
  const delta = frame("now.delta", { id: "m", text: "Writing `a.ts`", soFar: { count: 212, unit: "line" } });
  doing.take(delta);
  expect(words()).toBe("Writing a.ts · 14.0 s · 212 lines");
  doing.take(frame("reply.finished", { messageID: "m" }));
  doing.take(frame("tool.started", { callID: "c", tool: "shell", input: { command: "npm test" } }));
  doing.take(delta);
  expect(words()).toBe("Running npm test · 14.0 s");
  doing.take(frame("now.delta", { id: "c", text: null, soFar: { count: 3, unit: "test" } }));
  expect(words()).toBe("Running npm test · 14.0 s · 3 tests");
  doing.take(frame("task.settled", {}));
  expect(words()).toBe("");
});

test("how many are ahead of it in the queue, as a status record tells; elsewhere no place is told", () => {
  const now = { kind: "queue" as const, text: "Waiting in the queue", since };
  expect(nowWords(now, later, 100, { position: 6 })).toBe("Waiting in the queue · 14.0 s · 5 ahead");
  expect(nowWords(now, later, 100, { position: 1 })).toBe("Waiting in the queue · 14.0 s · next in line");
  expect(nowWords({ ...now, kind: "tool" }, later, 100, { position: 6 })).toBe("Waiting in the queue · 14.0 s");
  const doing = createActivity();
  expect(doing.isQueued()).toBe(false);
  doing.take(frame("task.snapshot", { now, queue: { position: 3 } }));
  expect([doing.isQueued(), doing.words(later)]).toEqual([true, "Waiting in the queue · 14.0 s · 2 ahead"]);
  doing.told({ now, queue: { position: 2, notBefore: null, reason: "waits for a slot" } });
  expect(doing.words(later)).toBe("Waiting in the queue · 14.0 s · 1 ahead");
  doing.take(frame("run.started", {}));
  expect([doing.isQueued(), doing.words(later)]).toEqual([false, "Working · 14.0 s"]);
});
