import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { Client } from "pg";
import { silent } from "../../src/log.ts";
import { createPostgresStore } from "../../src/store/postgres/postgres.ts";
import { createSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import type { RunningBounds } from "../../src/store/running.ts";
import type { Store } from "../../src/store/store.ts";
import { fill, type Filled, postgresSink, type Sink, type Size, sqliteSink } from "./large/fill.ts";
import { freshSchema, postgresURL } from "./postgres.ts";

/** The implementations of the store, each on a place of its own that is removed with it. */

export type Place = AsyncDisposable & {
  store: Store;
  dataDir: string;
  /** Closes the store and opens it again, or opens another one beside it where the database allows that. */
  reopen?: () => Promise<Store>;
  beside?: () => Promise<Store>;
  /** Opens one beside it that is a node of several. */
  asNode?: () => Promise<Store>;
  /** Statements behind the store's back; the rows of a `select`. */
  sql?: (text: string) => Promise<object[]>;
  /** What another process needs to open it: a file, or an address and a schema. */
  at?: readonly string[];
  /** Closes the store, fills its database with a log of many Tasks (`large/fill.ts`), and opens it again. */
  fillLog?: (size: Size) => Promise<Filled>;
};

/** `bounds`: on the Tasks that run. */
export type Backend = { name: string; open: (bounds?: RunningBounds) => Promise<Place> };

const temporary = async (scope: AsyncDisposableStack): Promise<string> => {
  const dataDir = await mkdtemp(join(tmpdir(), "sortie-store-"));
  scope.defer(() => rm(dataDir, { recursive: true, force: true }));
  return dataDir;
};

const fillWith = async (sink: Sink, size: Size): Promise<Filled> => {
  await using open = sink;
  return await fill(open, size);
};

const sqliteFile: Backend = {
  name: "SQLite file",
  async open(bounds) {
    const scope = new AsyncDisposableStack();
    const dataDir = await temporary(scope);
    const file = join(dataDir, "s.db");
    const openStore = async () => scope.use(await createSqliteStore({ file, dataDir, log: silent, bounds }));
    const place: Place = {
      store: await openStore(),
      dataDir,
      at: [file],
      async reopen() {
        await place.store[Symbol.asyncDispose]();
        place.store = await openStore();
        return place.store;
      },
      async sql(text) {
        const database = new Database(file);
        const rows = /^\s*select/.test(text) ? database.prepare<[], object>(text).all() : [];
        if (rows.length === 0) database.exec(text);
        database.close();
        return rows;
      },
      async fillLog(size) {
        await place.store[Symbol.asyncDispose]();
        const filled = await fillWith(sqliteSink(file), size);
        place.store = await openStore();
        return filled;
      },
      [Symbol.asyncDispose]: () => scope.disposeAsync(),
    };
    return place;
  },
};

const sqliteMemory: Backend = {
  name: "SQLite :memory:",
  async open(bounds) {
    const scope = new AsyncDisposableStack();
    const dataDir = await temporary(scope);
    const store = scope.use(await createSqliteStore({ file: ":memory:", dataDir, log: silent, bounds }));
    return { store, dataDir, [Symbol.asyncDispose]: () => scope.disposeAsync() };
  },
};

const postgres = (url: string): Backend => ({
  name: "PostgreSQL",
  async open(bounds) {
    const scope = new AsyncDisposableStack();
    const dataDir = await temporary(scope);
    const schema = scope.use(freshSchema(url)).name;
    const options = { url, dataDir, log: silent, schema, bounds };
    const openStore = async () => scope.use(await createPostgresStore(options));
    const place: Place = {
      store: await openStore(),
      dataDir,
      at: [url, schema],
      async reopen() {
        await place.store[Symbol.asyncDispose]();
        place.store = await openStore();
        return place.store;
      },
      beside: openStore,
      asNode: async () => {
        const node = { name: "n0", instance: "i0", turn: () => Promise.resolve(undefined) };
        return scope.use(await createPostgresStore({ ...options, node }));
      },
      async sql(text) {
        const client = new Client({ connectionString: url, options: `-c search_path=${schema}` });
        await client.connect();
        try {
          return (await client.query<object>(text)).rows;
        } finally {
          await client.end();
        }
      },
      async fillLog(size) {
        await place.store[Symbol.asyncDispose]();
        const filled = await fillWith(await postgresSink(url, schema), size);
        place.store = await openStore();
        return filled;
      },
      [Symbol.asyncDispose]: () => scope.disposeAsync(),
    };
    return place;
  },
});

export const backends: Backend[] = [
  sqliteFile,
  sqliteMemory,
  ...(postgresURL === undefined ? [] : [postgres(postgresURL)]),
];
