import { execFileSync } from "node:child_process";
import { mkdirSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { blob, deltaOf, entryHead, entryOf, idOf, insertion, type Made, packOf, treeOf } from "./hand-made.ts";
import { asFile, harmless } from "./hostile-tree.ts";
import { type Ids, topOf } from "./lab.ts";

/** What may stand in the place of a pack. The tree is one that the service takes as soon as its pack is in order. */

const honest = (ids: Ids): Made => topOf(ids, [["100644", "new.txt", asFile]]);
export const honestTree = (ids: Ids): string => idOf(honest(ids));
export const honestPack = (ids: Ids): Buffer => packOf([entryOf(honest(ids)), entryOf(harmless)]);

const changed = (bytes: Buffer, at: number): Buffer => {
  const copy = Buffer.from(bytes);
  copy[at] = (copy[at] ?? 0) ^ 0xff;
  return copy;
};
/** The tree, and this instead of the file's bytes. */
const instead = (ids: Ids, ...entries: readonly Buffer[]): Buffer => packOf([entryOf(honest(ids)), ...entries]);
const length = harmless.body.length;
const text = harmless.body.toString();
const copyBeyond = Buffer.of(3, length, 0b1001_0001, 0, length);

/** A name, the bytes, and what the refusal says. */
export const brokenPacks: (readonly [name: string, make: (ids: Ids) => Buffer, says: RegExp])[] = [
  ["no byte", () => Buffer.alloc(0), /early EOF|bad pack/],
  ["half of one", (ids) => honestPack(ids).subarray(0, 60), /early EOF|unexpected end|inflate/],
  ["a wrong sum at its end", (ids) => changed(honestPack(ids), honestPack(ids).length - 1), /did not match|corrupt/],
  ["no pack", () => Buffer.from("#!/bin/sh\necho this is no pack\n"), /bad pack file/],
  ["a version that is not known", (ids) => packOf([entryOf(honest(ids))], { version: 9 }), /unknown pack file version/],
  ["more objects said than there are", (ids) => packOf([entryOf(honest(ids))], { count: 3 }), /.*/],
  [
    "more objects said than a Task can have",
    (ids) => packOf([entryOf(honest(ids))], { count: 2 ** 32 - 1 }),
    /at most 1000000 objects in the Task's pack, got 4294967295/,
  ],
  [
    "an object longer than it says",
    (ids) => instead(ids, Buffer.concat([entryHead(3, length - 2), entryOf(harmless).subarray(1)])),
    /inflate|corrupt|exit code/,
  ],
  [
    "an object shorter than it says",
    (ids) => instead(ids, Buffer.concat([entryHead(3, length + 5), entryOf(harmless).subarray(1)])),
    /inflate|exit code/,
  ],
  [
    "an object that needs all memory",
    (ids) => instead(ids, Buffer.concat([entryHead(2, 2 ** 50), entryOf(harmless).subarray(1)])),
    /allocate|memory/,
  ],
  [
    "bytes that cannot be inflated",
    (ids) => instead(ids, Buffer.concat([entryHead(3, length), Buffer.alloc(40, 0x55)])),
    /inflate/,
  ],
  [
    "an object of no kind",
    (ids) => instead(ids, Buffer.concat([entryHead(5, length), entryOf(harmless).subarray(1)])),
    /bad object type|unknown/i,
  ],
  [
    "a difference to what nobody has",
    (ids) => instead(ids, deltaOf(idOf(blob("nobody has this")), insertion(15, length, text))),
    /unresolved delta|missing/,
  ],
  [
    "a difference that lies about its result",
    (ids) => instead(ids, deltaOf(ids.a, insertion(2, 2 ** 30, text))),
    /delta|exit code/,
  ],
  ["a difference that copies from beyond", (ids) => instead(ids, deltaOf(ids.a, copyBeyond)), /delta|exit code/],
  [
    "a difference to what lies before the pack",
    (ids) =>
      instead(ids, Buffer.concat([entryHead(6, 3), Buffer.of(0xff, 0xff, 0xff, 0x7f), entryOf(harmless).subarray(1)])),
    /offset|delta|exit code/,
  ],
  [
    "two differences to each other",
    (ids) => {
      // Neither can be resolved, so neither has an id.
      const one = idOf(blob("one"));
      return instead(ids, deltaOf(one, insertion(3, length, text)), deltaOf(asFile, insertion(length, 3, "one")));
    },
    /unresolved delta/,
  ],
  [
    "a tree in the place of the file",
    (ids) => instead(ids, entryOf(treeOf([["100644", "x", ids.a]]))),
    /unexpected type|missing|broken/,
  ],
];

/** A name, what is put at the path, and what the refusal says. The control gives whether a plain reader was misled. */
export const otherFiles: (readonly [
  name: string,
  make: (path: string, pack: Buffer) => unknown,
  says: RegExp,
  plain: string,
])[] = [
  ["nothing", () => undefined, /pack/, "refused"],
  ["a FIFO", (path) => execFileSync("mkfifo", [path]), /Expected a regular file|ENXIO/, "waits"],
  [
    "a link",
    (path, pack) => {
      writeFileSync(`${path}.elsewhere`, pack);
      symlinkSync(`${path}.elsewhere`, path);
    },
    /ELOOP|link/,
    "PACK",
  ],
  ["a link to an endless device", (path) => symlinkSync("/dev/zero", path), /ELOOP|link/, "0000"],
  ["a folder", (path) => mkdirSync(path), /got a folder/, "refused"],
  [
    "a socket",
    (path) =>
      new Promise<void>((resolve) => {
        const server = createServer().listen(path, () => resolve());
        server.unref();
      }),
    /ENXIO|socket/,
    "refused",
  ],
  [
    "more bytes than a pack may have",
    (path) => {
      writeFileSync(path, "PACK");
      truncateSync(path, 8 * 1024 ** 3 + 1);
    },
    /at most 8589934592 bytes/,
    "PACK",
  ],
];
