import Database from "better-sqlite3";
import { Client } from "pg";
import { newID } from "../../../src/id.ts";
import { evolveFold, isTaskFold, type Fold } from "../../../src/store/sql/fold.ts";
import { firstMissionID } from "../../../src/store/sql/migration/text-index.ts";
import { eventOf, metadataRows, nameOf, searchText, snapshotRow, taskRow } from "../../../src/store/sql/row.ts";
import type { Tables } from "../../../src/store/sql/schema.ts";
import { createTemplates, type Place, type Table, type Template } from "./template.ts";

/** Fills the database of a closed store with a log of many Tasks, behind the store's back. */

export type Filled = {
  events: number;
  tasks: number;
  /**
   * Directories; the first has 13 % of all Tasks where there are a thousand, the last one Task at the very beginning.
   */
  directories: string[];
  /** A Mission in the first project. */
  mission: { stream: string; missionID: string };
  /** A Task of `turns` turns, in the first project. */
  long: string;
};

/** `turns`: of the long Task, each of three events. `first`: directory of the largest project. */
export type Size = { tasks: number; projects?: number; turns?: number; first?: string };

export type Sink = AsyncDisposable & {
  put(table: Table, rows: readonly object[]): Promise<void>;
  /**
   * The newest position, up to which the log was searched for deliveries, too: a service would else search all of it
   * first.
   */
  set(position: number): Promise<void>;
};

const alphabet = "0123456789abcdefghjkmnpqrstvwxyz";
const encode = (value: number, length: number): string => {
  let text = "";
  for (let rest = value; text.length < length; rest = Math.floor(rest / 32)) text = alphabet[rest % 32] + text;
  return text;
};

const year = 365 * 24 * 3_600_000;

const batch = 500;

/** One in 25 of the newest Tasks is active, of so many. */
const atWorkIn = 10_000;

export const fill = async (
  sink: Sink,
  { tasks, projects = 1000, turns = 20, first = "/work/p0" }: Size,
): Promise<Filled> => {
  const now = Date.now();
  const templates = createTemplates(now + year);
  const directories = Array.from({ length: projects }, (_, index) => (index === 0 ? first : `/work/p${index}`));
  const projectOf = (index: number) => `${directories[index] ?? ""}/.git`;
  const weights = directories.slice(0, -1).map((_, index) => 1 / (index + 1));
  const sum = weights.reduce((one, other) => one + other, 0);
  const bounds = weights.reduce<number[]>((all, weight) => [...all, (all.at(-1) ?? 0) + weight / sum], []);
  let serial = 0;
  let seed = 1;
  /** From 0 to 1; the same in every run. */
  const random = (): number => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
  const projectAt = (): number => {
    const wanted = random();
    let [low, high] = [0, bounds.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((bounds[middle] ?? 1) < wanted) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  const waiting = new Map<Table, object[]>();
  let [position, made, mission] = [0, 0, { stream: "", missionID: "" }];
  const flush = async (): Promise<void> => {
    for (const [table, rows] of waiting) if (rows.length > 0) await sink.put(table, rows.splice(0));
  };
  const clone = (template: Template, index: number): Place => {
    const at = now - year + Math.floor((made / tasks) * (year - 120_000));
    const missionID = `m-${serial}`;
    const project = projectOf(index);
    const ids = template.kinds.map((kind) => `${kind}_${encode(at, 10)}${encode((serial += 1), 16)}`);
    const place = {
      ids,
      missionID,
      ticket: `T-${serial}`,
      directory: directories[index] ?? "",
      project,
      name: nameOf(project, missionID),
      position: position + 1,
      at,
    };
    for (const [table, make] of template.rows) {
      const rows = waiting.get(table) ?? [];
      rows.push(make(place));
      waiting.set(table, rows);
    }
    position += template.events;
    const own = template.kinds.filter((kind) => kind === "task").length;
    made += own;
    return place;
  };

  const { ended } = templates;
  clone(ended[2] as Template, projects - 1);
  for (;;) {
    if (made >= tasks) break;
    // What is at work is of the last ones, and no more in a longer log.
    const kind = made % 50;
    const isNew = made >= tasks - atWorkIn;
    if (kind < 2) {
      const index = made < 50 ? 0 : projectAt();
      const { ids, missionID } = clone(templates.mission, index);
      if (index === 0) mission = { stream: ids[0] ?? "", missionID };
    } else if (isNew && kind === 10) clone(templates.begun, projectAt());
    else if (isNew && kind === 11) clone(templates.underWay, projectAt());
    else clone(ended[made % 3] as Template, projectAt());
    if (made % batch === 0) await flush();
  }
  await flush();
  const long = await putLong(sink, templates, {
    position,
    turns,
    directory: directories[0] ?? "",
    project: projectOf(0),
  });
  position = long.position;
  await sink.set(position);
  return { events: position, tasks: made + 1, directories, mission, long: long.stream };
};

/** One Task with so many turns, each a reply and a call. */
const putLong = async (
  sink: Sink,
  { turn, first }: ReturnType<typeof createTemplates>,
  { position, turns, directory, project }: { position: number; turns: number; directory: string; project: string },
): Promise<{ stream: string; position: number }> => {
  const stream = newID("task");
  const [created] = first;
  if (created === undefined || turn.length < 3) throw new Error("Expected a turn in the fixture");
  const old = created.stream;
  const at = new Date().toISOString();
  const own = (row: Tables["events"], version: number, data: string): Tables["events"] => ({
    ...row,
    stream,
    version,
    position: position + version,
    at,
    data: data.replaceAll(old, stream),
  });
  const begun = JSON.parse(created.data) as object;
  const rows = [own(created, 1, JSON.stringify({ ...begun, directory, project }))];
  let fold: Fold | undefined;
  let version = 1;
  const flush = async (): Promise<void> => {
    for (const row of rows) fold = evolveFold(fold, eventOf(row));
    await sink.put("events", rows.splice(0));
  };
  for (let at = 0; at < turns; at += 1) {
    const callID = `call_${encode(at, 26)}`;
    for (const row of turn) {
      const data = JSON.parse(row.data) as Record<string, unknown>;
      if ("calls" in data) data["calls"] = [callID];
      if ("callID" in data) data["callID"] = callID;
      if ("messageID" in data) data["messageID"] = `msg_${encode(at, 26)}`;
      rows.push(own(row, (version += 1), JSON.stringify(data)));
    }
    if (rows.length > batch) await flush();
  }
  await flush();
  if (fold === undefined || !isTaskFold(fold)) throw new Error("Expected a Task");
  await sink.put("tasks", [taskRow(fold)]);
  await sink.put("metadata", metadataRows(fold));
  await sink.put("snapshots", [snapshotRow(fold)]);
  await sink.put("texts", [{ stream, text: searchText(fold) }]);
  await sink.put("streams", [
    {
      stream,
      version,
      epoch: 1,
      holder: null,
      lease_until: null,
      due_at: Date.now() + year,
      rank: 0,
      due_seq: 1,
      fruitless: 0,
      lifecycle: "active",
    },
  ]);
  return { stream, position: position + version };
};

/** What the upkeep of the index would take a while for. */
const indexTexts = `
  insert into text_ids (id, stream) select rowid, stream from texts where stream like 'task%' order by stream;
  insert into text_ids (id, stream) select ${firstMissionID} + rowid, stream from texts where stream not like 'task%';
  delete from text_pending;
  insert into text_trigrams (text_trigrams) values ('optimize');`;

/** Into the file of a closed store, in one transaction; the indexes come back at the end. */
export const sqliteSink = (file: string): Sink => {
  const database = new Database(file);
  database.pragma("synchronous = off");
  // A log beside the file would be as large as the file.
  database.pragma("journal_mode = delete");
  database.exec("begin");
  const indexes = database
    .prepare<[], { name: string; sql: string }>(
      "select name, sql from sqlite_master where type = 'index' and sql is not null and tbl_name in ('events', 'tasks', 'metadata', 'blob_names')",
    )
    .all();
  for (const { name } of indexes) database.exec(`drop index ${name}`);
  const statements = new Map<string, Database.Statement>();
  return {
    async put(table, rows) {
      const columns = Object.keys(rows[0] ?? {});
      const text = `insert into ${table} (${columns.join(", ")}) values (${columns.map((name) => `@${name}`).join(", ")})`;
      const statement = statements.get(text) ?? database.prepare(text);
      statements.set(text, statement);
      for (const row of rows) statement.run(row);
    },
    async set(position) {
      for (const table of ["log", "webhook_log"]) database.prepare(`update ${table} set position = ?`).run(position);
      database.exec(indexTexts);
      for (const { sql } of indexes) database.exec(sql);
      database.exec("commit");
    },
    async [Symbol.asyncDispose]() {
      database.close();
    },
  };
};

/** Into the schema of a closed store; the indexes come back at the end. */
export const postgresSink = async (url: string, schema: string): Promise<Sink> => {
  const client = new Client({ connectionString: url, options: `-c search_path=${schema} -c synchronous_commit=off` });
  await client.connect();
  const types = new Map<string, string>();
  const { rows: known } = await client.query<{ table: string; name: string; type: string }>(
    `select table_name as table, column_name as name, data_type as type from information_schema.columns
      where table_schema = current_schema()`,
  );
  for (const { table, name, type } of known) types.set(`${table}.${name}`, type);
  const { rows: indexes } = await client.query<{ name: string; sql: string }>(
    `select relname as name, pg_get_indexdef(indexrelid) as sql from pg_index join pg_class on pg_class.oid = indexrelid
      where relnamespace = current_schema()::regnamespace and not indisprimary
        and indrelid::regclass::text in ('events', 'tasks', 'metadata', 'blob_names', 'texts')`,
  );
  for (const { name } of indexes) await client.query(`drop index ${name}`);
  return {
    async put(table, rows) {
      const columns = Object.keys(rows[0] ?? {}) as (keyof (typeof rows)[number])[];
      const given = columns.map((name, index) => `$${index + 1}::${types.get(`${table}.${name}`)}[]`);
      await client.query(
        `insert into ${table} (${columns.join(", ")}) select * from unnest(${given.join(", ")})`,
        columns.map((name) => rows.map((row) => row[name])),
      );
    },
    async set(position) {
      for (const table of ["log", "webhook_log"]) await client.query(`update ${table} set position = $1`, [position]);
      await client.query("set maintenance_work_mem = '512MB'");
      for (const { sql } of indexes) await client.query(sql);
      await client.query("vacuum analyze");
    },
    [Symbol.asyncDispose]: () => client.end(),
  };
};
