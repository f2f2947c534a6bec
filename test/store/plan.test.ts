import { Worker } from "node:worker_threads";
import Database from "better-sqlite3";
import { Client } from "pg";
import { describe, expect, test, vi } from "vitest";
import type { Store } from "../../src/store/store.ts";
import type { Filled } from "../harness/large/fill.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { backends, type Place } from "../harness/store.ts";
import { askAll, asksOf } from "./ask.ts";

/**
 * How both databases find whatever a store is asked (`ask.ts`): by an index, never by looking at all Tasks or events.
 */

/** What a store can be asked of which there is no entry. */
const unasked = (store: Store, filled: Filled): string[] => {
  const known = new Set(asksOf(filled).map(({ port, name }) => `${port}.${name}`));
  const ports = { store, webhooks: store.webhooks, orphans: store.orphans, nodes: store.nodes ?? {} };
  return Object.entries(ports)
    .flatMap(([port, methods]) =>
      Object.entries(methods).flatMap(([name, value]) => (typeof value === "function" ? [`${port}.${name}`] : [])),
    )
    .filter((name) => !known.has(name) && name !== "store.verify");
};

const filledPlace = async (name: string, tasks: number): Promise<Place & { filled: Filled }> => {
  const place = await backends.find((backend) => backend.name === name)?.open();
  const filled = await place?.fillLog?.({ tasks, projects: 2, turns: 50 });
  if (place === undefined || filled === undefined) throw new Error("Expected a database that can be filled");
  return Object.assign(place, { filled });
};

/** Tables with a row or more for each Task that there ever was. */
const grown = [
  "events",
  "streams",
  "tasks",
  "missions",
  "texts",
  "text_ids",
  "metadata",
  "blob_names",
  "snapshots",
  "placements",
];

test("SQLite: every plan goes by an index; control: plans of before do not", { timeout: 60_000 }, async () => {
  const prepare = vi.spyOn(Database.prototype, "prepare");
  const post = vi.spyOn(Worker.prototype, "postMessage");
  await using place = await filledPlace("SQLite file", 500);
  prepare.mockClear();
  await place.reopen?.();
  await askAll(place.store, place.filled);
  expect(unasked(place.store, place.filled)).toEqual([]);
  const orders = post.mock.calls.map(([order]) => order as { kind: string; sql: string });
  const texts = new Set([
    ...prepare.mock.calls.map(([text]) => text),
    ...orders.filter(({ kind }) => kind === "query").map(({ sql }) => sql),
  ]);
  vi.restoreAllMocks();
  const database = new Database(`${place.dataDir}/s.db`, { readonly: true });
  /** Those have only what matches, which is little. */
  const partial = new Set(
    database
      .prepare<[], { name: string }>("select name from sqlite_master where type = 'index' and sql like '% where %'")
      .all()
      .map(({ name }) => name),
  );
  /** Steps of a plan that look at every row of a table that grows. */
  const walks = (text: string): string[] => {
    const statement = database.prepare<unknown[], { detail: string }>(`explain query plan ${text}`);
    const named = [...text.matchAll(/[@:$]([a-z]\w*)/gi)].map(([, name = ""]) => [name, null] as const);
    // Literals have none here, and a plan does not depend on the values.
    const given = named.length > 0 ? [Object.fromEntries(named)] : Array.from(text.matchAll(/\?/g), () => null);
    return statement
      .all(...given)
      .map(({ detail }) => detail)
      .filter(
        (step) =>
          (grown.includes(/^SCAN (\w+)\b/.exec(step)?.[1] ?? "") &&
            !partial.has(/INDEX (\w+)/.exec(step)?.[1] ?? "")) ||
          // From a place to the end; with an end of its own it is a window.
          step.startsWith("SEARCH events USING INTEGER PRIMARY KEY (rowid>?)"),
      );
  };
  const asked = [...texts].filter((text) => /^\s*(?:select|with|update|delete)\b/i.test(text));
  expect(asked.length).toBeGreaterThan(50);
  const found = asked.map((text) => ({ text, steps: walks(text) })).filter(({ steps }) => steps.length > 0);
  expect(found.filter(({ text, steps }) => !isPage(text, steps) && !known.some(([looks]) => looks.test(text)))).toEqual(
    [],
  );
  expect(walks("select project, count(*) from tasks where lifecycle = 'active' group by project")).not.toEqual([]);
  const before = `select * from events where position > 0 and exists
    (select 1 from tasks where tasks.stream = events.stream and project = 'x') order by position limit 200`;
  expect(walks(before)).not.toEqual([]);
  database.close();
});

/** The next rows of all, as many as a page has, in the order in which they lie. */
const isPage = (text: string, steps: readonly string[]): boolean =>
  /\blimit\b/i.test(text) && !/exists|join|type|priority" =/i.test(text) && steps.length === 1;

/** What looks at all the same, and why. */
const known: [text: RegExp, why: string][] = [
  [/^update streams set due_at = .* where lifecycle = 'active' and due_at is null$/, "once, at the start: decision 63"],
  [/from "missions" where \((?!stream in).* like /, "fewer than three letters are in no index"],
];

type Plan = {
  "Node Type": string;
  "Relation Name"?: string;
  "Index Name"?: string;
  "Index Cond"?: string;
  Filter?: string;
  Plans?: Plan[];
};

describe.skipIf(postgresURL === undefined)("PostgreSQL", () => {
  test("every plan goes by an index; control: plans of before do not", { timeout: 60_000 }, async () => {
    const query = vi.spyOn(Client.prototype, "query");
    await using place = await filledPlace("PostgreSQL", 1500);
    // Made beside the work.
    await vi.waitFor(
      async () =>
        expect(
          await place.sql?.("select 1 from pg_index where indexrelid = to_regclass('texts_search') and indisvalid"),
        ).toHaveLength(1),
      { timeout: 20_000, interval: 100 },
    );
    query.mockClear();
    await askAll(place.store, place.filled);
    const node = await place.asNode?.();
    if (node === undefined) throw new Error("Expected a store with nodes");
    await askAll(node, place.filled);
    expect(unasked(node, place.filled)).toEqual([]);
    const asked = new Map<string, unknown[]>();
    for (const [text, parameters] of query.mock.calls as unknown as [unknown, unknown][])
      if (typeof text === "string" && /^\s*(?:select|with|update|delete)\b/i.test(text))
        asked.set(text, Array.isArray(parameters) ? parameters : []);
    vi.restoreAllMocks();
    const [{ schema } = { schema: "" }] = ((await place.sql?.("select current_schema() as schema")) ?? []) as {
      schema: string;
    }[];
    const client = new Client({ connectionString: postgresURL, options: `-c search_path=${schema},public` });
    await client.connect();
    // What has no index at all is read row by row all the same, however small this log is.
    await client.query("set enable_seqscan = off");
    /** A log of this size may be read along an index as cheaply as by one with trigrams; a larger one is not. */
    const walksEither = async (text: string, parameters: readonly unknown[]): Promise<string[]> => {
      const steps = await walks(text, parameters);
      if (steps.length === 0 || !text.includes(" like ")) return steps;
      await client.query("set enable_indexscan = off");
      const others = await walks(text, parameters);
      await client.query("set enable_indexscan = on");
      return others;
    };
    /** Those have only what matches, which is little. */
    const { rows: names } = await client.query<{ name: string }>(
      `select relname as name from pg_index join pg_class on pg_class.oid = indexrelid
        where indpred is not null and relnamespace = current_schema()::regnamespace`,
    );
    const partial = new Set(names.map(({ name }) => name));
    const walks = async (text: string, parameters: readonly unknown[] = []): Promise<string[]> => {
      const { rows } = await client.query<{ "QUERY PLAN": { Plan: Plan }[] }>(`explain (format json) ${text}`, [
        ...parameters,
      ]);
      const found: string[] = [];
      const look = (plan: Plan): void => {
        const { "Node Type": type, "Relation Name": table = "", "Index Cond": cond } = plan;
        if (
          grown.includes(table) &&
          !partial.has(plan["Index Name"] ?? "") &&
          // The newest ones, past those that are put away.
          plan.Filter !== "(archived = 0)" &&
          (type === "Seq Scan" ||
            // All Tasks of a project or a Mission are collected first.
            (table === "events" && plan.Filter?.includes("hashed SubPlan") === true) ||
            // All of an index is all of its table.
            (type.startsWith("Index") && cond === undefined && plan.Filter !== undefined) ||
            (table === "events" &&
              cond !== undefined &&
              /^\(+"?position"? > [^)]*\)+$/.test(cond) &&
              plan.Filter !== undefined))
        )
          found.push(`${type} on ${table}: ${cond ?? ""} ${plan.Filter ?? ""}`);
        for (const part of plan.Plans ?? []) look(part);
      };
      for (const { Plan } of rows[0]?.["QUERY PLAN"] ?? []) look(Plan);
      return found;
    };
    expect(asked.size).toBeGreaterThan(30);
    const found: object[] = [];
    for (const [text, parameters] of asked) {
      const steps = await walksEither(text, parameters);
      if (steps.length > 0) found.push({ text, steps });
    }
    expect(found).toEqual([]);
    expect(await walks("select count(*) from tasks where summary like '%x%'")).not.toEqual([]);
    const before = "select * from events where position > 0 and type = 'squad.refused' order by position limit 200";
    expect(await walks(before)).not.toEqual([]);
    await client.end();
  });
});
if (postgresURL === undefined) countSkipped(1);
