import { expect, test } from "vitest";
import { plainText } from "../../src/process/plain-text.ts";
import { fairMs } from "../harness/pace.ts";

/** What a program wrote for a terminal, as one reads it there. */

test.each([
  ["plain\ntext\twith tabs\n", "plain\ntext\twith tabs\n"],
  ["\u001b[1m\u001b[31mred\u001b[0m and \u001b[38;5;12mblue\u001b[m", "red and blue"],
  ["\u009b31mred\u009b0m", "red"],
  ["\u001b]0;title\u0007shown", "shown"],
  ["\u001b]8;;https://example.org\u001b\\link\u001b]8;;\u001b\\", "link"],
  // Without its end it takes its own line alone.
  ["\u001b]0;no end\nnext", "\nnext"],
  ["\u001b(Bx\u001b=y", "xy"],
  [" 10 %\r 50 %\r100 %\ndone", "100 %\ndone"],
  ["longer line\rshort", "shortr line"],
  ["windows\r\nlines\r\n", "windows\nlines\n"],
  ["abc\b\bX", "aXc"],
  ["\b\bx", "x"],
  ["a\u0007b\u0000c", "abc"],
  ["\u001b[2K\rspinner\u001b[1A", "spinner"],
  ["", ""],
])("%j is %j", async (output, shown) => {
  expect(await plainText(output)).toBe(shown);
});

test("a line of any length takes time that grows with it alone", async () => {
  const begun = performance.now();
  const line = `${"x".repeat(200_000)}${"\ry".repeat(200_000)}`;
  expect(await plainText(line)).toBe(`${"x".repeat(200_000)}${"y".repeat(200_000)}`);
  await plainText("\u001b]".repeat(300_000));
  await plainText(`${"\rx\b".repeat(20_000)}\n`.repeat(10));
  expect(performance.now() - begun).toBeLessThan(fairMs(1000));
});
