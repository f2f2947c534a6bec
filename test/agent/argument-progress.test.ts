import { expect, test } from "vitest";
import { createArgumentProgress } from "../../src/agent/loop/argument-progress.ts";

/** What is told of a call whose arguments are still arriving. */

const toldOf = (tool: string, input: object | string, size: number): [string, number][] => {
  const told: [string, number][] = [];
  const written = createArgumentProgress((text, lines) => told.push([text, lines]));
  const json = typeof input === "string" ? input : JSON.stringify(input);
  for (let at = 0; at < json.length; at += size) written({ id: "1", tool }, json.slice(at, at + size));
  return told;
};

test("a file is named by its path, with each line that is complete", () => {
  const content = 'one "two"\nthree \\n four\n\tfive\n';
  const wanted = [1, 2, 3].map((lines) => ['Writing `src/a "b".ts`', lines]);
  expect(toldOf("write", { path: 'src/a "b".ts', content }, 1)).toEqual(wanted);
  expect(toldOf("write", { path: 'src/a "b".ts', content }, 10_000)).toEqual([['Writing `src/a "b".ts`', 3]]);
});

test("only a key `path` names it, and no text that says so", () => {
  const content = '{"path": "wrong"}\n';
  expect(toldOf("write", { content, path: "right" }, 1)).toEqual([["Writing a call of `write`", 1]]);
  expect(toldOf("edit", { path: "right", edits: [{ old: "path", new: content }] }, 1)).toEqual([
    ["Editing `right`", 1],
  ]);
});

test("a patch and other calls are told by what they are; without lines nothing is", () => {
  expect(toldOf("apply_patch", { patch: "a\nb\n" }, 3).at(-1)).toEqual(["Writing a patch", 2]);
  expect(toldOf("delegate", { task: "a\nb" }, 3).at(-1)).toEqual(["Writing a call of `delegate`", 1]);
  expect(toldOf("shell", { command: "npm test" }, 3)).toEqual([]);
});

test("arguments that are no JSON, or a path without end, break nothing", () => {
  expect(toldOf("write", '{"path": "\\u12", "content": "a\\n"}', 1)).toEqual([["Writing a call of `write`", 1]]);
  expect(toldOf("write", { path: "x".repeat(10_000), content: "a\n" }, 100)).toEqual([
    ["Writing a call of `write`", 1],
  ]);
  expect(toldOf("write", '}]"":,\n"', 1)).toEqual([]);
});

test("arguments that come whole are not read on the way; control: in pieces they are", () => {
  const content = "line\n".repeat(20_000);
  expect(toldOf("write", { path: "a.txt", content }, 1_000_000)).toEqual([]);
  expect(toldOf("write", { path: "a.txt", content }, 60_000).at(-1)).toEqual(["Writing `a.txt`", 20_000]);
});
