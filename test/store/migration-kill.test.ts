import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import Database from "better-sqlite3";
import { describe, expect, test, vi } from "vitest";
import { indexes } from "../../src/store/sql/migration/index-set.ts";
import { migrations } from "../../src/store/sql/migration/history.ts";
import type { Store } from "../../src/store/store.ts";
import { formOfBefore } from "../harness/large/form-of-before.ts";
import { night } from "../harness/night.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { backends, type Place } from "../harness/store.ts";
import { withoutIndex } from "./without-index.ts";

/** A process that is killed while it brings a log in use to its form: the next one goes on, and everything is there. */

const fixture = join(import.meta.dirname, "../fixtures/store/open-on.ts");
const project = "/work/p0/.git";

type Open = Place & Required<Pick<Place, "sql" | "at" | "fillLog" | "reopen">>;

/** What the log answers, by rows, counts and a search. */
const asked = async (store: Store): Promise<unknown[]> => [
  await store.projects(50),
  await store.list({ project, limit: 200 }),
  await store.list({ project, limit: 200, search: "cents" }),
  await store.list({ project, limit: 200, search: "no such words" }),
  await store.since(0, 1000, { project }),
  await store.overview({ since: new Date(0), project: undefined }),
  await store.position(),
];

/** Opens it in a process, which is killed so many milliseconds after it has said this. Resolves to what it said. */
const killed = async (place: Open, word: string, ms: number): Promise<string[]> => {
  const child = spawn(process.execPath, [fixture, place.dataDir, ...place.at], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const gone = once(child, "exit");
  const said: string[] = [];
  const lines = createInterface({ input: child.stdout });
  await new Promise<void>((resolve) => {
    lines.on("line", (line) => {
      said.push(line);
      if (line.includes(word)) resolve();
    });
    lines.once("close", resolve);
  });
  await pause(ms);
  child.kill("SIGKILL");
  await gone;
  return said;
};

// By day in the default store: PostgreSQL takes half a minute.
const kept = backends.filter(({ name }) => name === "SQLite file" || (night && name === "PostgreSQL"));
describe.each(kept)("$name", ({ name, open }) => {
  const isFile = name === "SQLite file";
  const before = isFile ? `${withoutIndex}; ${formOfBefore}` : formOfBefore;

  test("killed while it migrates, makes indexes and counts: the next one does the rest; control: each was killed before it was done", {
    timeout: 120_000,
  }, async () => {
    await using place = (await open()) as Open;
    await place.fillLog({ tasks: 1500, projects: 120, turns: 400 });
    const answers = await asked(place.store);
    await place.store[Symbol.asyncDispose]();
    await place.sql(before);
    await place.sql(
      "update project_counts set counted = 0, latest = null, tasks = 0, active = 0, need = 0, run = 0, queue = 0",
    );
    const names = async (text: string): Promise<string[]> =>
      ((await place.sql(text)) as { name: string }[]).map((row) => row.name);
    const applied = () => names("select name from migrations order by name");
    const uncounted = () => names("select project as name from project_counts where counted = 0");
    const old = await applied();
    expect(old.length).toBeLessThan(migrations.length);
    const all = (await uncounted()).length;

    if (isFile) {
      for (const [word, ms] of [
        ["it is copied first", 0],
        ["its schema is being changed", 0],
        ["its schema is being changed", 4],
      ] as const) {
        await killed(place, word, ms);
        expect([word, await applied()]).toEqual([word, old]);
      }
      // What is called a copy is whole, and there is one of each form.
      await killed(place, "are being counted", 100);
      const copies = readdirSync(place.dataDir).filter((path) => path.includes(".before-"));
      expect(copies).toEqual([expect.stringContaining(`.before-${old.at(-1)}-`)]);
      const copy = new Database(join(place.dataDir, copies[0] ?? ""), { readonly: true });
      expect(copy.pragma("quick_check", { simple: true })).toBe("ok");
      expect(copy.prepare("select position from log").pluck().get()).toBe(answers.at(-1));
      copy.close();
    } else {
      const valid = `select relname as name from pg_index join pg_class on pg_class.oid = indexrelid
        where relnamespace = current_schema()::regnamespace and indisvalid`;
      const wanted = indexes.map((index) => index.name);
      for (const ms of [0, 20]) {
        await killed(place, "an index is being created", ms);
        expect(await names(valid)).not.toEqual(expect.arrayContaining(wanted));
      }
      await killed(place, "are being counted", 100);
      await place.reopen();
      await vi.waitFor(async () => expect(await names(valid)).toEqual(expect.arrayContaining(wanted)), {
        timeout: 60_000,
        interval: 200,
      });
      await place.store[Symbol.asyncDispose]();
    }
    expect((await uncounted()).length).toBeGreaterThan(0);
    expect((await uncounted()).length).toBeLessThan(all);

    const store = await place.reopen();
    expect(await applied()).toEqual(migrations.map((migration) => migration.name));
    expect(await asked(store)).toEqual(answers);
    await vi.waitFor(async () => expect(await uncounted()).toEqual([]), { timeout: 30_000, interval: 100 });
    if (isFile)
      await vi.waitFor(
        async () => expect(await names("select 'index' as name from text_index where upto is not null")).toEqual([]),
        { timeout: 30_000, interval: 100 },
      );
    expect(await asked(store)).toEqual(answers);
  });
});
if (night && postgresURL === undefined) countSkipped(1);
