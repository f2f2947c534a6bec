import { join } from "node:path";
import { expect, test } from "vitest";
import { parseDocument } from "yaml";
import { callOf, expand, withArguments, withArgumentsWithin } from "../../src/protocol/task/saved-call.ts";
import { savedRequests } from "../../src/task/saved-request.ts";
import { createFiles } from "../../src/workspace/file/files.ts";
import { temporary, writeFiles } from "../harness/project.ts";

/** Requests that a project keeps: which files are some, and how arguments are put into them. */

test("files are requests by their names; what cannot be one is left out", async () => {
  using root = temporary();
  const at = (name: string) => `.claude/commands/${name}`;
  writeFiles(root.path, {
    [at("fix-issue.md")]:
      "---\ndescription: Fixes an issue\nargument-hint: [number] [priority]\nallowed-tools: Bash(rm:*)\n---\n\nFix issue $1.\n",
    [at("docs/add.md")]: "# Add a page\n\nAbout $ARGUMENTS\n",
    [at("broken.md")]: "---\ndescription: [unclosed\n---\nDo it.\n",
    [at("empty.md")]: "---\ndescription: Nothing\n---\n",
    [at("huge.md")]: "x".repeat(65 * 1024),
    [at("no.txt")]: "No.\n",
  });
  expect(await savedRequests(createFiles(root.path))).toEqual([
    { name: "broken", description: "[unclosed", arguments: null, text: "Do it." },
    { name: "docs:add", description: "Add a page", arguments: null, text: "# Add a page\n\nAbout $ARGUMENTS" },
    { name: "fix-issue", description: "Fixes an issue", arguments: "[number] [priority]", text: "Fix issue $1." },
  ]);
  expect(await savedRequests(createFiles(join(root.path, ".claude")))).toEqual([]);
});

test("what a hint holds beside words does not keep the others from being listed", async () => {
  using root = temporary();
  const at = (name: string) => `.claude/commands/${name}`;
  writeFiles(root.path, {
    [at("good.md")]: "Good.\n",
    [at("hint.md")]: "---\nargument-hint: [one, {toString: 1, valueOf: 2}, [a]]\n---\nHint.\n",
    [at("text.md")]: "---\ndescription: [{toString: 1}]\n---\nText.\n",
  });
  expect((await savedRequests(createFiles(root.path))).map(({ name, arguments: hint }) => [name, hint])).toEqual([
    ["good", null],
    ["hint", "[one] […] […]"],
    ["text", null],
  ]);
});

test("front matter that a reader of YAML takes long for is read by its lines; control: the reader does", async () => {
  using root = temporary();
  const keys = Array.from({ length: 1000 }, (_, key) => `k${key}: {a: [b`).join("\n");
  const text = `argument-hint: "[a]"\n${keys}`;
  writeFiles(root.path, { ".claude/commands/long.md": `---\n${text}\n---\nDo it.\n` });
  const begun = performance.now();
  const [saved] = await savedRequests(createFiles(root.path));
  const took = performance.now() - begun;
  expect(saved).toEqual({ name: "long", description: "Do it.", arguments: '"[a]"', text: "Do it." });
  const before = performance.now();
  parseDocument(text.slice(0, 8 * 1024));
  expect(took).toBeLessThan(performance.now() - before);
});

test("arguments are words, or all of them; what has no place stands below", () => {
  expect(withArguments("Fix $1 as $2, $3.", '12 "very soon"')).toBe("Fix 12 as very soon, .");
  expect(withArguments("About $ARGUMENTS.", "a  b")).toBe("About a  b.");
  expect(withArguments("Costs $10 and $HOME.", "x")).toBe("Costs $10 and $HOME.\n\nx");
  expect(withArguments("Literally: $1", "$ARGUMENTS $&")).toBe("Literally: $ARGUMENTS");
});

test("what arguments make of a request is bounded, however many places it has for them", () => {
  const long = "x".repeat(100_000);
  const text = "$ARGUMENTS $1".repeat(10_000);
  expect(withArgumentsWithin(text, long, 200_000)).toBeUndefined();
  expect(withArgumentsWithin("None.", long, 50_000)).toBeUndefined();
  expect(withArgumentsWithin("None.", long, 100_006)).toBeUndefined();
  expect(withArgumentsWithin("None.", long, 100_007)).toBe(`None.\n\n${long}`);
  expect(withArgumentsWithin("$1$1", "abc", 5)).toBeUndefined();
  expect(withArgumentsWithin("$1$1", "abc", 6)).toBe("abcabc");
  expect(withArgumentsWithin("$1$2$2$2", "abcdefgh", 8)).toBe("abcdefgh");
  // What a place takes itself is not counted twice.
  expect(withArgumentsWithin("$ARGUMENTS", "abc", 10)).toBe("abc");
});

test("a text that begins otherwise is a request of its own", () => {
  const saved = [{ name: "a:b", description: "", arguments: null, text: "Do $1." }];
  expect(expand("/a:b it", saved)).toEqual({ request: "Do it." });
  expect(expand("/other it", saved)).toEqual({ unknown: "other" });
  for (const text of ["/etc/hosts is wrong", "Do /a:b", "//a"]) expect(callOf(text), text).toBeUndefined();
  // A slash whose name is left out is no request: "/" would be all that an agent is given.
  for (const text of ["/", " / ", "/ a", "/\na"]) expect(expand(text, saved), text).toEqual({ unknown: "" });
});
