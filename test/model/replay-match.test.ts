import { describe, expect, test } from "vitest";
import { compared, conversationIn, differenceOf, type Json, pack, unpack } from "../../src/model/replay/match.ts";
import { pacedMs } from "../harness/pace.ts";

/** When two requests say the same, and which field tells them apart. */

const text = (body: Json) => compared(conversationIn(body)).text;
const chat = (content: string, more: { [key: string]: Json } = {}): Json => ({
  model: "large",
  messages: [
    { role: "system", content: "You are careful." },
    { role: "user", content },
  ],
  ...more,
});

describe("two requests say the same", () => {
  test("whatever the handbook, the tools, the settings and the cache marks are", () => {
    const before = text(chat("Go."));
    const other = chat("Go.", { tools: [{ name: "read" }], max_tokens: 5, model: "small" }) as { messages: Json[] };
    other.messages[0] = { role: "developer", content: "You are bold." };
    other.messages[1] = { content: "Go.", role: "user", cache_control: { type: "ephemeral" } };
    expect(text(other as Json)).toBe(before);
    expect(text(chat("Stop."))).not.toBe(before);
    expect(text({ input: [{ role: "user", content: "Go." }] })).not.toBe(before);
  });

  test.each([
    ["ids", "task_01m7yky9f6ry8r3s1smmfhq505", "task_01m7zv0gscr60y8xmwqknm1taz"],
    ["uuids", "0f8fad5b-d9cb-469f-a165-70867728950e", "1f8fad5b-d9cb-469f-a165-70867728950f"],
    ["dates", "2026-11-21T08:35:37.162Z", "2026-11-22T09:00:00.000Z"],
    ["commits", "c0bf3d3", "cca841c00ff1ce0123456789abcdef0123456789"],
    ["durations", "12 ms", "0.4 s"],
    ["paths", "/tmp/sortie-a1/data/worktrees/x", "/home/me/.local/share/sortie/worktrees/y"],
  ])("with other %s, which are kept in order", (_name, one, other) => {
    expect(text(chat(`It is ${one}, see?`))).toBe(text(chat(`It is ${other}, see?`)));
    expect(compared(`It is ${one}. And ${other}.`).volatile).toEqual([one, other]);
  });

  test.each(["src/add.ts", "12 files", "deadbeef is a word", "facade", "1234567", "seconds", "/etc/hosts"])(
    "control: %s is not taken out",
    (words) => {
      const found = compared(words).volatile;
      expect(found).toEqual([]);
    },
  );

  test("in time, however long a text is", () => {
    for (const piece of ["/tmp/", "a1", "0123456789abcdef", "2026-11-21T", "12 ", "task_", "/home/.", "-"]) {
      const long = piece.repeat(1_000_000 / piece.length);
      expect(
        pacedMs(() => compared(long), 500),
        piece,
      ).toBeLessThan(500);
    }
  });
});

describe("the first difference", () => {
  test.each<[Json, Json, string]>([
    [{ a: 1, b: [1, 2] }, { a: 1, b: [1, 3] }, 'b[1]: expected "2", got "3".'],
    [[1, 2], [1, 2, 3], ": expected 2 entries, got 3."],
    [
      { a: { b: "long text here" } },
      { a: { b: "long test here" } },
      'a.b: expected "long text here", got "long test here".',
    ],
    [{ a: 1 }, { c: 1 }, 'a: expected "1", got "null".'],
  ])("%j and %j", (expected, got, words) => {
    expect(differenceOf(expected, got).words).toBe(words);
  });

  test("who goes along further is nearer", () => {
    const depth = (got: Json) => differenceOf({ m: ["a", "b", "c"] }, { m: got }).depth;
    expect(depth(["a", "b", "x"])).toBeGreaterThan(depth(["a", "x", "c"]));
    expect(depth(["a", "b"])).toBeGreaterThan(depth(["x"]));
  });
});

test("a body is written against the one before it, and read back whole", () => {
  const one: Json = { model: "m", tools: [{ name: "read" }], messages: ["a", "b"], stream: true };
  const two: Json = { model: "m", tools: [{ name: "read" }], messages: ["a", "b", "c"], stream: true };
  const packed = pack(two, one);
  expect(packed).toEqual({ model: "m", tools: { $same: true }, messages: [{ $same: 2 }, "c"], stream: true });
  expect(unpack(packed, one)).toEqual(two);
  expect(pack(one, undefined)).toEqual(one);
  const other: Json = { messages: ["x"], tools: [] };
  expect(unpack(pack(other, two), two)).toEqual(other);
});
