import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import Database from "better-sqlite3";
import { expect, test, vi } from "vitest";
import { silent } from "../../src/log.ts";
import { createSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import type { Store } from "../../src/store/store.ts";
import { created } from "../harness/events.ts";
import { temporary } from "../harness/project.ts";
import { seededRandom } from "../harness/random.ts";
import { withoutIndex } from "./without-index.ts";

/**
 * A process that is killed while it fills the index of texts, or rewrites it: the next one goes on, and a search misses
 * nothing.
 */

const directory = "/work/project";
const many = 900;
const letters = "abcdefghijklmnoprstuvwyz ";
/** Of a script that nothing else here has: what of it is left of a deleted Task can be told. */
const mark = "ᚠᚢᚦᚨᚱᚲ";

const fixture = join(import.meta.dirname, "../fixtures/store/index-on.ts");
/** With a letter that no id and no filler has. */
const words = Array.from({ length: many }, (_, at) => `é${at}é`);

const open = (dataDir: string): Promise<Store> =>
  createSqliteStore({ file: join(dataDir, "s.db"), dataDir, log: silent });

type Index = { indexed: number; upto: string | null; removed: number; merged: number };

const within = <T>(dataDir: string, work: (database: Database.Database) => T): T => {
  const database = new Database(join(dataDir, "s.db"));
  try {
    return work(database);
  } finally {
    database.close();
  }
};

/** What the file says of its index, whoever writes meanwhile. `merged`: changes by the last step of a rewriting. */
const look = (dataDir: string): Index =>
  within(dataDir, (database) =>
    database
      .prepare<[], Index>("select (select count(*) from text_ids) as indexed, upto, removed, merged from text_index")
      .get(),
  ) as Index;

/**
 * Lets a process work on the folder, and kills it once the file was so many times as `when` says. Resolves to what it
 * acknowledged.
 */
const killed = async (
  dataDir: string,
  word: string,
  erase: readonly string[],
  when: (index: Index) => boolean,
  times = 1,
): Promise<{ made: Map<string, string>; erased: string[]; index: Index }> => {
  const child = spawn(process.execPath, [fixture, dataDir, word, ...erase], { stdio: ["ignore", "pipe", "inherit"] });
  const gone = once(child, "exit");
  const made = new Map<string, string>();
  const erased: string[] = [];
  let isOpen = false;
  createInterface({ input: child.stdout }).on("line", (line) => {
    const [what, first = "", second = ""] = line.split(" ");
    if (what === "opened") isOpen = true;
    if (what === "made") made.set(first, second);
    if (what === "erased") erased.push(first);
  });
  try {
    let left = times;
    await vi.waitFor(
      () => {
        if (isOpen && when(look(dataDir))) left -= 1;
        if (left > 0) throw new Error("Not yet");
      },
      { timeout: 30_000, interval: 1 },
    );
  } finally {
    child.kill("SIGKILL");
    await gone;
  }
  return { made, erased, index: look(dataDir) };
};

const found = async (store: Store, search: string, project = directory): Promise<string[]> =>
  (await store.list({ project, limit: 10, search })).map(({ taskID }) => taskID);

/** Trigrams of the index with this letter. */
const terms = (dataDir: string, letter: string): number =>
  within(dataDir, (database) => {
    database.exec("create virtual table temp.terms using fts5vocab(main, text_trigrams, row)");
    const row = database
      .prepare<[string], { count: number }>("select count(*) as count from temp.terms where instr(term, ?) > 0")
      .get(letter);
    return row?.count ?? -1;
  });

test("killed while the index of texts is filled and rewritten: it becomes whole, and searches find everything; control: one that is called whole too soon", {
  timeout: 120_000,
}, async () => {
  using folder = temporary("sortie-text-kill-");
  const dataDir = join(folder.path, "data");
  mkdirSync(dataDir);
  const seed = 1 + Math.floor(Math.random() * 1e6);
  process.stdout.write(`seed ${seed}\n`);
  const random = seededRandom(seed);
  const ids: string[] = [];
  {
    await using store = await open(dataDir);
    for (let at = 0; at < many; at += 100) {
      const firsts = words.slice(at, at + 100).map((word) => {
        const filler = Array.from({ length: 300 }, () => letters[random.below(letters.length)]).join("");
        return created({ directory, title: "Task", request: `${word} ${filler}` });
      });
      const appends = firsts.map((first) => ({ stream: first.data.taskID, expected: 0, events: [first] }));
      await store.commit({ appends });
      ids.push(...firsts.map(({ data }) => data.taskID));
    }
    const first = created({ directory, title: "Marked", request: mark.repeat(20) });
    await store.commit({ appends: [{ stream: first.data.taskID, expected: 0, events: [first] }] });
    ids.push(first.data.taskID);
  }
  within(dataDir, (database) => database.exec(withoutIndex));

  // While it is filled, twice. The second one has some deleted that are indexed, and some that are not yet.
  const one = await killed(dataDir, "one", [], ({ indexed }) => indexed >= 100);
  expect(one.index).toMatchObject({ upto: expect.any(String) as string });
  expect(one.index.indexed).toBeLessThan(many / 2);
  const gone = [...ids.slice(0, 20), ...ids.slice(-40, -20)];
  const two = await killed(dataDir, "two", gone, ({ indexed }) => indexed >= 400);
  expect(two.index).toMatchObject({ upto: expect.any(String) as string });
  expect(two.index.indexed).toBeLessThan(many);

  // Further back than a search looks before it asks the index.
  const unindexed = many - 250;
  expect(two.index.upto?.localeCompare(ids[unindexed] ?? "")).toBe(-1);
  const aside = join(folder.path, "aside");
  mkdirSync(aside);
  copyFileSync(join(dataDir, "s.db"), join(aside, "s.db"));
  within(aside, (database) => database.exec("update text_index set upto = null"));
  {
    await using store = await open(aside);
    expect(await found(store, words[unindexed] ?? "")).toEqual([]);
  }
  {
    // Not whole, and it answers all the same; then it is.
    await using store = await open(dataDir);
    expect(await found(store, words[unindexed] ?? "")).toEqual([ids[unindexed]]);
    await vi.waitFor(() => expect(look(dataDir)).toMatchObject({ upto: null, removed: 0 }), 20_000);
  }
  expect(terms(dataDir, "ᚦ")).toBeGreaterThan(0);

  // While it is rewritten, twice. Deleted behind the store's back: the process begins with the rewriting.
  const removed = [...ids.slice(100, 400), ids.at(-1) ?? ""];
  within(dataDir, (database) => {
    const list = removed.map((id) => `'${id}'`).join();
    for (const table of ["texts", "tasks", "events", "streams"])
      database.exec(`delete from ${table} where stream in (${list})`);
  });
  expect(look(dataDir).removed).toBe(removed.length);
  const three = await killed(dataDir, "three", [], ({ merged, removed: left }) => left > 0 && merged >= 2, 3);
  const later = ids.slice(500, 510);
  const four = await killed(dataDir, "four", later, ({ merged, removed: left }) => left > 0 && merged >= 2, 5);
  for (const { index } of [three, four]) expect(index.removed).toBeGreaterThanOrEqual(removed.length);

  await using store = await open(dataDir);
  const rest = new Map(
    words.map((word, at) => [word, ids[at] ?? ""] as const).filter(([, id]) => !removed.includes(id)),
  );
  const made = [one, two, three, four].flatMap((run) => [...run.made]);
  const erased = new Set([one, two, three, four].flatMap((run) => run.erased));
  expect(made.length).toBeGreaterThan(4);
  expect(erased.size).toBeGreaterThan(10);
  const asked = new Set([...gone, ...later]);
  const all = async (): Promise<void> => {
    const wrong: string[] = [];
    for (const [word, id] of rest) {
      const hits = (await found(store, word)).join();
      // One more may have been deleted than was acknowledged.
      const isThere = (await store.state(id)) !== undefined;
      if (isThere ? erased.has(id) : !asked.has(id)) wrong.push(`${word} ${id} is ${isThere ? "" : "not "}there`);
      if (hits !== (isThere ? id : "")) wrong.push(`${word} ${id}: ${hits}`);
    }
    expect({ seed, wrong }).toEqual({ seed, wrong: [] });
    for (const [word, id] of made) expect([word, await found(store, word, "/work/made")]).toEqual([word, [id]]);
    for (const id of removed.slice(0, 20)) expect(await found(store, words[ids.indexOf(id)] ?? "")).toEqual([]);
  };
  await all();
  await vi.waitFor(() => expect(look(dataDir)).toMatchObject({ upto: null, removed: 0 }), 20_000);
  await all();
  within(dataDir, (database) => {
    database.exec("insert into text_trigrams (text_trigrams) values ('integrity-check')");
    for (const differs of [
      "texts where stream not in (select stream from text_ids union all select stream from text_pending)",
      "text_ids where stream not in (select stream from texts)",
    ])
      expect([differs, database.prepare(`select count(*) from ${differs}`).pluck().get()]).toEqual([differs, 0]);
  });
  expect(terms(dataDir, "ᚦ")).toBe(0);
});
