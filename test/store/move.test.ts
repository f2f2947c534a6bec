import { renameSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { createBlobs } from "../../src/store/blob/folder.ts";
import { fromFolder, movingFrom, type Source } from "../../src/store/blob/move.ts";
import { readOf, wholeOf } from "../../src/store/blob/piece.ts";
import type { Blobs } from "../../src/store/store.ts";
import { blobsInMemory } from "../harness/double/blobs.ts";
import { temporary } from "../harness/project.ts";

/** Blobs on their way, where a read of their old place fails for a moment. */

/** A place whose reads fail until it is healed. */
const breakAt = (path: string): (() => void) => {
  renameSync(path, `${path}.aside`);
  symlinkSync(path, path);
  return () => {
    rmSync(path);
    renameSync(`${path}.aside`, path);
  };
};

test("a shelf that cannot be listed while the others move: its blobs are not lost, and not called absent", async () => {
  using folder = temporary("sortie-move-");
  const from = createBlobs(folder.path);
  const all = [await from.put(Buffer.from("one")), await from.put(Buffer.from("two"))].map(({ sha256 }) => sha256);
  let heal: (() => void) | undefined;
  let other = "";
  const { blobs, kept } = blobsInMemory((sha256) => {
    other = all.find((one) => one !== sha256) ?? "";
    heal ??= breakAt(join(folder.path, other.slice(0, 2)));
  });
  const said = Promise.withResolvers<string>();
  const log = { ...silent, warn: (_data: object, text: string) => said.resolve(text) };
  await using moving = await movingFrom(fromFolder(folder.path), blobs, log);
  void moving.moved.then(() => said.resolve("all have moved"));
  expect(await said.promise).toContain("could not be moved");
  await expect(moving.blobs.get(other)).rejects.toMatchObject({ code: "store_unavailable" });
  expect(kept.size).toBe(1);
  heal?.();
  expect((await moving.blobs.get(other))?.length).toBe(3);
  // Control: what was never there.
  expect(await moving.blobs.get("ab".repeat(32))).toBeUndefined();
});

test("what a source has left when the move is over is looked up there still; control: an empty one is not asked", async () => {
  const left = Buffer.from("left");
  const asked: string[] = [];
  const source = (isEmpty: (looks: number) => boolean): Source => {
    let looks = 0;
    return {
      name: "a double",
      isEmpty: async () => isEmpty((looks += 1)),
      async *all() {},
      get: async (sha256) => (asked.push(sha256), left),
      read: async (sha256) => (asked.push(sha256), readOf(left)),
      remove: async () => {},
    };
  };
  const { blobs } = blobsInMemory();
  await using moving = await movingFrom(
    source(() => false),
    blobs,
    silent,
  );
  await moving.moved;
  expect(await moving.blobs.get("a")).toEqual(left);
  await using moved = await movingFrom(
    source((looks) => looks > 1),
    blobs,
    silent,
  );
  await moved.moved;
  expect(await moved.blobs.get("b")).toBeUndefined();
  expect(asked).toEqual(["a"]);
  const found = await moving.blobs.read("c");
  expect(found && (await wholeOf(found))).toEqual(left);
  expect([await moved.blobs.read("d"), asked]).toEqual([undefined, ["a", "c"]]);
});

test("one that moves while it is asked for is found, also when it is the last", async () => {
  using folder = temporary("sortie-move-");
  const { sha256 } = await createBlobs(folder.path).put(Buffer.from("last"));
  const { blobs } = blobsInMemory();
  const begun = Promise.withResolvers<void>();
  let looks = 0;
  const slow: Blobs = {
    ...blobs,
    async put(bytes) {
      await begun.promise;
      return blobs.put(bytes);
    },
    async get(asked) {
      const found = await blobs.get(asked);
      if ((looks += 1) > 1) return found;
      begun.resolve();
      await moving.moved;
      return found;
    },
  };
  await using moving = await movingFrom(fromFolder(folder.path), slow, silent);
  expect(await moving.blobs.get(sha256)).toEqual(Buffer.from("last"));
});

test("one that moves while it is read is read on where it is then; control: one that is lost is an error", async () => {
  const { kept, blobs } = blobsInMemory();
  const bytes = Buffer.from("what was here, and is there now");
  async function* half() {
    yield bytes.subarray(0, 5);
    throw new Error("it has gone");
  }
  const source: Source = {
    name: "a double",
    isEmpty: async () => false,
    async *all() {},
    get: async () => undefined,
    read: async () => ({ bytes: bytes.length, pieces: half() }),
    remove: async () => {},
  };
  await using moving = await movingFrom(source, blobs, silent);
  const lost = await moving.blobs.read("a");
  await expect(wholeOf(lost ?? readOf(bytes))).rejects.toThrow("it has gone");
  const found = await moving.blobs.read("a");
  kept.set("a", bytes);
  expect(found && (await wholeOf(found))).toEqual(bytes);
});
