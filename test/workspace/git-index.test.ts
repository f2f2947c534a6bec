import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { gitlinksOf, indexEntries, sharedIndexOf } from "../../src/workspace/git/index-file.ts";
import { hiddenIn, hiddenReading } from "../../src/workspace/tree/hidden-flag.ts";
import { longestTurnMs } from "../harness/pace.ts";
import { git, makeProject, temporary } from "../harness/project.ts";

/**
 * Indexes that no git wrote. An agent may write that of its Task, and every one where a Task works in place; the
 * service reads them itself.
 */

type Made = { version: 2 | 4; entries: number; mode?: number; hidden?: boolean; more?: Buffer };

/** Entries of one letter each; in version 4 each name is the one before it and that letter. */
const indexOf = ({ version, entries, mode = 0o100644, hidden = false, more = Buffer.alloc(0) }: Made): Buffer => {
  const one = version === 4 ? 65 : 64;
  const index = Buffer.alloc(12 + entries * one);
  index.write("DIRC");
  index.writeUInt32BE(version, 4);
  index.writeUInt32BE(entries, 8);
  for (let at = 12; at < index.length; at += one) {
    index.writeUInt32BE(mode, at + 24);
    index.writeUInt16BE((hidden ? 0x8000 : 0) | 1, at + 60);
    index[at + (version === 4 ? 63 : 62)] = 0x61;
  }
  return Buffer.concat([index, more, Buffer.alloc(20)]);
};

const took = (work: () => unknown): number => {
  const begun = performance.now();
  work();
  return performance.now() - begun;
};

test("names that grow with every entry are read as far as a path may be long; control: others to the end", () => {
  expect([...indexEntries(indexOf({ version: 4, entries: 20_000 }), 20)]).toHaveLength(4096);
  expect([...indexEntries(indexOf({ version: 2, entries: 20_000 }), 20)]).toHaveLength(20_000);
});

test("of links to repositories a bounded number is followed; control: few are all", () => {
  expect(gitlinksOf(indexOf({ version: 2, entries: 50_000, mode: 0o160000 }), 20)).toHaveLength(5000);
  expect(gitlinksOf(indexOf({ version: 2, entries: 4999, mode: 0o160000 }), 20)).toHaveLength(4999);
});

test("what only looks like the name of a second file is looked through once; control: the name is found behind entries", () => {
  const extension = (id: Buffer) => Buffer.concat([Buffer.from("link"), Buffer.of(0, 0, 0, id.length), id]);
  const id = Buffer.alloc(20, 0xab);
  const behind = Buffer.concat([Buffer.from("TREE"), Buffer.of(0, 0, 0, 3), Buffer.from("abc"), extension(id)]);
  expect(sharedIndexOf(indexOf({ version: 2, entries: 3, more: behind }), 20)).toBe(
    `sharedindex.${id.toString("hex")}`,
  );
  // Each is a whole extension, and none ends where the checksum begins.
  const more = Buffer.concat([Buffer.from("link\0\0\0\0".repeat(60_000), "latin1"), Buffer.of(0)]);
  const index = indexOf({ version: 2, entries: 0, more });
  expect(took(() => sharedIndexOf(index, 20))).toBeLessThan(500);
});

test("a large index is read while the service goes on; control: read at once, it does not", {
  timeout: 60_000,
}, async () => {
  using temp = temporary("sortie-index-");
  const path = join(temp.path, "index");
  const entries = 20_000;
  writeFileSync(path, indexOf({ version: 2, entries, hidden: true }));
  const place = { path, idBytes: 20, worktree: temp.path };
  writeFileSync(join(temp.path, "a"), "");
  await hiddenIn(temp.path, path, 20);
  let found = 0;
  const work = async () => (found = (await hiddenIn(temp.path, path, 20)).length);
  const apart = await longestTurnMs(work);
  expect(found).toBe(entries * 2);
  expect(apart).toBeLessThan((await longestTurnMs(async () => hiddenReading.run(place))) / 2);
});

test("hidden files of git's own index are those on disk, by their paths", async () => {
  using temp = temporary("sortie-index-");
  const root = makeProject(join(temp.path, "project"), { "a.txt": "a\n", "b/c d.txt": "c\n", "e.txt": "e\n" });
  git(root, "update-index", "--assume-unchanged", "a.txt", "b/c d.txt");
  expect((await hiddenIn(root, join(root, ".git/index"), 20)).toString()).toBe("a.txt\0b/c d.txt\0");
});
