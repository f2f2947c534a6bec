import { describe, expect, test } from "vitest";
import { createSlots } from "../../src/engine/slot.ts";

const never = new AbortController().signal;
const settle = () => new Promise((resolve) => setImmediate(resolve));

describe("slots", () => {
  test("gives as many as there are, then makes wait", async () => {
    const slots = createSlots(2);
    const first = await slots.take(0, never);
    await slots.take(0, never);
    expect([slots.free(), slots.waiting()]).toEqual([0, 0]);
    const third = slots.take(0, never);
    await settle();
    expect([slots.free(), slots.waiting()]).toEqual([0, 1]);
    first[Symbol.dispose]();
    using _ = await third;
    expect([slots.free(), slots.waiting()]).toEqual([0, 0]);
  });

  test("serves the lowest rank first, and one rank in the order of coming", async () => {
    const slots = createSlots(1);
    const held = await slots.take(0, never);
    const served: string[] = [];
    const waits = (["5a", "3a", "5b", "1a", "3b", "5c", "1b"] as const).map(async (name) => {
      using _ = await slots.take(Number(name[0]), never);
      served.push(name);
    });
    held[Symbol.dispose]();
    await Promise.all(waits);
    expect(served).toEqual(["1a", "1b", "3a", "3b", "5a", "5b", "5c"]);
    expect([slots.free(), slots.waiting()]).toEqual([1, 0]);
  });

  test("a slot given back twice is one slot", async () => {
    const slots = createSlots(1);
    const slot = await slots.take(0, never);
    slot[Symbol.dispose]();
    slot[Symbol.dispose]();
    expect(slots.free()).toBe(1);
    await slots.take(0, never);
    expect(slots.free()).toBe(0);
  });

  test("who aborts leaves the line with the signal's reason, and takes nothing from the others", async () => {
    const slots = createSlots(1);
    const held = await slots.take(0, never);
    const stop = new AbortController();
    const leaving = slots.take(1, stop.signal);
    const staying = slots.take(2, never);
    stop.abort(new Error("cancelled"));
    await expect(leaving).rejects.toThrow("cancelled");
    expect(slots.waiting()).toBe(1);
    held[Symbol.dispose]();
    using _ = await staying;
    await expect(slots.take(0, stop.signal)).rejects.toThrow("cancelled");
    expect([slots.free(), slots.waiting()]).toEqual([0, 0]);
  });

  test("an abort after the slot was given changes nothing", async () => {
    const slots = createSlots(1);
    const held = await slots.take(0, never);
    const stop = new AbortController();
    const next = slots.take(0, stop.signal);
    held[Symbol.dispose]();
    stop.abort();
    const slot = await next;
    expect(slots.free()).toBe(0);
    slot[Symbol.dispose]();
    expect(slots.free()).toBe(1);
  });

  test("needs at least one slot", () => {
    for (const size of [0, -1, 1.5, Number.NaN])
      expect(() => createSlots(size)).toThrow(`Expected at least one slot, got ${size}`);
  });
});
