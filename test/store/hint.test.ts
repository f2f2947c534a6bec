import { expect, test, vi } from "vitest";
import type { LiveFrame } from "../../src/protocol/event/frame.ts";
import { createHintQueue, type Hint, unpack } from "../../src/store/feed/hint.ts";
import { createLive } from "../../src/store/feed/live.ts";

/** What goes from one node to the others, and what does not. */

const wrote = (text: string, taskID = "t", callID = "c"): LiveFrame => ({
  type: "tool.output",
  taskID,
  at: "2026-01-01T00:00:00.000Z",
  data: { callID, text },
});

/** A queue, and what it sent, each time. */
const scene = () => {
  const sent: string[][] = [];
  const queue = createHintQueue("me", async (payloads) => void sent.push([...payloads]));
  const hints = () => sent.flat().flatMap((payload) => unpack(payload, "you") ?? []);
  const passed = () => new Promise((resolve) => setTimeout(resolve, 60));
  return { queue, sent, hints, passed };
};

const textsOf = (hints: readonly Hint[]) =>
  hints.flatMap((hint) => (hint[0] === "live" && hint[1].type !== "now.delta" ? [hint[1].data.text] : []));

test("the first goes at once, what comes within 20 ms together and once; nobody hears of its own", async () => {
  const { queue, sent, hints, passed } = scene();
  queue.tell([["grown", "a"]]);
  await new Promise((resolve) => setTimeout(resolve, 5));
  expect(sent.length).toBe(1);
  for (let round = 0; round < 50; round += 1)
    queue.tell([
      ["grown", "b"],
      ["revoked", "b", round],
    ]);
  await passed();
  expect(sent.length).toBe(2);
  expect(hints()).toEqual([
    ["grown", "a"],
    ["grown", "b"],
    ["revoked", "b", 49],
  ]);
  expect(unpack(sent[0]?.[0] ?? "", "me")).toBeUndefined();
  expect(unpack("of another version", "you")).toBeUndefined();
  queue.close();
  queue.tell([["grown", "c"]]);
  await passed();
  expect(sent.length).toBe(2);
});

test("many streams that grew are any; no payload is larger than PostgreSQL takes, and none is the same as another", async () => {
  const { queue, sent, hints, passed } = scene();
  for (let one = 0; one < 1_000; one += 1)
    queue.tell([
      ["grown", `task_${one}`],
      ["due", `task_${one}`, one, 0],
    ]);
  for (let one = 0; one < 40; one += 1) queue.frame(wrote("\u0001".repeat(1_000)), one);
  await passed();
  const payloads = sent.flat();
  expect(payloads.length).toBeGreaterThan(5);
  for (const payload of payloads) expect(Buffer.byteLength(payload)).toBeLessThan(8_000);
  expect(new Set(payloads).size).toBe(payloads.length);
  const kinds = hints().map(([kind, stream]) => (kind === "grown" ? stream : kind));
  expect(kinds.filter((kind) => kind === null).length).toBe(1);
  expect(kinds.filter((kind) => kind === "due").length).toBe(1_000);
});

test("live text of one call goes on in one frame; a character is not cut; beyond a bound the newest is left out", async () => {
  const { queue, hints, passed } = scene();
  for (const text of ["one ", "two ", "three"]) queue.frame(wrote(text), 1);
  queue.frame(wrote("other", "t", "d"), 1);
  await passed();
  expect(textsOf(hints())).toEqual(["one two three", "other"]);

  const long = scene();
  const text = `${"x".repeat(999)}😀${"y".repeat(1_500)}`;
  long.queue.frame(wrote(text), 1);
  await long.passed();
  expect(textsOf(long.hints()).join("")).toBe(text);
  expect(textsOf(long.hints())[0]).toBe("x".repeat(999));

  const much = scene();
  for (let round = 0; round < 100; round += 1) much.queue.frame(wrote(`${round}`.padStart(1_000, "x")), 1);
  much.queue.frame(wrote("another stream has room", "u"), 1);
  much.queue.tell([["revoked", "t", 3]]);
  await much.passed();
  const found = much.hints();
  expect(found[0]).toEqual(["revoked", "t", 3]);
  expect(textsOf(found).length).toBe(33);
  expect(textsOf(found).at(-1)).toBe("another stream has room");
});

test("frames go to other nodes only while somebody reads there, and come from there to readers alone", () => {
  vi.useFakeTimers();
  try {
    const out: string[] = [];
    const watched: string[][] = [];
    using live = createLive({
      frame: (frame) => void (frame.type === "tool.output" && out.push(frame.data.text)),
      watch: (streams) => void watched.push([...streams]),
    });
    live.publish(wrote("nobody reads"), 1);
    live.watched("t");
    live.publish(wrote("read"), 1);
    vi.advanceTimersByTime(11_000);
    live.publish(wrote("not any more"), 1);
    expect(out).toEqual(["read"]);

    const seen: string[] = [];
    {
      using _reader = live.subscribe("t", (frame) => void (frame.type === "tool.output" && seen.push(frame.data.text)));
      live.receive(wrote("from elsewhere"), 1);
      vi.advanceTimersByTime(6_500);
    }
    live.receive(wrote("nobody is here"), 1);
    vi.advanceTimersByTime(6_500);
    expect(seen).toEqual(["from elsewhere"]);
    expect(out).toEqual(["read"]);
    expect(watched).toEqual([["t"], ["t"], ["t"]]);
  } finally {
    vi.useRealTimers();
  }
});
