import { expect, test, vi } from "vitest";
import { createLive } from "../../src/store/feed/live.ts";
import { redactStore } from "../../src/store/redacted-store.ts";
import type { LiveFrame } from "../../src/protocol/event/frame.ts";
import { createSecrets } from "../../src/redact.ts";
import type { Live, Store } from "../../src/store/store.ts";

/** How far what a stream does has come, as its live frames tell it. */

const at = "2026-01-01T00:00:00.000Z";
const said = (type: "message.delta" | "reasoning.delta", text: string, messageID = "m"): LiveFrame => ({
  type,
  taskID: "t",
  sessionID: "s",
  at,
  data: { messageID, text },
});
const wrote = (text: string, callID = "c"): LiveFrame => ({
  type: "tool.output",
  taskID: "t",
  at,
  data: { callID, text },
});
const doing = (text: string, count: number, id = "m"): LiveFrame => ({
  type: "now.delta",
  taskID: "t",
  sessionID: "s",
  at,
  data: { id, text, soFar: { count, unit: "line" } },
});
const nowOf = (live: Live) => {
  const data = live.now("t")?.data;
  return data && [data.text, data.soFar.count, data.soFar.unit];
};

test("a reply thinks, writes, and writes a call: each from its own beginning", () => {
  const live = createLive();
  live.publish(said("reasoning.delta", "what "), 1);
  live.publish(said("reasoning.delta", "to d"), 1);
  live.publish(said("reasoning.delta", "o now"), 1);
  expect(nowOf(live)).toEqual(["Thinking", 4, "word"]);
  live.publish(said("message.delta", "One"), 1);
  expect(nowOf(live)).toEqual(["Writing a reply", 1, "word"]);
  live.publish(doing("Writing `a.ts`", 12), 1);
  expect(nowOf(live)).toEqual(["Writing `a.ts`", 12, "line"]);
  live.end("t", "m");
  expect(nowOf(live)).toBeUndefined();
});

test("a command's lines, or its tests once there are some; what began last is told", () => {
  const live = createLive();
  live.publish(wrote("installing"), 1);
  expect(nowOf(live)).toBeUndefined();
  live.publish(wrote(" all\n"), 1);
  expect(nowOf(live)).toEqual([null, 1, "line"]);
  live.publish(wrote("✓ adds\n✓ subtracts\n"), 1);
  expect(nowOf(live)).toEqual([null, 2, "test"]);
  live.publish(wrote("other\n", "d"), 1);
  live.publish(wrote("✓ divides\n"), 1);
  expect(nowOf(live)).toEqual([null, 1, "line"]);
  live.end("t", "d");
  expect(nowOf(live)).toEqual([null, 3, "test"]);
  live.forget("t");
  expect(nowOf(live)).toBeUndefined();
});

test("readers are told at once, then four times a second, and in the end the last number", async () => {
  vi.useFakeTimers();
  try {
    const live = createLive();
    const told: number[] = [];
    using _reader = live.subscribe("t", (frame) => {
      if (frame.type === "now.delta") told.push(frame.data.soFar.count);
    });
    for (let line = 1; line <= 100; line += 1) {
      live.publish(doing("Writing `a.ts`", line), 1);
      await vi.advanceTimersByTimeAsync(10);
    }
    await vi.advanceTimersByTimeAsync(300);
    expect(told.length).toBeGreaterThanOrEqual(4);
    expect(told.length).toBeLessThanOrEqual(6);
    expect([told[0], told.at(-1)]).toEqual([1, 100]);
  } finally {
    vi.useRealTimers();
  }
});

test("a thousand streams at most are remembered", () => {
  const live = createLive();
  for (let index = 0; index <= 1000; index += 1) live.publish({ ...doing("x", 1), taskID: `t${index}` }, 1);
  expect([live.now("t0"), live.now("t1000")?.data.soFar.count]).toEqual([undefined, 1]);
});

test("a secret in a path is not told", () => {
  const live = createLive();
  const secret = "sk-abcdefghijklmnopqrstuvwxyz";
  const store = redactStore({ live } as unknown as Store, createSecrets([{ kind: "key", value: secret }]));
  store.live.publish(doing(`Writing \`${secret}.ts\``, 1), 1);
  expect(nowOf(live)).toEqual(["Writing `[redacted:key].ts`", 1, "line"]);
});
