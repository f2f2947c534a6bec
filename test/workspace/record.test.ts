import { readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createWorktreeRecords, type WorktreeRecord } from "../../src/workspace/record.ts";
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
