import { readdirSync, utimesSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Client } from "pg";
import { silent } from "../../src/log.ts";
import { createBlobs, temporaryFolder } from "../../src/store/blob/folder.ts";
import { fromFolder, movingFrom } from "../../src/store/blob/move.ts";
import { createS3Blobs } from "../../src/store/blob/s3.ts";
import { createPostgresStore } from "../../src/store/postgres/postgres.ts";
import type { Blobs, Store } from "../../src/store/store.ts";
import { startS3 } from "../harness/double/s3.ts";
import { freshSchema, postgresURL } from "../harness/postgres.ts";
import { temporary } from "../harness/project.ts";

/** Every place for blobs, to be tested. */

export type Place = AsyncDisposable & {
  blobs: Blobs;
  /** The same place, opened by another process. */
  other: Blobs;
  /** All that is there of blobs, half ones included. */
  left(): Promise<string[]>;
  /** How many of its answers are under way, or hold its tables. */
  open(): Promise<number>;
  /** What another process needs to open it: `fixtures/store/large-blob.ts`. */
  at: object;
  /** Makes a blob an hour old. */
  age(sha256: string): Promise<void>;
};

const filesIn = (path: string): string[] =>
  readdirSync(path, { recursive: true, encoding: "utf8" }).filter((name) => name.length > temporaryFolder.length);

const inFolder = async (): Promise<Place> => {
  const folder = temporary("sortie-blobs-");
  const hour = new Date(Date.now() - 3_600_000);
  return {
    blobs: createBlobs(folder.path),
    other: createBlobs(folder.path),
    left: async () => filesIn(folder.path),
    open: async () => 0,
    at: { folder: folder.path },
    age: async (sha256) => utimesSync(join(folder.path, sha256.slice(0, 2), sha256), hour, hour),
    async [Symbol.asyncDispose]() {
      folder[Symbol.dispose]();
    },
  };
};

type Database = Place & { sql(text: string): Promise<object[]>; store(blobs: "database" | Blobs): Promise<Store> };

export const inDatabase = async (): Promise<Database> => {
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
    store: open,
    open: async () => (await sql(`select 1 from pg_locks where relation = '${schema}.blob_parts'::regclass`)).length,
    left: async () =>
      (await sql("select sha256 from blobs union select sha256 from blob_parts")).map((row) =>
        Object.values(row).join(),
      ),
    at: { database: { url, schema, dataDir: folder.path } },
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
    left: async () => [...bucket.objects.keys()],
    open: async () => bucket.open(),
    at: { bucket: bucket.place },
    async age(sha256) {
      const found = bucket.objects.get(`sortie/blobs/${sha256.slice(0, 2)}/${sha256}`);
      if (found !== undefined) found.at -= 3_600_000;
    },
    [Symbol.asyncDispose]: () => bucket[Symbol.asyncDispose](),
  };
};

/** One of its blobs is damaged, so that the move is never over, and both places are asked. */
const onTheMove = async (): Promise<Place> => {
  const scope = new AsyncDisposableStack();
  const folder = scope.use(temporary("sortie-blobs-"));
  const bucket = scope.use(await inBucket());
  const hurt = "ab".repeat(32);
  await mkdir(join(folder.path, "ab"));
  await writeFile(join(folder.path, "ab", hurt), "not these bytes");
  const moving = scope.use(await movingFrom(fromFolder(folder.path), bucket.blobs, silent));
  await moving.moved;
  return {
    ...bucket,
    blobs: moving.blobs,
    at: { ...bucket.at, folder: folder.path },
    [Symbol.asyncDispose]: () => scope.disposeAsync(),
  };
};

export const kinds: [name: string, open: () => Promise<Place>][] = [
  ["a folder", inFolder],
  ["a bucket", inBucket],
  ["a folder that moves to a bucket", onTheMove],
  ...(postgresURL === undefined
    ? []
    : ([["the database", inDatabase]] as const).map(([name, open]) => [name, open] as [string, () => Promise<Place>])),
];
