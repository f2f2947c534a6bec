import { describe, expect, test } from "vitest";
import { commitMessage, fitTitle, readEnd, wrap } from "../../src/domain/task/commit-text.ts";

/** The message of a commit, from an agent's end. */

describe("an agent's end", () => {
  test.each([
    [
      "I made it.\n\nCommit: Add pow to math\n\nUsers asked for it.",
      "I made it.",
      "Add pow to math",
      "Users asked for it.",
    ],
    ["I made it.\n\n**Commit:** Add pow\nWhy.", "I made it.", "Add pow", "Why."],
    ["Made.\n\n## Commit: Add pow", "Made.", "Add pow", ""],
    ["Made.\n\nCommit:\n```\nAdd pow\n\nWhy.\n```", "Made.", "Add pow", "Why."],
    ["Made.\n```\nCommit: Add pow\n\nWhy.\n```", "Made.", "Add pow", "Why."],
    ["commit: Add pow\nCommit: Add both\nB.", "commit: Add pow", "Add both", "B."],
  ])("%j", (text, report, title, body) => expect(readEnd(text)).toEqual({ report, commit: { title, body } }));

  test.each(["I made it.", "I made a commit: none.", "Done.\n\nCommit:", ""])("%j has no commit", (text) =>
    expect(readEnd(text).commit).toBeUndefined(),
  );
});

describe("a title", () => {
  test.each([
    ["Add pow.", "Add pow"],
    ["  Add\n pow ", "Add pow"],
    [
      `The accepts helper's default matching ignores wildcards. With accepts(c, { header })`,
      "The accepts helper's default matching ignores wildcards. With accepts(c,",
    ],
    ["x".repeat(80), "x".repeat(72)],
    [
      "Make `accepts()` of the helper understand wildcards where it is called with `supports` alone",
      "Make `accepts()` of the helper understand wildcards where it is called",
    ],
    [
      "Make accepts understand wildcards where somebody calls it `with a span of code`",
      "Make accepts understand wildcards where somebody calls it",
    ],
  ])("%j", (text, title) => {
    expect(fitTitle(text)).toBe(title.replace(/,$/, ""));
    expect(fitTitle(text).length).toBeLessThanOrEqual(72);
  });
});

describe("a message", () => {
  test("has title, body in lines of 72, and trailers that Git finds", () => {
    expect(
      commitMessage(
        {
          title: "Match wildcards in accepts",
          body: "The helper compared types by equality, so that a browser's `*/*` matched nothing at all and the default came.\nNow `type/*` and `*/*` match.\n\n- `*` alone is a wildcard, too, as some old clients send it without the slash between them\n- nothing else changes\n\n    verbatim   code that is longer than seventy-two characters stays as it is, whole\n",
        },
        [
          ["Task", "task_1"],
          ["Mission", "storage"],
          ["Phase", "code/\nstorage"],
          ["Squad", "base@0.3.0"],
        ],
      ),
    ).toBe(
      `Match wildcards in accepts

The helper compared types by equality, so that a browser's \`*/*\` matched
nothing at all and the default came. Now \`type/*\` and \`*/*\` match.

- \`*\` alone is a wildcard, too, as some old clients send it without the
  slash between them
- nothing else changes

    verbatim   code that is longer than seventy-two characters stays as it is, whole

Task: task_1
Mission: storage
Phase: code/ storage
Squad: base@0.3.0
`,
    );
  });
  test("without a body has none; a word that is longer than a line stays whole", () => {
    expect(commitMessage({ title: "Add a", body: " " }, [["Task", "t"]])).toBe("Add a\n\nTask: t\n");
    const long = `https://example.org/${"a".repeat(80)}`;
    expect(wrap(`See ${long} for more`)).toBe(`See\n${long}\nfor more`);
  });
});
