import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, test, vi } from "vitest";
import { silent } from "../../src/log.ts";
import { indexes } from "../../src/store/sql/migration/index-set.ts";
import { formOfBefore } from "../harness/large/form-of-before.ts";
import { createSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import type { Store } from "../../src/store/store.ts";
import { message } from "../fixtures/store/message.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { temporary } from "../harness/project.ts";
import { backends, type Place } from "../harness/store.ts";
import { unpack } from "../harness/zip-reader.ts";

/** Databases of before: what they hold is found as ever, and what is new in them is filled. */

const project = "/work/p0/.git";

/** What a large log answers. */
const asked = async (store: Store, mission: string): Promise<unknown[]> => [
  await store.projects(50),
  await store.list({ project, limit: 200 }),
  await store.list({ project, limit: 200, metadata: { team: "red" }, search: "cents" }),
  await store.since(0, 1000, { project }),
  await store.since(0, 1000, { project: "/work/p2/.git" }),
  await store.since(11_000, 1000, { project: "/work/p3/.git" }),
  await store.since(0, 1000, { mission }),
  await store.position(),
];

describe.each(backends.filter(({ name }) => name !== "SQLite :memory:"))("$name", ({ name, open }) => {
  /** A log that was in use before; `before`: what it answered. */
  const openOld = async (): Promise<Place & { sql: NonNullable<Place["sql"]>; before: unknown[]; mission: string }> => {
    const place = (await open()) as Place & { sql: NonNullable<Place["sql"]> };
    const filled = await place.fillLog?.({ tasks: 700, projects: 5, turns: 10 });
    const mission = filled?.mission.stream ?? "";
    const before = await asked(place.store, mission);
    await place.store[Symbol.asyncDispose]();
    await place.sql(formOfBefore);
    await place.reopen?.();
    return Object.assign(place, { before, mission });
  };

  test("an old log answers everything as before, also where new events come on top", async () => {
    await using place = await openOld();
    const { store, before, mission } = place;
    expect(await asked(store, mission)).toEqual(before);
    const [task] = await store.list({ project: "/work/p2/.git", limit: 1 });
    const stream = task?.taskID ?? "";
    const head = await store.position();
    expect(head).toBeGreaterThan(15_000);
    await store.commit({ appends: [{ stream, expected: "any", events: [message()] }] });
    for (const after of [0, head - 12_000, head]) {
      const found: number[] = [];
      for (let edge = after; ; ) {
        const page = await store.since(edge, 500, { project: "/work/p2/.git" });
        if (page.length === 0) break;
        found.push(...page.map(({ position }) => position));
        edge = found.at(-1) ?? 0;
      }
      expect(found.at(-1)).toBe(head + 1);
      if (after === head) expect(found).toHaveLength(1);
      else expect(found.length).toBeGreaterThan(10);
    }
  });

  test("blobs that old events name are kept until that is known, and then only what is named", async () => {
    await using place = await openOld();
    const { store } = place;
    const [first, second] = await store.list({ project, limit: 2, lifecycleStatus: "completed" });
    const shared = /"digest":"([0-9a-f]{64})"/.exec(JSON.stringify(await store.read(first?.taskID ?? "")))?.[1] ?? "";
    expect(JSON.stringify(await store.read(second?.taskID ?? ""))).toContain(shared);
    // It alone names another.
    const own = "ab".repeat(32);
    await place.sql(
      `update events set data = replace(data, '"digest":"${shared}"', '"digest":"${own}"') where stream = '${first?.taskID}'`,
    );
    await store.orphans.markOrphans(first?.taskID ?? "");
    expect(await store.erase(first?.taskID ?? "")).toBe(true);
    expect(await place.sql(`select sha256 from orphans where sha256 = '${own}'`)).toHaveLength(1);
    // Nothing is dropped while some events are not looked through.
    expect(await store.orphans.find()).toEqual([]);
    const stop = new AbortController();
    stop.abort();
    await store.orphans.nameBlobs(stop.signal);
    expect(await store.orphans.find()).toEqual([]);
    await store.orphans.nameBlobs(new AbortController().signal);
    const orphans = await store.orphans.find();
    expect(orphans).toContain(own);
    expect(orphans).not.toContain(shared);
    // Each Task and each Mission, as if they had been written today.
    const unnamed = await place.sql(
      `select stream from tasks where not exists
        (select 1 from blob_names where blob_names.stream = tasks.stream and sha256 = '${shared}')`,
    );
    expect(unnamed).toEqual([]);
  });

  if (name === "PostgreSQL")
    test("a log in use gets its indexes while the service runs, and loses those they replace", async () => {
      await using place = await openOld();
      const names = async (): Promise<string[]> =>
        (
          (await place.sql(
            "select relname as name from pg_index join pg_class on pg_class.oid = indexrelid where relnamespace = current_schema()::regnamespace and indisvalid",
          )) as { name: string }[]
        ).map((row) => row.name);
      const wanted = indexes.map((index) => index.name);
      await vi.waitFor(async () => expect(await names()).toEqual(expect.arrayContaining(wanted)), { timeout: 15_000 });
      await vi.waitFor(async () => expect(await names()).not.toContain("tasks_list"), { timeout: 15_000 });
      // What another process left half made is made anew.
      await place.store[Symbol.asyncDispose]();
      await place.sql("update pg_index set indisvalid = false where indexrelid = 'tasks_page'::regclass");
      await place.reopen?.();
      await vi.waitFor(async () => expect(await names()).toEqual(expect.arrayContaining(wanted)), { timeout: 15_000 });
    });
});
if (postgresURL === undefined) countSkipped(3);

/** A mount namespace, as anybody may have one. */
const userMount = ["--user", "--map-root-user", "--mount"];

const fixture = join(import.meta.dirname, "../fixtures/71a76f3/data.zip");
const oldFolder = (folder: string): string => {
  for (const [path, bytes] of unpack(readFileSync(fixture)))
    if (path.startsWith("sortie.db")) writeFileSync(join(folder, path), bytes);
  return join(folder, "sortie.db");
};

test("a migration of SQLite says first that it copies the database, and how large that is", async () => {
  using folder = temporary();
  const file = oldFolder(folder.path);
  const lines: string[] = [];
  const log = { ...silent, info: (_data: object, text: string) => void lines.push(text) };
  await (await createSqliteStore({ file, dataDir: folder.path, log }))[Symbol.asyncDispose]();
  expect(readdirSync(folder.path).filter((path) => path.includes(".before-0004-orphans-"))).toHaveLength(1);
  expect(lines).toEqual([
    expect.stringContaining("it is copied first"),
    expect.stringContaining("the database was copied"),
  ]);
});

test("of copies of one form the last is kept, and none that was cut off; control: one of another form stays", async () => {
  using folder = temporary();
  const file = oldFolder(folder.path);
  const copies = () => readdirSync(folder.path).filter((path) => path.includes(".before-"));
  const [cut, same, other] = [".before-part", ".before-0004-orphans-2026", ".before-0003-webhooks-2026"].map(
    (name) => `sortie.db${name}${name.endsWith("part") ? "" : "-01-01T000000.000Z"}`,
  );
  for (const name of [cut, same, other]) writeFileSync(join(folder.path, name ?? ""), "x");
  await (await createSqliteStore({ file, dataDir: folder.path, log: silent }))[Symbol.asyncDispose]();
  expect(copies().toSorted()).toEqual([other, expect.stringContaining(".before-0004-orphans-")]);
  expect(copies()).not.toContain(same);
});

/**
 * What a start says where the folder's disk has this much more room than the database takes. `earlier`: so much of it
 * is taken by the copy that an earlier start has made.
 */
const startOn = (folder: string, file: string, more: number, earlier = 0): string => {
  const { size } = statSync(file);
  const script = join(import.meta.dirname, "../fixtures/store/open-store.ts");
  const place = join(folder, "disk");
  const kilobytes = Math.ceil((size * (1 + more)) / 1024) + 64;
  return execFileSync(
    "unshare",
    [
      ...userMount,
      "bash",
      "-ec",
      `mkdir -p "$1"; mount -t tmpfs -o size=${kilobytes}k none "$1"; cp "$2" "$1/sortie.db"
       head -c ${Math.floor(size * earlier)} /dev/zero > "$1/sortie.db.before-0004-orphans-2026-01-01T000000.000Z"
       "$3" "$4" "$1"; ls "$1" | tr '\\n' ' '`,
      "bash",
      place,
      file,
      process.execPath,
      script,
    ],
    { encoding: "utf8" },
  );
};

const canMount = (): boolean => {
  try {
    execFileSync("unshare", [...userMount, "true"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
};

/** Names of copies in a list of names, but for the one that was there. */
const copiesIn = (names: string): string[] =>
  names
    .trim()
    .split(" ")
    .filter((name) => name.includes("before") && !name.includes("2026-01-01"));

test("without room for the copy a migration does not begin, and the remedy is told", (context) => {
  if (!canMount()) return context.skip("user namespaces are not allowed here");
  using folder = temporary();
  const file = oldFolder(folder.path);
  const [answer = "", files = ""] = startOn(folder.path, file, 0.5).split("\n");
  expect(JSON.parse(answer)).toEqual({
    exitCode: 78,
    message: expect.stringMatching(/first copies it, which takes .*Free some space there/) as string,
  });
  expect(copiesIn(files)).toEqual([]);
  // Control: with room it goes.
  expect(startOn(folder.path, file, 8)).toMatch(/^opened\n/);
  const database = new Database(file, { readonly: true });
  expect(database.prepare("select count(*) from migrations").pluck().get()).toBe(4);
  database.close();
});

test("what an earlier start has copied gives way where there is no room for both; control: where it would not do, it stays", (context) => {
  if (!canMount()) return context.skip("user namespaces are not allowed here");
  using folder = temporary();
  const file = oldFolder(folder.path);
  const [opened, ...names] = startOn(folder.path, file, 8.5, 8).split("\n");
  expect([opened, copiesIn(names.join(" "))]).toEqual(["opened", [expect.stringContaining(".before-0004-orphans-")]]);
  expect(startOn(folder.path, file, 0.9, 0.1)).toMatch(/78.*2026-01-01T000000\.000Z/s);
});
