import { expect, test } from "vitest";
import { plainWords } from "../../src/repository/words.ts";

/** What a remote says, as text. */

test.each([
  ["\u001B]0;title\u0007red: \u001B[1;31mNo.\u001B[0m", "red: No."],
  ["\u001B]8;;https://x.example\u001B\\link\u001B]8;;\u001B\\ end", "link end"],
  ["a\u001B7b\u009B31mc\u0000d\r\n\te", "abcd e"],
  ["\u001B]no end", ""],
  ["  Plain words, as they are: [x] 10%  ", "Plain words, as they are: [x] 10%"],
])("%j", (text, words) => {
  expect(plainWords(text, 1000)).toBe(words);
});

test("no more than so many characters, in a time that grows with the text", () => {
  const begun = performance.now();
  expect(plainWords("\u001B[".repeat(200_000), 10)).toBe("");
  expect(plainWords("\u001B]".repeat(200_000), 10)).toBe("");
  expect(plainWords("x".repeat(100), 10)).toBe("x".repeat(10));
  expect(performance.now() - begun).toBeLessThan(1000);
});
