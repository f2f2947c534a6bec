import { mkdirSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { putBorrowedAside, recordBorrowed } from "../../../src/workspace/tamper/borrowed.ts";
import { temporary, writeFiles } from "../../harness/project.ts";

test("what could not be put aside at first is at the next try; what was there before stays", () => {
  using temp = temporary();
  const [home, root] = [join(temp.path, "data/worktrees"), join(temp.path, "project")];
  const place = { root, baseCommit: null };
  writeFiles(root, { "mine/.git/objects/info/alternates": "/elsewhere\n", "n/.git/HEAD": "x" });
  recordBorrowed(home, "task_1", place);
  writeFiles(root, { "n/.git/objects/info/alternates": "/theirs\n" });
  // A later run of the same Task changes nothing of what was recorded.
  recordBorrowed(home, "task_1", place);
  const planted = join(root, "n/.git/objects/info/alternates");
  mkdirSync(`${planted}.found-by-task_1`);
  expect(() => putBorrowedAside(home, "task_1", place)).toThrow("EISDIR");
  rmdirSync(`${planted}.found-by-task_1`);
  expect(putBorrowedAside(home, "task_1", place)).toEqual([planted]);
  expect(putBorrowedAside(home, "task_1", place)).toEqual([]);
});
