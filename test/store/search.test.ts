import { readFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, test, vi } from "vitest";
import type { DomainEvent } from "../../src/domain/event.ts";
import { newID } from "../../src/id.ts";
import { storableText, searchText } from "../../src/store/sql/row.ts";
import type { Store } from "../../src/store/store.ts";
import { created } from "../harness/events.ts";
import { type Random, seededRandom } from "../harness/random.ts";
import { backends, type Place } from "../harness/store.ts";
import { type Case, onEveryStore } from "./suite.ts";
import { withoutIndex } from "./without-index.ts";

/**
 * A search finds what has the words in it, whatever they are and however it is found, and nothing of what was deleted
 * is left to find.
 */

type Open = Place & { sql: NonNullable<Place["sql"]> };

const directory = "/work/project";
/** Letters whose case, length or meaning to a database is special. */
const letters = [
  "a",
  "B",
  "ab",
  "x",
  "É",
  "ß",
  "İ",
  "Σ",
  "😀",
  "中",
  "\uD800",
  "\0",
  "%",
  "_",
  "\\",
  '"',
  "'",
  " ",
  "\n",
  "*",
  "-",
];

const textOf = ({ below, pick }: Random, most: number): string =>
  Array.from({ length: 1 + below(most) }, () => pick(letters)).join("");

const mission = (missionID: string, title: string): { stream: string; expected: 0; events: DomainEvent[] } => {
  const sessionID = newID("ses");
  const about = { title, titleBy: "service", directory, project: directory, productPillar: "code" } as const;
  const data = { missionID, sessionID, ...about, model: "builtin/rules-1" } as const;
  return { stream: sessionID, expected: 0, events: [{ type: "mission.created", data }] };
};

const begin = async (store: Store, texts: readonly { title: string; request: string }[]): Promise<string[]> => {
  const firsts = texts.map((text) => created({ directory, ...text }));
  const appends = firsts.map((first) => ({ stream: first.data.taskID, expected: 0, events: [first] }));
  for (let at = 0; at < appends.length; at += 100) await store.commit({ appends: appends.slice(at, at + 100) });
  return firsts.map((first) => first.data.taskID);
};

const found = async (store: Store, search: string): Promise<string[]> =>
  (await store.list({ project: directory, limit: 2000, search })).map(({ taskID }) => taskID).toSorted();

/** More than a search looks at before it asks an index. */
const many = 300;

const cases: Case[] = [
  {
    name: "a title that changes again before its first is indexed is found by the last one alone",
    async run({ store }) {
      const [taskID = ""] = await begin(store, [{ title: "aardvark", request: "none" }]);
      for (const title of ["buffalo", "caribou"])
        await store.commit({
          appends: [{ stream: taskID, expected: "any", events: [{ type: "task.updated", data: { title } }] }],
        });
      expect(await found(store, "caribou")).toEqual([taskID]);
      expect([...(await found(store, "aardvark")), ...(await found(store, "buffalo"))]).toEqual([]);
    },
  },
  {
    name: "what a search finds is what has its letters, of Tasks and of Missions, after changes and deletions",
    async run({ store }) {
      const seed = 1 + Math.floor(Math.random() * 1e6);
      process.stdout.write(`seed ${seed}\n`);
      const random = seededRandom(seed);
      const ids = await begin(
        store,
        Array.from({ length: many }, () => ({ title: textOf(random, 6), request: textOf(random, 40) })),
      );
      await store.commit({ appends: Array.from({ length: 30 }, (_, at) => mission(`m-${at}`, textOf(random, 30))) });
      for (let at = 0; at < 20; at += 1) {
        const stream = random.pick(ids);
        const renamed: DomainEvent = { type: "task.updated", data: { title: textOf(random, 30) } };
        if ((await store.state(stream)) === undefined) continue;
        if (at % 2 === 0) await store.erase(stream);
        else await store.commit({ appends: [{ stream, expected: "any", events: [renamed] }] });
      }
      const folds = (await Promise.all(ids.map((id) => store.state(id)))).filter((fold) => fold !== undefined);
      expect(folds.length).toBeLessThan(many);
      const missions = await store.missions({ limit: 100 });
      const missionFolds = (await Promise.all(missions.map(({ row }) => store.mission(row.sessionID)))).filter(
        (fold) => fold !== undefined,
      );
      const expected = (all: readonly Parameters<typeof searchText>[0][], search: string) =>
        all.filter((fold) => searchText(fold).includes(storableText(search).toLowerCase()));
      let hits = 0;
      for (let turn = 0; turn < 40; turn += 1) {
        const from = random.pick([...folds, ...missionFolds]);
        const text = Array.from(searchText(from));
        const at = random.below(text.length);
        const search =
          turn % 3 === 0
            ? textOf(random, 4)
            : text
                .slice(at, at + 1 + random.below(turn % 2 === 0 ? 4 : 50))
                .join("")
                .toUpperCase();
        const tasks = expected(folds, search).map((fold) => ("taskID" in fold ? fold.taskID : ""));
        hits += tasks.length;
        const why = `seed ${seed}: ${JSON.stringify(search)}`;
        expect(await found(store, search), why).toEqual(tasks.toSorted());
        const rows = await store.missions({ limit: 100, search });
        expect(rows.map(({ row }) => row.missionID).toSorted(), why).toEqual(
          expected(missionFolds, search)
            .map((fold) => ("missionID" in fold ? fold.missionID : ""))
            .toSorted(),
        );
      }
      expect(hits).toBeGreaterThan(20);
    },
  },
  {
    name: "pages of a search are all of it, in order",
    async run({ store }) {
      const ids = await begin(
        store,
        Array.from({ length: many }, (_, at) => ({
          title: `Task ${at}`,
          request: at % 7 === 0 ? "quince jam" : "tea",
        })),
      );
      const wanted = ids.filter((_, at) => at % 7 === 0);
      const pages: string[] = [];
      for (let cursor: { updated: number; taskID: string } | undefined; ; ) {
        const page = await store.list({
          project: directory,
          limit: 10,
          search: "QUINCE",
          ...(cursor === undefined ? {} : { cursor }),
        });
        pages.push(...page.map(({ taskID }) => taskID));
        const last = page.at(-1);
        if (last === undefined) break;
        cursor = { updated: last.updated, taskID: last.taskID };
      }
      expect(new Set(pages)).toEqual(new Set(wanted));
      expect(pages).toHaveLength(wanted.length);
    },
  },
];

onEveryStore(cases);

describe("SQLite file", () => {
  const open = async (): Promise<Open> => (await backends.find(({ name }) => name === "SQLite file")?.open()) as Open;
  const texts = (rare: string) =>
    Array.from({ length: many }, (_, at) => ({ title: `Task ${at}`, request: at === 0 ? rare : "tea" }));
  const count = async ({ sql }: Open, from: string): Promise<number> =>
    ((await sql(`select count(*) as count from ${from}`)) as { count: number }[])[0]?.count ?? Number.NaN;
  /** Nothing waits to be indexed, or to be removed from the file. */
  const settled = (place: Open) =>
    vi.waitFor(
      async () => {
        const waiting = await count(place, "text_pending");
        const unsettled = await count(place, "text_index where upto is not null or removed > 0");
        expect(waiting + unsettled).toBe(0);
      },
      { timeout: 10_000, interval: 20 },
    );
  const sound = async (place: Open): Promise<void> => {
    await place.sql("insert into text_trigrams (text_trigrams) values ('integrity-check')");
    expect(await count(place, "texts where stream not in (select stream from text_ids)")).toBe(0);
    expect(await count(place, "text_ids where stream not in (select stream from texts)")).toBe(0);
  };

  test("a search goes by the index, or by what is not in it yet; control: what is in neither is not found", async () => {
    await using place = await open();
    const [rare] = await begin(place.store, texts("quince jam"));
    expect(await found(place.store, "quince")).toEqual([rare]);
    await settled(place);
    await sound(place);
    expect(await found(place.store, "quince")).toEqual([rare]);
    expect(await found(place.store, "qui")).toEqual([rare]);
    await place.sql(`delete from text_ids where stream = '${rare}'`);
    expect(await found(place.store, "quince")).toEqual([]);
    expect(await found(place.store, "qu")).toEqual([rare]);
    await place.sql(`insert into text_pending values ('${rare}')`);
    expect(await found(place.store, "quince")).toEqual([rare]);
  });

  /** What the index and the file hold, without what only waits to be written over. */
  const left = (place: Open, letter: string): { terms: number; bytes: boolean } => {
    const copy = join(place.dataDir, `copy-${Math.random()}.db`);
    const database = new Database(join(place.dataDir, "s.db"));
    database.exec(`vacuum into '${copy}'`);
    database.exec("create virtual table temp.terms using fts5vocab(main, text_trigrams, row)");
    const terms = database
      .prepare<[string], { count: number }>("select count(*) as count from temp.terms where instr(term, ?) > 0")
      .get(letter);
    database.close();
    return { terms: terms?.count ?? -1, bytes: readFileSync(copy).includes(letter) };
  };

  test("nothing of a deleted Task, or of a title that was changed, is left; control: without the upkeep, its trigrams are", async () => {
    await using place = await open();
    // Of scripts that nothing else here has.
    const [rare = "", renamed = "", other = ""] = await begin(place.store, [
      { title: "One", request: "ᚠᚢᚦᚨᚱᚲ ᚷᚹᚺᚾᛁᛃ".repeat(3) },
      { title: "አበገደሀ", request: "tea" },
      { title: "Three", request: "ካኘዘየ" },
      ...texts("jam"),
    ]);
    await settled(place);
    expect(left(place, "ᚢ")).toEqual({ terms: 4, bytes: true });
    expect(left(place, "በገ")).toEqual({ terms: 2, bytes: true });
    const named: DomainEvent = { type: "task.updated", data: { title: "Two" } };
    await Promise.all([
      place.store.erase(rare),
      place.store.commit({ appends: [{ stream: renamed, expected: "any", events: [named] }] }),
    ]);
    expect(await found(place.store, "ᚢᚦᚨ")).toEqual([]);
    expect(await found(place.store, "አበገ")).toEqual([]);
    await settled(place);
    expect(left(place, "ᚢ")).toEqual({ terms: 0, bytes: false });
    expect(left(place, "በገ").terms).toBe(0);
    await sound(place);
    // Nobody rewrites the index of a closed store: what was removed meanwhile is in it until the next start.
    await place.store[Symbol.asyncDispose]();
    await place.sql(
      ["texts", "tasks", "events"].map((table) => `delete from ${table} where stream = '${other}'`).join(";"),
    );
    expect(left(place, "ካኘ").bytes).toBe(true);
    await place.reopen?.();
    await settled(place);
    expect(left(place, "ካኘ")).toEqual({ terms: 0, bytes: false });
  });

  test("a log in use is indexed beside the work, goes on after an end in between, and answers the same meanwhile", async () => {
    await using place = await open();
    const ids = await begin(place.store, texts("quince jam"));
    await place.store.commit({ appends: [mission("one", "Quince pie")] });
    await place.store[Symbol.asyncDispose]();
    await place.sql(withoutIndex);
    const store = (await place.reopen?.()) as Store;
    const renamed: DomainEvent = { type: "task.updated", data: { title: "Medlar" } };
    expect(await count(place, "text_index where upto is not null")).toBe(1);
    expect(await found(store, "quince")).toEqual([ids[0]]);
    await settled(place);
    await sound(place);
    // A process that ended half way: the rest is done by the next one, and nothing twice.
    await place.store[Symbol.asyncDispose]();
    await place.sql(`
      delete from text_ids where stream > '${ids[100]}' and id < 1000000;
      update text_index set upto = '${ids[100]}'`);
    const again = (await place.reopen?.()) as Store;
    const [renamedID = "", erasedID = ""] = ids.slice(-2);
    await again.commit({ appends: [{ stream: renamedID, expected: "any", events: [renamed] }] });
    await again.erase(erasedID);
    const [added = ""] = await begin(again, [{ title: "Medlar too", request: "tea" }]);
    const medlars = [renamedID, added].toSorted();
    expect(await found(again, "medlar")).toEqual(medlars);
    await settled(place);
    await sound(place);
    expect(await found(again, "medlar")).toEqual(medlars);
    expect(await found(again, "quince")).toEqual([ids[0]]);
    expect((await again.missions({ limit: 5, search: "quince" })).map(({ row }) => row.missionID)).toEqual(["one"]);
  });
});
