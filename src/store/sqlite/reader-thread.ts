import { parentPort, workerData } from "node:worker_threads";
import Database from "better-sqlite3";
import { messageOf } from "../../error.ts";
import { hashesIn } from "../sql/blob-name.ts";
import { isFatal } from "./file.ts";
import type { Order, Reply } from "./reader.ts";

/**
 * The thread of `reader.ts`: runs one query at a time on a read-only connection. Rows are sent back in parts, each on
 * request, so that the service receives them between other work. Checkpoints have a connection of their own.
 */

const partBytes = 256 * 1024;

/** The most prepared statements that are kept. */
const keptStatements = 100;

const database = new Database(String(workerData), { readonly: true, fileMustExist: true, timeout: 5000 });
database.function("hashes_in", { deterministic: true }, (data) => {
  const found = hashesIn(String(data));
  return found.length === 0 ? null : found.join(" ");
});

const statements = new Map<string, Database.Statement<unknown[], object>>();

const prepare = (sql: string): Database.Statement<unknown[], object> => {
  const known = statements.get(sql);
  if (known !== undefined) return known;
  const made = database.prepare<unknown[], object>(sql);
  statements.set(sql, made);
  const [oldest] = statements.size > keptStatements ? statements.keys() : [];
  if (oldest !== undefined) statements.delete(oldest);
  return made;
};

let writer: Database.Database | undefined;

/** Copies the write-ahead log into the database, as far as no reader still needs the older pages. */
const checkpoint = (): Reply => {
  if (writer === undefined) {
    writer = new Database(String(workerData), { fileMustExist: true, timeout: 0 });
    writer.pragma("synchronous = NORMAL");
  }
  writer.pragma("wal_checkpoint(PASSIVE)");
  return { rows: [], done: true };
};

let open: IterableIterator<object> | undefined;

/** The next part of the open query. */
const part = (): Reply => {
  const rows: object[] = [];
  for (let bytes = 0; bytes < partBytes; ) {
    const next = open?.next();
    if (next === undefined || next.done === true) {
      open = undefined;
      return { rows, done: true };
    }
    rows.push(next.value);
    for (const value of Object.values(next.value)) bytes += typeof value === "string" ? value.length : 8;
  }
  return { rows, done: false };
};

const answer = (order: Order): Reply | undefined => {
  switch (order.kind) {
    case "query":
      open = prepare(order.sql).iterate(...order.parameters);
      return part();
    case "more":
      return part();
    case "end":
      open?.return?.();
      open = undefined;
      return undefined;
    case "checkpoint":
      return checkpoint();
    case "close":
      writer?.close();
      database.close();
      parentPort?.close();
      return undefined;
  }
};

parentPort?.on("message", (order: Order) => {
  let reply: Reply | undefined;
  try {
    reply = answer(order);
  } catch (error) {
    open = undefined;
    reply = { error: messageOf(error), fatal: order.kind === "checkpoint" && isFatal(error) };
  }
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- the port of a thread has no origin
  if (reply !== undefined) parentPort?.postMessage(reply);
});
