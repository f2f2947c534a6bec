import { describe, expect, test, vi } from "vitest";
import type { DomainEvent } from "../../src/domain/event.ts";
import type { Store } from "../../src/store/store.ts";
import { created, settled } from "../harness/events.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { backends, type Place } from "../harness/store.ts";

/** The counts that are kept of each project are those that a count over its Tasks finds. */

type Open = Place & { sql: NonNullable<Place["sql"]> };

const run: DomainEvent = {
  type: "run.started",
  data: { worker: "w", epoch: 1, sandbox: { tier: 3, name: "process-group", network: true }, killed: [] },
};
const archived: DomainEvent = { type: "task.updated", data: { archived: true } };

const one = (condition: string) => `sum(case when ${condition} then 1 else 0 end)`;
const byCount = `select project, count(*) as tasks, ${one("lifecycle = 'active'")} as active,
  ${["need", "run", "queue"].map((state) => `${one(`overview = '${state}'`)} as ${state}`).join(", ")}
  from tasks group by project order by project`;
const kept = "select project, tasks, active, need, run, queue from project_counts where counted = 1 order by project";

/** PostgreSQL gives sums as texts. */
const numbers = (rows: object[]) =>
  rows.map((row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [name, String(value)])));
const both = async ({ sql }: Open) => ({ kept: numbers(await sql(kept)), counted: numbers(await sql(byCount)) });

const projects = ["/work/a", "/work/b", "/work/c", "/work/d"];

/** Tasks come, run, end, are put away and are deleted, several in one commit and each at any time. */
const work = async (store: Store, seed: number, steps: number): Promise<void> => {
  let state = seed;
  const under = (bound: number): number => (state = (state * 48_271) % 2_147_483_647) % bound;
  const made: string[] = [];
  for (let step = 0; step < steps; step += 1) {
    const appends = Array.from({ length: 1 + under(3) }, () => {
      const first = created({ directory: projects[under(4)] ?? "" });
      const more: DomainEvent[] = [[], [run], [run, settled()]][under(3)] ?? [];
      made.push(first.data.taskID);
      return { stream: first.data.taskID, expected: 0, events: [first, ...more] };
    });
    await store.commit({ appends });
    const stream = made[under(made.length)] ?? "";
    const folded = await store.state(stream);
    if (folded === undefined) continue;
    if (under(4) === 0) await store.erase(stream);
    else if (folded.lifecycle === "active")
      await store.commit({ appends: [{ stream, expected: "any", events: under(2) === 0 ? [run] : [settled()] }] });
    else await store.commit({ appends: [{ stream, expected: "any", events: [archived] }] });
  }
};

describe.each(backends.filter(({ name }) => name !== "SQLite :memory:"))("$name", ({ name, open }) => {
  test("whatever is written, what is kept is what is counted; control: a trigger less, and it is not", async () => {
    await using place = (await open()) as Open;
    const seed = 1 + Math.floor(Math.random() * 1e6);
    process.stdout.write(`${name}: seed ${seed}\n`);
    await work(place.store, seed, 60);
    const { kept: rows, counted } = await both(place);
    expect(rows.length).toBeGreaterThan(1);
    expect(rows, `seed ${seed}`).toEqual(counted);
    // All of a project are deleted: nothing is left of it. It may come again.
    const list = await place.store.list({ project: "/work/a", limit: 1000, archived: true });
    for (const { taskID } of list) await place.store.erase(taskID);
    expect(await both(place)).toMatchObject({ kept: { length: rows.length - 1 } });
    expect((await place.store.projects(10)).map(({ directory }) => directory)).not.toContain("/work/a");
    await work(place.store, seed + 1, 20);
    const again = await both(place);
    expect(again.kept, `seed ${seed}`).toEqual(again.counted);
    // A row moves to another project, as migrations do it.
    await place.sql("update tasks set project = 'elsewhere' where lifecycle = 'active'");
    const moved = await both(place);
    expect(moved.kept).toEqual(moved.counted);
    expect(moved.kept).toContainEqual(expect.objectContaining({ project: "elsewhere" }));

    const of = name === "PostgreSQL" ? " on tasks" : "";
    await place.sql(`drop trigger tasks_counted_update${of}`);
    await work(place.store, seed + 2, 20);
    const without = await both(place);
    expect(without.kept).not.toEqual(without.counted);
  });

  test("a log in use is counted beside the work, and answers the same until then", async () => {
    await using place = (await open()) as Open;
    await work(place.store, 7, 40);
    const asked = async () => ({
      projects: await place.store.projects(10),
      overview: await place.store.overview({ since: new Date(0), project: undefined }),
    });
    const before = await asked();
    // As after the migration, on which a node of the version before has added some.
    const uncounted = "update project_counts set counted = 0, latest = null, tasks = 3, active = -2, need = 1, run = 9";
    await place.sql(uncounted);
    expect(await asked()).toEqual(before);
    await place.reopen?.();
    await vi.waitFor(async () => expect(await place.sql(kept)).toHaveLength(before.projects.length), 10_000);
    const { kept: rows, counted } = await both(place);
    expect(rows).toEqual(counted);
    expect(await asked()).toEqual(before);
  });
});
if (postgresURL === undefined) countSkipped(2);
