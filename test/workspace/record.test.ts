import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createWorktreeRecords, type WorktreeRecord } from "../../src/workspace/record.ts";
import { forksOf } from "../../src/workspace/worktree/fork.ts";
import { temporary } from "../harness/project.ts";

/** Records are written where they change, and at once, but for those that are to come with the next. */

const record: WorktreeRecord = {
  toplevel: "/p",
  prefix: "",
  projectGitDir: "/p/.git",
  commonDir: "/p/.git",
  gitDir: "/g",
};

test("what is kept for later is known at once, and on the disk with the next", () => {
  using folder = temporary("sortie-record-");
  const file = join(folder.path, "task_1.json");
  const onDisk = (): unknown => JSON.parse(readFileSync(file, "utf8"));
  const records = createWorktreeRecords(folder.path);
  records.keep("task_1", { ...record, base: "" });
  records.keep("task_1", { ...record, base: "abc" }, { later: true });
  expect(records.of("task_1")?.base).toBe("abc");
  expect(onDisk()).toEqual({ ...record, base: "" });
  expect(createWorktreeRecords(folder.path).of("task_1")?.base).toBe("");
  records.keep("task_1", records.of("task_1") ?? record);
  expect(onDisk()).toEqual({ ...record, base: "abc" });
});

test("the same record is not written again; after it was forgotten it is", () => {
  using folder = temporary("sortie-record-");
  const file = join(folder.path, "task_1.json");
  const records = createWorktreeRecords(folder.path);
  records.keep("task_1", record);
  const before = statSync(file).ino;
  records.keep("task_1", { ...record });
  expect(statSync(file).ino).toBe(before);
  records.forget("task_1");
  expect(statSync(file, { throwIfNoEntry: false })).toBeUndefined();
  records.keep("task_1", record);
  records.unload("task_1");
  rmSync(file);
  records.keep("task_1", record);
  expect(JSON.parse(readFileSync(file, "utf8"))).toEqual(record);
});

test("a record that cannot be read now is not called missing; control: none, and one that was never written whole", () => {
  using folder = temporary("sortie-record-");
  const file = join(folder.path, "task_1.json");
  const records = createWorktreeRecords(folder.path);
  expect(records.of("task_1")).toBeUndefined();
  writeFileSync(file, "");
  expect(records.of("task_1")).toBeUndefined();
  rmSync(file);
  // Its read fails, as where there are too many open files.
  mkdirSync(file);
  expect(() => records.of("task_1")).toThrow("EISDIR");
  rmSync(file, { recursive: true });
  records.keep("task_1", record);
  expect(createWorktreeRecords(folder.path).of("task_1")).toEqual(record);
});

test("a folder that cannot be listed now is not called empty of forks; control: none, and one of them", () => {
  using folder = temporary("sortie-record-");
  const home = join(folder.path, "home");
  expect(forksOf(home, "task_1")).toEqual([]);
  writeFileSync(home, "");
  expect(() => forksOf(home, "task_1")).toThrow("ENOTDIR");
  rmSync(home);
  createWorktreeRecords(home).keep("task_1-a", record);
  expect(forksOf(home, "task_1")).toEqual(["task_1-a"]);
});
