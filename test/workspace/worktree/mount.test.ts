import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { directoryMounts } from "../../../src/workspace/worktree/mount.ts";
import { makeProject, temporary, writeFiles } from "../../harness/project.ts";

/** What a sandbox covers of the Git directories where a Task works in place, of which there may be very much. */

const over = (directory: string) => directoryMounts({ directory, known: true }).over();
const kindAt = (directory: string, path: string) =>
  over(directory)
    .filter(({ to }) => to === join(directory, path))
    .map(({ kind }) => kind);

const many = (count: number, before: string, after = "") =>
  Array.from({ length: count }, (_, at) => `${before}${at}${after}`);

const project = (root: string) => makeProject(join(root, "project"), { "a.txt": "a\n" });

test("settings are covered where they are files; a link for them leads to nothing in the sandbox and is left", () => {
  using temp = temporary();
  const directory = project(temp.path);
  writeFiles(directory, { "n/.git/config": "[remote]\n" });
  expect(kindAt(directory, "n/.git/config")).toEqual(["text"]);
  rmSync(join(directory, "n/.git/config"));
  writeFileSync(join(temp.path, "outside"), "");
  symlinkSync(join(temp.path, "outside"), join(directory, "n/.git/config"));
  expect(kindAt(directory, "n/.git/config")).toEqual([]);
});

test("a nested repository whose Git directory is elsewhere: its file is covered, and nothing is looked for below it", () => {
  using temp = temporary();
  const directory = project(temp.path);
  writeFiles(directory, { "n/.git": "gitdir: ../.git/modules/n\n" });
  expect(over(directory).filter(({ to }) => to.startsWith(join(directory, "n")))).toEqual([
    { kind: "ro", from: join(directory, "n/.git"), to: join(directory, "n/.git") },
  ]);
});

test("of more names in a Git directory than are looked at nothing is shown", () => {
  using temp = temporary();
  const directory = project(temp.path);
  writeFiles(directory, { "n/.git/HEAD": "x", "m/.git/HEAD": "x" });
  mkdirSync(join(directory, "m/.git/hooks"));
  expect(kindAt(directory, "n/.git")).toEqual(["ro"]);
  execFileSync("touch", many(2001, "tmp"), { cwd: join(directory, "n/.git") });
  execFileSync("touch", many(2001, "", ".sample"), { cwd: join(directory, "m/.git/hooks") });
  expect(kindAt(directory, "n/.git")).toEqual(["ro", "empty"]);
  expect(kindAt(directory, "m/.git/hooks")).toEqual(["empty"]);
});

test("of more folders of submodules than are looked at nothing is shown", () => {
  using temp = temporary();
  const directory = project(temp.path);
  writeFiles(directory, { ".git/modules/a/b/HEAD": "x", ".git/modules/a/b/config": "[remote]\n" });
  expect(kindAt(directory, ".git/modules")).toEqual([]);
  expect(kindAt(directory, ".git/modules/a/b/config")).toEqual(["text"]);
  execFileSync("mkdir", ["f", ...many(1001, "f/")], { cwd: join(directory, ".git/modules") });
  expect(kindAt(directory, ".git/modules")).toEqual(["empty"]);
});
