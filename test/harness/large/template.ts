import { readFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { temporary } from "../project.ts";
import { unpack } from "../zip-reader.ts";
import { hashesIn } from "../../../src/store/sql/blob-name.ts";
import { type Fold, isMissionFold, isTaskFold } from "../../../src/store/sql/fold.ts";
import {
  eventOf,
  foldRows,
  hash,
  metadataRows,
  missionRow,
  nameOf,
  searchText,
  snapshotRow,
  taskRow,
} from "../../../src/store/sql/row.ts";
import type { Head, Tables } from "../../../src/store/sql/schema.ts";
import { writeFileSync } from "node:fs";

/**
 * Real Tasks and a real Mission (those of `fixtures/71a76f3`), cut into pieces around what differs from one to the
 * next: ids, times, positions, the project. A clone joins the pieces. List rows, texts and snapshots are folded by the
 * service's own code and cut the same way, so that they agree with the events.
 */

/** What differs. `ids` in the order of the template's streams; `at`: time of the first event in ms, one each second. */
export type Place = {
  ids: readonly string[];
  missionID: string;
  ticket: string;
  directory: string;
  project: string;
  name: string;
  position: number;
  at: number;
};

type Row = Record<string, string | number | null>;
type Make = (place: Place) => Row;
export type Table = Exclude<keyof Tables, "log" | "migrations" | "orphans" | "answers">;
export type Template = { kinds: ("task" | "ses")[]; events: number; rows: [Table, Make][] };

const fixture = join(import.meta.dirname, "../../fixtures/71a76f3/data.zip");
const place = "/tmp/w/old/project";
const project = `${place}/.git`;

/** Stand-ins that occur nowhere else. */
const [firstPosition, firstAt] = [700_000_001, Date.UTC(2033, 4, 18)];
const ticket = "T-88888888";
const missionID = "whole-cents";

const readFixture = (): Map<string, Tables["events"][]> => {
  using folder = temporary("sortie-template-");
  for (const [path, bytes] of unpack(readFileSync(fixture)))
    if (path.startsWith("sortie.db")) writeFileSync(join(folder.path, path), bytes);
  const database = new Database(join(folder.path, "sortie.db"));
  const rows = database.prepare<[], Tables["events"]>("select * from events order by position").all();
  database.close();
  return Map.groupBy(rows, ({ stream }) => stream);
};

/** A text as the pieces between what differs. */
const cut = (text: string, ids: readonly string[]): ((place: Place) => string) => {
  const tokens = new RegExp(
    [
      ...ids,
      project,
      place,
      hash(project),
      nameOf(project, missionID),
      missionID,
      ticket,
      "70000\\d{4}",
      "2033-05-18T\\d\\d:\\d\\d:\\d\\d\\.000Z",
      "19999\\d{5}000",
    ]
      .map((token) => `(?:${token})`)
      .join("|"),
    "g",
  );
  const pieces: (string | ((place: Place) => string))[] = [];
  let end = 0;
  for (const { 0: token, index } of text.matchAll(tokens)) {
    pieces.push(text.slice(end, index), valueOf(token, ids));
    end = index + token.length;
  }
  pieces.push(text.slice(end));
  if (pieces.length === 1) return () => text;
  return (own) => {
    let made = "";
    for (const piece of pieces) made += typeof piece === "string" ? piece : piece(own);
    return made;
  };
};

const valueOf = (token: string, ids: readonly string[]): ((place: Place) => string) => {
  const at = ids.indexOf(token);
  if (at >= 0) return (own) => own.ids[at] ?? "";
  if (token === project) return (own) => own.project;
  if (token === place) return (own) => own.directory;
  if (token === hash(project)) return (own) => hashOf(own.project);
  if (token === missionID) return (own) => own.missionID;
  if (token === ticket) return (own) => own.ticket;
  if (token.startsWith("2033")) return (own) => new Date(own.at + Date.parse(token) - firstAt).toISOString();
  const number = Number(token);
  if (token.length === 9) return (own) => String(own.position + number - firstPosition);
  if (token.length === 13) return (own) => String(own.at + number - firstAt);
  return (own) => own.name;
};

const hashes = new Map<string, string>();
const hashOf = (text: string): string => {
  const known = hashes.get(text) ?? hash(text);
  hashes.set(text, known);
  return known;
};

const cutRow = (row: Row, ids: readonly string[]): Make => {
  const columns = Object.entries(row).map(([name, value]) => {
    if (value === null) return [name, () => null] as const;
    const made = cut(String(value), ids);
    return [name, typeof value === "string" ? made : (own: Place) => Number(made(own))] as const;
  });
  return (own) => {
    const made: Row = {};
    for (const [name, value] of columns) made[name] = value(own);
    return made;
  };
};

/** A template of streams whose events are in one order; `due`: active ones are due then. */
const templateOf = (streams: readonly (readonly Tables["events"][])[], due: number): Template => {
  const ids = streams.map((events) => events[0]?.stream ?? "");
  const placed = streams
    .flat()
    .toSorted((one, other) => one.position - other.position)
    .map((row, index) => ({
      ...row,
      position: firstPosition + index,
      at: new Date(firstAt + index * 1000).toISOString(),
    }));
  const rows: [Table, Row][] = placed.map((row) => ["events", row]);
  for (const stream of ids) {
    const own = placed.filter((row) => row.stream === stream);
    const fold = foldRows(undefined, own);
    if (fold === undefined) throw new Error(`Expected a fold of ${stream}`);
    rows.push(...derived(fold, due));
    for (const sha256 of new Set(own.flatMap(({ data }) => hashesIn(data))))
      rows.push(["blob_names", { sha256, stream }]);
  }
  return {
    kinds: ids.map((id) => (id.startsWith("task") ? "task" : "ses")),
    events: placed.length,
    rows: rows.map(([table, row]) => [table, cutRow(row, ids)]),
  };
};

const derived = (fold: Fold, due: number): [Table, Row][] => {
  const snapshot = snapshotRow(fold);
  const active = fold.lifecycle === "active";
  const head: Head = {
    stream: snapshot.stream,
    version: snapshot.version,
    epoch: 1,
    holder: null,
    lease_until: null,
    due_at: active ? due : null,
    rank: 0,
    due_seq: 1,
    fruitless: 0,
    lifecycle: fold.lifecycle,
  };
  return [
    ["streams", head],
    ["texts", { stream: snapshot.stream, text: searchText(fold) }],
    ...(active ? [] : [["snapshots", snapshot] as [Table, Row]]),
    ...(isMissionFold(fold) ? [["missions", missionRow(fold)] as [Table, Row]] : []),
    ...(isTaskFold(fold)
      ? [
          ["tasks", taskRow(fold)] as [Table, Row],
          ...metadataRows(fold).map((row) => ["metadata", row] as [Table, Row]),
        ]
      : []),
  ];
};

/** The Task with this metadata besides its ticket; `alone`: without the Mission that dispatched it. */
const task = (events: readonly Tables["events"][], team: string, alone: boolean): Tables["events"][] =>
  events.map((row) => {
    const event = eventOf(row);
    if (event.type !== "task.created") return row;
    const { mission, ...data } = event.data;
    const kept = alone || mission === undefined ? data : { ...data, mission };
    return { ...row, data: JSON.stringify({ ...kept, metadata: { ticket, team } }) };
  });

/**
 * The kinds of work of a large log: Tasks that ended, one that just began, one that is under way, a Mission with two.
 */
export const createTemplates = (due: number) => {
  const streams = [...readFixture().values()];
  const tasks = streams.filter(([first]) => first?.stream.startsWith("task"));
  const mission = streams.find((events) => events[0]?.stream.startsWith("ses") && events.length > 20);
  const [short = [], long = [], middle = []] = tasks;
  if (mission === undefined || short.length < 5 || long.length < 40 || middle.length < 15)
    throw new Error("Expected three Tasks and a Mission in the fixture");
  const single = (events: readonly Tables["events"][], team: string) => templateOf([task(events, team, true)], due);
  return {
    ended: [single(long, "red"), single(middle, "blue"), single(short, "green")],
    begun: single(long.slice(0, 1), "red"),
    underWay: single(middle.slice(0, 5), "blue"),
    mission: templateOf([mission, task(long, "red", false), task(middle, "blue", false)], due),
    /** For a Task of very many events: what its agent does again and again. */
    turn: long.filter(({ type }) => ["reply.finished", "tool.started", "tool.finished"].includes(type)).slice(0, 3),
    first: task(long, "red", true).slice(0, 1),
  };
};
