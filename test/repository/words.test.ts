import { expect, test } from "vitest";
import { plainText } from "../../src/repository/words.ts";
import { pacedMs } from "../harness/pace.ts";

/** What a remote says, as text. */

test.each([
  ["\u001B]0;title\u0007red: \u001B[1;31mNo.\u001B[0m", "red: No."],
  ["\u001B]8;;https://x.example\u001B\\link\u001B]8;;\u001B\\ end", "link end"],
  ["a\u001B7b\u009B31mc\u0000d\r\n\te", "abcd e"],
  ["\u001B]no end", ""],
  ["  Plain words, as they are: [x] 10%  ", "Plain words, as they are: [x] 10%"],
])("%j", (text, words) => {
  expect(plainText(text, 1000)).toBe(words);
});

test("no more than so many characters, in a time that grows with the text", () => {
  for (const opening of ["\u001B[", "\u001B]"]) {
    const long = opening.repeat(200_000);
    expect(plainText(long, 10)).toBe("");
    expect(pacedMs(() => plainText(long, 10), 500)).toBeLessThan(500);
  }
  expect(plainText("x".repeat(100), 10)).toBe("x".repeat(10));
});
