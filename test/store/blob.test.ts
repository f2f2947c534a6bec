import { randomBytes } from "node:crypto";
import { mkdirSync, utimesSync, writeFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { hashOf } from "../../src/hash.ts";
import { fromFolder, movingFrom } from "../../src/store/blob/move.ts";
import { createS3Blobs } from "../../src/store/blob/s3.ts";
import { createBlobs, temporaryFolder } from "../../src/store/blob/folder.ts";
import { createPostgresStore } from "../../src/store/postgres/postgres.ts";
import type { Blobs, Store } from "../../src/store/store.ts";
import { startS3 } from "../harness/double/s3.ts";
import { countSkipped, freshSchema, postgresURL } from "../harness/postgres.ts";
import { temporary, until } from "../harness/project.ts";
import { Client } from "pg";

/** What every place for blobs keeps to. */

type Place = AsyncDisposable & {
  blobs: Blobs;
  /** The same place, opened by another process. */
  other: Blobs;
  /** Makes a blob an hour old. */
  age(sha256: string): Promise<void>;
};

const inFolder = async (): Promise<Place> => {
  const folder = temporary("sortie-blobs-");
  const hour = new Date(Date.now() - 3_600_000);
  return {
    blobs: createBlobs(folder.path),
    other: createBlobs(folder.path),
    age: async (sha256) => utimesSync(join(folder.path, sha256.slice(0, 2), sha256), hour, hour),
    async [Symbol.asyncDispose]() {
      folder[Symbol.dispose]();
    },
  };
};

type Database = Place & { sql(text: string): Promise<object[]>; open(blobs: "database" | Blobs): Promise<Store> };

const inDatabase = async (): Promise<Database> => {
  const scope = new AsyncDisposableStack();
  const url = postgresURL ?? "";
  const folder = scope.use(temporary("sortie-blobs-"));
  const schema = scope.use(freshSchema(url)).name;
  const open = async (where: "database" | Blobs) =>
    scope.use(await createPostgresStore({ url, dataDir: folder.path, log: silent, schema, blobs: where }));
  const { blobs } = await open("database");
  const { blobs: other } = await open("database");
  const sql = async (text: string): Promise<object[]> => {
    const client = new Client({ connectionString: url, options: `-c search_path=${schema}` });
    await client.connect();
    try {
      return (await client.query<object>(text)).rows;
    } finally {
      await client.end();
    }
  };
  return {
    blobs,
    other,
    sql,
    open,
    age: async (sha256) => void (await sql(`update blobs set at = at - 3600000 where sha256 = '${sha256}'`)),
    [Symbol.asyncDispose]: () => scope.disposeAsync(),
  };
};

const inBucket = async (): Promise<Place> => {
  const bucket = await startS3();
  const open = () => createS3Blobs(bucket.place, new AbortController().signal);
  return {
    blobs: open(),
    other: open(),
    async age(sha256) {
      const found = bucket.objects.get(`sortie/blobs/${sha256.slice(0, 2)}/${sha256}`);
      if (found !== undefined) found.at -= 3_600_000;
    },
    [Symbol.asyncDispose]: () => bucket[Symbol.asyncDispose](),
  };
};

const kinds: [name: string, open: () => Promise<Place>][] = [
  ["a folder", inFolder],
  ["a bucket", inBucket],
  ...(postgresURL === undefined
    ? []
    : ([["the database", inDatabase]] as const).map(([name, open]) => [name, open] as [string, () => Promise<Place>])),
];

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
    expect(await place.blobs.get("0".repeat(64))).toBeUndefined();
    expect(await place.blobs.get("../../etc/passwd")).toBeUndefined();
    expect(await place.blobs.get("' or true --")).toBeUndefined();
  });

  test("one that is put by many at once is there once and whole", async () => {
    await using place = await open();
    const bytes = randomBytes(1024 ** 2);
    const puts = await Promise.all(
      Array.from({ length: 12 }, (_, n) => (n % 2 === 0 ? place.blobs : place.other).put(bytes)),
    );
    expect(new Set(puts.map(({ sha256 }) => sha256)).size).toBe(1);
    expect((await place.blobs.get(puts[0]?.sha256 ?? ""))?.equals(bytes)).toBe(true);
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
    const left = (await readdir(folder.path, { recursive: true })).filter((name) => name.length > temporaryFolder.length);
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
  const store = await place.open(inBucketAlone);
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
if (postgresURL === undefined) countSkipped(6);
