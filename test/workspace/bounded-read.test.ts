import { execFileSync } from "node:child_process";
import { mkdirSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { copyBounded, expectBounded, readBounded, textAt } from "../../src/workspace/file/bounded-read.ts";
import { someEntries } from "../../src/process/sandbox/some-entries.ts";
import { temporary } from "../harness/project.ts";

const scene = () => {
  const folder = temporary("sortie-bounded-");
  onTestFinished(() => folder[Symbol.dispose]());
  return (name: string) => join(folder.path, name);
};

test("regular files up to the limit are read whole, also through a link, and ones that report no size", async () => {
  const at = scene();
  const bytes = Buffer.alloc(300_000, "ab");
  writeFileSync(at("file"), bytes);
  symlinkSync(at("file"), at("link"));
  for (const name of ["file", "link"]) expect(readBounded(at(name), bytes.length)).toEqual(bytes);
  expect(readBounded(at("file"), 10, { first: 4 })?.toString()).toBe("abab");
  expect(textAt("/proc/self/status", 65_536)).toMatch(/^Name:/);
  expect(() => readBounded("/proc/self/status", 10)).toThrow(
    /Expected at most 10 bytes in "\/proc\/self\/status", got/,
  );
  expect(await copyBounded(at("link"), at("copy"), bytes.length)).toBe(true);
  expect(readBounded(at("copy"), bytes.length)).toEqual(bytes);
  writeFileSync(at("empty"), "");
  expect(textAt(at("empty"), 0)).toBe("");
});

test("nothing, and what cannot be reached, is undefined", async () => {
  const at = scene();
  writeFileSync(at("file"), "x");
  symlinkSync("loop", at("loop"));
  symlinkSync("nowhere", at("dangling"));
  for (const name of ["none", "file/below", "loop", "dangling"]) {
    expect(readBounded(at(name), 10), name).toBeUndefined();
    expect(await copyBounded(at(name), at("copy"), 10), name).toBe(false);
    expectBounded(at(name), 10);
  }
});

test("anything else is refused at once, by its path and what it is", async () => {
  const at = scene();
  execFileSync("mkfifo", [at("fifo")]);
  mkdirSync(at("folder"));
  symlinkSync("/dev/zero", at("endless"));
  writeFileSync(at("sparse"), "");
  truncateSync(at("sparse"), 8 * 1024 ** 3);
  writeFileSync(at("file"), "x");
  symlinkSync("file", at("link"));
  const server = createServer().listen(at("socket"));
  onTestFinished(() => void server.close());
  await new Promise((resolve) => server.once("listening", resolve));
  const refusals = {
    fifo: "a FIFO",
    folder: "a folder",
    endless: "a device",
    socket: "a socket",
    sparse: "8589934592",
  };
  for (const [name, got] of Object.entries(refusals)) {
    const message = new RegExp(`^Expected .* "${at(name)}", got ${got}$`);
    expect(() => readBounded(at(name), 100)).toThrow(message);
    expect(() => expectBounded(at(name), 100)).toThrow(message);
    await expect(copyBounded(at(name), at("copy"), 100)).rejects.toThrow(message);
  }
  expect(() => readBounded(at("link"), 100, { nofollow: true })).toThrow(/got a symbolic link$/);
  expect(readBounded(at("file"), 100, { nofollow: true })?.toString()).toBe("x");
  expect(readBounded(at("sparse"), 100, { first: 3 })).toEqual(Buffer.alloc(3));
});

test("of a folder that anybody may have filled, so many entries are read and no more", () => {
  using temp = temporary();
  for (const name of ["a", "b", "c"]) writeFileSync(join(temp.path, name), "");
  expect(someEntries(temp.path, 2)).toMatchObject({ entries: { length: 2 }, crowded: true });
  expect(someEntries(temp.path, 3)).toMatchObject({ entries: { length: 3 }, crowded: false });
  expect(someEntries(join(temp.path, "none"), 3)).toEqual({ entries: [], crowded: false });
  expect(someEntries(join(temp.path, "a"), 3)).toEqual({ entries: [], crowded: false });
});
