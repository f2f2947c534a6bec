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

test("of more names in a Git directory than are looked at nothing is shown", () => {
  using temp = temporary();
  const directory = project(temp.path);
  writeFiles(directory, { "n/.git/HEAD": "x", "m/.git/HEAD": "x" });
  mkdirSync(join(directory, "m/.git/hooks"));
  expect(kindAt(directory, "n/.git")).toEqual(["ro"]);
  for (let at = 0; at < 2001; at += 1) {
    writeFileSync(join(directory, "n/.git", `tmp${at}`), "");
    writeFileSync(join(directory, "m/.git/hooks", `${at}.sample`), "");
  }
  expect(kindAt(directory, "n/.git")).toEqual(["ro", "empty"]);
  expect(kindAt(directory, "m/.git/hooks")).toEqual(["empty"]);
});

test("of more folders of submodules than are looked at nothing is shown", () => {
  using temp = temporary();
  const directory = project(temp.path);
  writeFiles(directory, { ".git/modules/a/b/HEAD": "x", ".git/modules/a/b/config": "[remote]\n" });
  expect(kindAt(directory, ".git/modules")).toEqual([]);
  expect(kindAt(directory, ".git/modules/a/b/config")).toEqual(["text"]);
  for (let at = 0; at < 1001; at += 1)
    mkdirSync(join(directory, `.git/modules/f${at % 10}/${at}`), { recursive: true });
  expect(kindAt(directory, ".git/modules")).toEqual(["empty"]);
});
