import { describe, expect, test } from "vitest";
import { shortenedResult, maxOutput, shareRoom, truncatedResult } from "../../src/tool/result.ts";

/** How much of a result a model reads when several have one room. */

describe("one room for several results", () => {
  test("the short ones are whole, the others share what is left; none gets less than the least", () => {
    expect(shareRoom([6, 100, 9000, 9000], 4106, 400)).toEqual([400, 400, 2000, 2000]);
    expect(shareRoom([6, 500, 9000, 9000], 4506, 1)).toEqual([6, 500, 2000, 2000]);
    expect(shareRoom([9000, 9000], 100, 400)).toEqual([400, 400]);
    expect(shareRoom([9000, 6], Number.POSITIVE_INFINITY, 400)).toEqual([9000, 400]);
    expect(shareRoom([], 100, 400)).toEqual([]);
  });
});

describe("a result with less room", () => {
  const numbered = Array.from({ length: 40_000 }, (_, line) => `line ${line}\n`).join("");
  const notesIn = (text: string) => [...text.matchAll(/… (\d+) (characters|bytes) left out; ([^\n]*) …\n/g)];

  test.each([
    ["text", numbered, numbered.length],
    ["bytes", Buffer.from(numbered), numbered.length],
  ])("that was cut before has one cut, which counts all that is missing and says where it is: %s", (_, whole, size) => {
    const output = `Exit code 1 after 0.1 s.\n${truncatedResult(whole, { callID: "call_1" }).output}\n\n[a note]`;
    for (const max of [maxOutput, 5000, 401]) {
      const text = shortenedResult(output, "call_1", max);
      expect(text.startsWith("Exit code 1 after 0.1 s.\nline 0\n")).toBe(true);
      expect(text.endsWith("\n\n[a note]")).toBe(true);
      expect(text.length).toBeLessThan(max + 150);
      const notes = notesIn(text);
      expect(notes).toHaveLength(1);
      const [note = "", missing, , where] = notes[0] ?? [];
      expect(where).toBe("all of it: `read` or `search` path output:call_1");
      const there = text.length - note.length - 1 - "Exit code 1 after 0.1 s.\n".length - "\n\n[a note]".length;
      expect(there + Number(missing)).toBe(size);
    }
  });

  test("that was whole is cut in the middle, and can be read whole; what another call's note says is text", () => {
    const text = shortenedResult(
      `${numbered.slice(0, 9000)}\n… 5 characters left out; all of it: \`read\` or \`search\` path output:call_2 …\n`,
      "call_1",
      1000,
    );
    expect(text).toMatch(/… \d+ characters left out; all of it: `read` or `search` path output:call_1 …/);
    expect(shortenedResult("short", "call_1", 1000)).toBe("short");
  });
});
