import { describe, expect, test } from "vitest";
import { parseArguments } from "../../src/tool/argument.ts";
import { tools } from "../../src/tool/registry.ts";

/** What models send, as it is meant. */

const toolOf = (name: string) => {
  const tool = tools[name];
  if (tool === undefined) throw new Error(`no tool ${name}`);
  return tool;
};
const read = (name: string, input: unknown) => parseArguments(toolOf(name).input, input);

describe("arguments that can mean one thing only", () => {
  test.each<[string, string, unknown, unknown]>([
    ["a number as text", "read", { path: "a", offset: "240" }, { path: "a", offset: 240 }],
    ["null for what was left out", "read", { path: "a", offset: null }, { path: "a" }],
    ["a flag as text", "shell", { command: "ls", background: "true" }, { command: "ls", background: true }],
    [
      "a list as text, numbers and flags in it too",
      "edit",
      { path: "a", edits: '[{"old":"x","new":"y","all":"true"}]' },
      { path: "a", edits: [{ old: "x", new: "y", all: true }] },
    ],
    [
      "one for a list of one",
      "edit",
      { path: "a", edits: { old: "x", new: "y" } },
      { path: "a", edits: [{ old: "x", new: "y" }] },
    ],
    ["a text for a list of one", "git", { action: "rm", paths: "a b.txt" }, { action: "rm", paths: ["a b.txt"] }],
    [
      "an edit beside the path",
      "edit",
      { file: "a", old: "x", new: "y" },
      { path: "a", edits: [{ old: "x", new: "y" }] },
    ],
    [
      "an edit by other names",
      "edit",
      { file_path: "a", old_string: "x", new_string: "y", replace_all: false },
      { path: "a", edits: [{ old: "x", new: "y", all: false }] },
    ],
    ["names of other tools", "shell", { cmd: "ls" }, { command: "ls" }],
    ["names of other tools", "write", { filename: "a", contents: "x" }, { path: "a", content: "x" }],
    ["a number where a text is meant", "write", { path: "a", content: 3 }, { path: "a", content: "3" }],
  ])("%s: %s", (_, name, input, meant) => {
    const before = structuredClone(input);
    expect(read(name, input)).toMatchObject({ data: meant });
    expect(input).toEqual(before);
    expect(toolOf(name).input.safeParse(input).success).toBe(false);
  });

  test.each<[string, string, unknown, RegExp]>([
    ["a number that is none", "read", { path: "a", offset: "2x" }, /offset: .*number/],
    ["two names for one", "read", { path: "a", file: "b" }, /Unrecognized key: "file"/],
    ["an unknown name", "read", { path: "a", colour: "b" }, /Unrecognized key: "colour"/],
    ["broken JSON", "edit", { path: "a", edits: '[{"old":"x"' }, /edits: .*array/],
    ["an edit without its new text", "edit", { path: "a", old: "x" }, /edits/],
    ["no object", "read", "a", /arguments: .*object/],
    ["names of the prototype", "read", JSON.parse('{"path":"a","__proto__":{"offset":1}}'), /Unrecognized key/],
  ])("control: %s is refused, in the words of what was sent", (_, name, input, words) => {
    expect(read(name, input)).toMatchObject({ wrong: expect.stringMatching(words) as unknown });
  });

  test("an enumeration names what models are told of", () => {
    const { wrong } = read("git", { action: "push" }) as { wrong: string };
    expect(wrong).toContain('"status"|"diff"|"log"|"show"|"restore"|"rm"');
    expect(wrong).not.toMatch(/grep|commit|add|mv/);
  });
});
