import { randomBytes } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { hashOf } from "../../src/hash.ts";
import { fromFolder, movingFrom } from "../../src/store/blob/move.ts";
import { createS3Blobs } from "../../src/store/blob/s3.ts";
import { createBlobs, temporaryFolder } from "../../src/store/blob/folder.ts";
import { wholeOf } from "../../src/store/blob/piece.ts";
import type { Blobs, Pieces } from "../../src/store/store.ts";
import { startS3 } from "../harness/double/s3.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { temporary, until } from "../harness/project.ts";
import { inDatabase, kinds } from "./blob-place.ts";

/** What every place for blobs keeps to. What passes in pieces is in `large-blob.test.ts`, too. */

const read = async (blobs: Blobs, sha256: string): Promise<Buffer | undefined> => {
  const found = await blobs.read(sha256);
  return found && wholeOf(found);
};

describe.each(kinds)("in %s", (_name, open) => {
  test("bytes come back as they were, to every process, whatever their size", async () => {
    await using place = await open();
    for (const size of [0, 1, 256 * 1024, 256 * 1024 + 1, 5 * 1024 ** 2]) {
      const bytes = randomBytes(size);
      const put = await place.blobs.put(bytes);
      expect(put).toEqual({ sha256: await hashOf(bytes), bytes: size });
      expect((await place.other.get(put.sha256))?.equals(bytes)).toBe(true);
      // A view into something larger.
      const large = Buffer.concat([Buffer.from("before"), bytes, Buffer.from("after")]);
      expect(await place.other.put(large.subarray(6, 6 + size))).toEqual(put);
    }
    for (const name of ["0".repeat(64), "../../etc/passwd", "' or true --"])
      expect([await place.blobs.get(name), await place.blobs.read(name)]).toEqual([undefined, undefined]);
  });

  test("pieces come back as they were, however they are cut, and are one blob with what was put whole", async () => {
    await using place = await open();
    for (const size of [0, 1, 1024 ** 2, 1024 ** 2 + 1, 5 * 1024 ** 2 + 7]) {
      const bytes = randomBytes(size);
      for (const most of [size + 1, 300_001, 65_536]) {
        const pieces: Pieces = function* () {
          for (let at = 0; at < size; at += most) yield new Uint8Array(bytes.subarray(at, at + most));
        };
        expect(await place.blobs.write(pieces)).toEqual({ sha256: await hashOf(bytes), bytes: size });
      }
      expect(await place.other.put(bytes)).toEqual({ sha256: await hashOf(bytes), bytes: size });
      const found = await place.blobs.read(await hashOf(bytes));
      const sizes: number[] = [];
      for await (const piece of found?.pieces ?? []) sizes.push(piece.length);
      expect([found?.bytes, sizes.reduce((sum, length) => sum + length, 0)]).toEqual([size, size]);
      expect(Math.max(0, ...sizes)).toBeLessThanOrEqual(256 * 1024);
      expect((await read(place.other, await hashOf(bytes)))?.equals(bytes)).toBe(true);
    }
    expect(await place.left()).toHaveLength(5);
  });

  test("pieces that fail, the first time or the second, or are others then, leave nothing; control: the same that do not", async () => {
    await using place = await open();
    const bytes = randomBytes(3 * 1024 ** 2);
    const piecesOf = (fault: (turn: number, at: number) => Buffer | undefined): Pieces => {
      let turn = 0;
      return function* () {
        turn += 1;
        for (let at = 0; at < bytes.length; at += 65_536) yield fault(turn, at) ?? bytes.subarray(at, at + 65_536);
      };
    };
    const middle = 2 * 1024 ** 2;
    const failing = (which: number) =>
      piecesOf((turn, at) => {
        if (turn >= which && at === middle) throw new Error("the source has failed");
        return undefined;
      });
    const faults: [Pieces, string][] = [
      [failing(1), "the source has failed"],
      [failing(2), "the source has failed"],
      [piecesOf((turn, at) => (turn > 1 && at === middle ? Buffer.alloc(65_536) : undefined)), "got other bytes"],
      [piecesOf((turn, at) => (turn > 1 && at === 0 ? Buffer.alloc(0) : undefined)), "got other bytes"],
      [piecesOf((turn, at) => (turn > 1 && at === 0 ? Buffer.alloc(65_537) : undefined)), "got other bytes"],
    ];
    for (const [pieces, message] of faults) {
      const said = expect.stringContaining(message) as string;
      await expect(place.blobs.write(pieces)).rejects.toMatchObject({ code: "store_unavailable", message: said });
      expect(await place.left()).toEqual([]);
    }
    const { sha256 } = await place.blobs.write(piecesOf(() => undefined));
    expect((await read(place.blobs, sha256))?.equals(bytes)).toBe(true);
    expect(await place.left()).toHaveLength(1);
  });

  test("one that is put by many at once is there once and whole", async () => {
    await using place = await open();
    const bytes = randomBytes(1024 ** 2);
    const large = randomBytes(1024 ** 2 + 1);
    const puts = await Promise.all(
      Array.from({ length: 12 }, (_, n) => (n % 2 === 0 ? place.blobs : place.other).put(bytes)),
    );
    const written = await Promise.all(
      Array.from({ length: 12 }, (_, n) => (n % 2 === 0 ? place.blobs : place.other).write(() => [large])),
    );
    for (const [refs, kept] of [
      [puts, bytes],
      [written, large],
    ] as const) {
      expect(new Set(refs.map(({ sha256 }) => sha256)).size).toBe(1);
      expect((await place.blobs.get(refs[0]?.sha256 ?? ""))?.equals(kept)).toBe(true);
    }
    expect(await place.left()).toHaveLength(2);
  });

  test("a young one is not dropped, an old one is; to put it again makes it young", async () => {
    await using place = await open();
    const { sha256 } = await place.blobs.put(Buffer.from("once"));
    expect(await place.other.drop(sha256)).toBe("young");
    await place.age(sha256);
    await place.other.put(Buffer.from("once"));
    expect(await place.blobs.drop(sha256)).toBe("young");
    await place.age(sha256);
    expect(await place.blobs.drop(sha256)).toBe("dropped");
    expect(await place.other.get(sha256)).toBeUndefined();
    expect(await place.other.drop(sha256)).toBe("absent");
    await place.other.put(Buffer.from("once"));
    expect(await place.blobs.get(sha256)).toEqual(Buffer.from("once"));
    // The same for what is written in pieces.
    const large = randomBytes(1024 ** 2 + 1);
    const { sha256: name } = await place.blobs.write(() => [large]);
    await place.age(name);
    await place.other.write(() => [large]);
    expect(await place.blobs.drop(name)).toBe("young");
    await place.age(name);
    expect(await place.blobs.drop(name)).toBe("dropped");
  });

  test("put and drop at the same time: what was put is there", async () => {
    await using place = await open();
    for (let round = 0; round < 10; round += 1) {
      const bytes = Buffer.from(`round ${round}`);
      const { sha256 } = await place.blobs.put(bytes);
      await place.age(sha256);
      // The sweep of one process; another one names the same bytes anew.
      await Promise.all([place.blobs.drop(sha256), place.blobs.put(bytes)]);
      expect(await place.blobs.get(sha256), `round ${round}`).toEqual(bytes);
    }
  });

  test("put and drop at the same time, in pieces: what was written is there", async () => {
    await using place = await open();
    for (let round = 0; round < 3; round += 1) {
      const bytes = randomBytes(1024 ** 2 + 1);
      const { sha256 } = await place.blobs.write(() => [bytes]);
      await place.age(sha256);
      await Promise.all([place.blobs.drop(sha256), place.blobs.write(() => [bytes])]);
      expect((await read(place.blobs, sha256))?.equals(bytes), `round ${round}`).toBe(true);
    }
  });
});

describe.skipIf(postgresURL === undefined)("from a folder to the database", () => {
  test("all move while they are read, whatever it is stopped in; what is damaged stays, and is said", async () => {
    await using place = await inDatabase();
    using folder = temporary("sortie-move-");
    const from = createBlobs(folder.path);
    const all = await Promise.all(
      Array.from({ length: 60 }, (_, n) => from.put(Buffer.from(`blob ${n} `.repeat(n * 100)))),
    );
    const hurt = "ab".repeat(32);
    mkdirSync(join(folder.path, "ab"), { recursive: true });
    writeFileSync(join(folder.path, "ab", hurt), "not these bytes");
    writeFileSync(join(folder.path, "ab", `${hurt}.0011.tmp`), "half");
    const said: string[] = [];
    const log = { ...silent, warn: (_data: object, text: string) => void said.push(text) };
    const readable = async (blobs: Blobs) => {
      for (const [n, { sha256 }] of all.entries())
        expect((await blobs.get(sha256))?.toString(), String(n)).toBe(`blob ${n} `.repeat(n * 100));
    };
    let rounds = 0;
    for (; rounds < 20; rounds += 1) {
      await using moving = await movingFrom(fromFolder(folder.path), place.blobs, log);
      await readable(moving.blobs);
      expect(await moving.blobs.drop(all[rounds]?.sha256 ?? "")).toBe("young");
      if (rounds > 1) {
        await moving.moved;
        break;
      }
    }
    await readable(place.other);
    const left = (await readdir(folder.path, { recursive: true })).filter(
      (name) => name.length > temporaryFolder.length,
    );
    expect(left).toEqual([`ab/${hurt}`]);
    expect(said).toContain("a blob of the data folder is damaged and was left there");
    expect(await place.sql("select count(*)::int as count from blobs")).toEqual([{ count: 60 }]);
  });
});
test.skipIf(postgresURL === undefined)("from the database to a bucket: all move while they are read", async () => {
  await using place = await inDatabase();
  await using bucket = await startS3();
  const all = await Promise.all(
    Array.from({ length: 40 }, (_, n) => place.blobs.put(Buffer.from(`blob ${n} `.repeat(n)))),
  );
  const inBucketAlone = createS3Blobs(bucket.place, new AbortController().signal);
  const store = await place.store(inBucketAlone);
  const read = async (blobs: Blobs) =>
    Promise.all(all.map(async ({ sha256 }) => (await blobs.get(sha256))?.toString()));
  const expected = all.map((_, n) => `blob ${n} `.repeat(n));
  expect(await read(store.blobs)).toEqual(expected);
  const left = async () => (await place.sql("select sha256 from blobs")).length;
  await until(left, (count) => count === 0);
  expect(await read(inBucketAlone)).toEqual(expected);
  expect(await read(store.blobs)).toEqual(expected);
  // What is put from then on is in the bucket alone.
  const { sha256 } = await store.blobs.put(Buffer.from("new"));
  expect([await left(), await inBucketAlone.get(sha256)]).toEqual([0, Buffer.from("new")]);
});
if (postgresURL === undefined) countSkipped(9);
