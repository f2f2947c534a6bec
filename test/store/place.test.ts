import { expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { createBlobs } from "../../src/store/blob/folder.ts";
import { fromFolder } from "../../src/store/blob/move.ts";
import { wholeOf } from "../../src/store/blob/piece.ts";
import { placeBlobs } from "../../src/store/blob/place.ts";
import type { Blobs } from "../../src/store/store.ts";
import { blobsInMemory } from "../harness/double/blobs.ts";
import { temporary } from "../harness/project.ts";

/** Blobs of a folder that are asked to move while they are written and read. */

test("what is being put when the move begins is moved, too; control: nothing moves before it is asked for", async () => {
  using folder = temporary("sortie-place-");
  const inFolder = createBlobs(folder.path);
  const { kept, blobs: target } = blobsInMemory();
  let release = () => {};
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const slow: Blobs = { ...inFolder, put: (bytes) => gate.then(() => inFolder.put(bytes)) };
  const early = await inFolder.put(Buffer.from("early"));
  await using placed = await placeBlobs({
    folder: slow,
    source: fromFolder(folder.path),
    target: () => Promise.resolve(target),
    to: "database",
    isBegun: false,
    log: silent,
  });
  const late = placed.blobs.put(Buffer.from("late"));
  expect(placed.move.state()).toEqual({ moved: 0, isOver: false });
  expect([kept.size, (await placed.blobs.get(early.sha256))?.toString()]).toEqual([0, "early"]);
  await Promise.all([placed.move.begin(), placed.move.begin()]);
  const next = await placed.blobs.put(Buffer.from("next"));
  expect([...kept.keys()]).toEqual([next.sha256]);
  expect((await placed.blobs.get(early.sha256))?.toString()).toBe("early");
  // It may be named by a commit that is under way.
  expect(await placed.blobs.drop(early.sha256)).toBe("young");
  release();
  const { sha256 } = await late;
  await placed.move.over;
  expect(new Set(kept.keys())).toEqual(new Set([early.sha256, next.sha256, sha256]));
  expect(placed.move.state()).toEqual({ moved: 2, isOver: true });
  expect(await fromFolder(folder.path).isEmpty()).toBe(true);
  expect((await placed.blobs.get(sha256))?.toString()).toBe("late");
});

test("a target that cannot be had leaves everything where it is, and is asked for again", async () => {
  using folder = temporary("sortie-place-");
  const inFolder = createBlobs(folder.path);
  const { kept, blobs: target } = blobsInMemory();
  let fails = true;
  await using placed = await placeBlobs({
    folder: inFolder,
    source: fromFolder(folder.path),
    target: () => (fails ? Promise.reject(new Error("away")) : Promise.resolve(target)),
    to: "database",
    isBegun: false,
    log: silent,
  });
  const { sha256 } = await placed.blobs.put(Buffer.from("one"));
  await expect(placed.move.begin()).rejects.toThrow("away");
  expect((await placed.blobs.get(sha256))?.toString()).toBe("one");
  fails = false;
  await placed.move.begin();
  await placed.move.over;
  expect([...kept.keys()]).toEqual([sha256]);
});

test("one that is being read when the move begins is read to its end", async () => {
  using folder = temporary("sortie-place-");
  const { blobs: target } = blobsInMemory();
  await using placed = await placeBlobs({
    folder: createBlobs(folder.path),
    source: fromFolder(folder.path),
    target: () => Promise.resolve(target),
    to: "database",
    isBegun: false,
    log: silent,
  });
  const bytes = Buffer.alloc(700_000, "a blob");
  const { sha256 } = await placed.blobs.write(() => [bytes]);
  const [unread, begun] = [await placed.blobs.read(sha256), await placed.blobs.read(sha256)];
  const reading = begun?.pieces[Symbol.asyncIterator]();
  const first = await reading?.next();
  await placed.move.begin();
  await placed.move.over;
  expect(await fromFolder(folder.path).isEmpty()).toBe(true);
  const rest: Buffer[] = [first?.value as Buffer];
  for (let next = await reading?.next(); next?.done === false; next = await reading?.next()) rest.push(next.value);
  expect(Buffer.concat(rest).equals(bytes)).toBe(true);
  expect(unread && (await wholeOf(unread)).equals(bytes)).toBe(true);
});
