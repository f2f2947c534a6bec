import { hash } from "node:crypto";
import { type Entry, entryOf, hashOf, startOf } from "../../domain/evidence/ledger.ts";
import { bad, type Finding, ok } from "../terminal/finding.ts";
import { line } from "../terminal/format.ts";
import { faultOf, type Flow, ledgerLine, parseFrame, type ArchiveRecord, addEvent } from "./archive-record.ts";
import type { Unzip } from "./unzip.ts";

/** Verifies the ledger of an archive on its own, and against the events that it is derived from. */

/** More than any event can have, even if redaction made it longer. */
const lineBytes = 1024 * 1024;

const sha256 = (text: string): string => hash("sha256", text);

/**
 * Verifies the ledger on its own: each entry's hash, and that it links to the previous entry. `noted`: a head that must
 * be among the entries; returns the number of the entry that has it.
 */
export async function* chain(
  zip: Unzip,
  { id, folder, ledger, about }: Flow,
  noted: string | undefined,
): AsyncGenerator<Finding, number | undefined, undefined> {
  let { entries, head } = startOf(id, sha256);
  let wrong = 0;
  let notedAt: number | undefined;
  const fault = (text: string) => {
    wrong += 1;
    return bad("chain", `${about}${text}`);
  };
  try {
    for await (const text of zip.lines(`${folder}ledger.jsonl`, lineBytes)) {
      const entry = ledgerLine.parse(JSON.parse(text)) as unknown as Entry;
      entries += 1;
      const what = `ledger entry ${entry.seq} (${labelOf(entry)})`;
      if (entry.seq !== entries || entry.prev !== head) yield fault(`${what}: it does not follow entry ${entries - 1}`);
      if (hashOf(entry, sha256) !== entry.hash) yield fault(`${what}: its hash does not match its content`);
      [entries, head] = [entry.seq, entry.hash];
      if (head === noted) notedAt = entries;
    }
  } catch (error) {
    yield fault(`ledger entry ${entries + 1}: ${faultOf(error)}`);
  }
  if (entries !== ledger.entries || head !== ledger.head)
    yield fault(
      `expected ${ledger.entries} entries up to ${ledger.head}, as in the manifest, got ${entries} up to ${head}`,
    );
  if (wrong === 0) yield ok("chain", `${about}${entries} ledger entries, unbroken, head ${head}`);
  if (noted !== undefined) return notedAt;
  return undefined;
}

/**
 * Derives the ledger again from the events, and compares each entry. Returns whether the events could be read to the
 * end.
 */
export async function* events(
  zip: Unzip,
  { id, folder, about }: Flow,
  story: ArchiveRecord,
): AsyncGenerator<Finding, boolean, undefined> {
  const kinds = new Map<string, number>();
  let wrong = 0;
  const fault = (text: string) => {
    wrong += 1;
    return bad("events", `${about}${text}`);
  };
  let place = startOf(id, sha256);
  let last = 0;
  const written = zip.lines(`${folder}ledger.jsonl`, lineBytes);
  const read = async (): Promise<Entry | undefined> => {
    const next = await written.next();
    return next.done === true ? undefined : (ledgerLine.parse(JSON.parse(next.value)) as unknown as Entry);
  };
  const alone = (entry: Entry) => fault(`ledger entry ${entry.seq} (${labelOf(entry)}): there is no such event`);
  try {
    let entry = await read();
    for await (const text of zip.lines(`${folder}events.jsonl`, lineBytes)) {
      const frame = parseFrame(text);
      const whose = frame.taskID ?? frame.sessionID ?? id;
      if (whose !== id || frame.id <= last)
        yield fault(`event ${frame.id}: expected one of ${id} after event ${last}, got one of ${whose}`);
      last = frame.id;
      const expected = entryOf(frame, place, sha256);
      addEvent(story, frame, folder);
      if (expected === undefined) continue;
      place = { entries: expected.seq, head: expected.hash };
      kinds.set(expected.kind, (kinds.get(expected.kind) ?? 0) + 1);
      for (; entry !== undefined && entry.eventID < frame.id; entry = await read()) yield alone(entry);
      if (entry?.eventID !== frame.id) {
        yield fault(`event ${frame.id} (${labelOf(expected)}): it has no entry in the ledger`);
        continue;
      }
      for (const text of differences(entry, expected)) yield fault(text);
      entry = await read();
    }
    for (; entry !== undefined; entry = await read()) yield alone(entry);
    if (last === 0) yield fault("there are none");
  } catch (error) {
    yield fault(`after event ${last}: ${faultOf(error)}`);
    return false;
  } finally {
    await written.return(undefined);
  }
  const counted = [...kinds].map(([kind, count]) => `${count} ${kind}`).join(", ");
  if (wrong === 0)
    yield ok("events", `${about}every entry matches the events, and none is missing: ${counted || "none yet"}`);
  return true;
}

/** The subject of an entry, for messages. */
const labelOf = (entry: Entry): string => {
  const of = new Map<string, unknown>(Object.entries(entry));
  const name = ["checkID", "tool", "sliceID", "artifactID", "commit"].map((key) => of.get(key)).find(Boolean);
  return typeof name === "string" ? `${entry.kind} ${line(name, 60)}` : entry.kind;
};

const differences = (got: Entry, expected: Entry): string[] => {
  const [a, b] = [got, expected].map(({ seq: _s, prev: _p, hash: _h, ...rest }) => rest as Record<string, unknown>);
  const keys = [...new Set([...Object.keys(a ?? {}), ...Object.keys(b ?? {})])];
  return keys
    .filter((key) => JSON.stringify(a?.[key]) !== JSON.stringify(b?.[key]))
    .map(
      (key) =>
        `ledger entry ${got.seq} (${labelOf(expected)}): its ${key} is ${JSON.stringify(a?.[key])}, event ${expected.eventID} says ${JSON.stringify(b?.[key])}`,
    );
};
