import { hash } from "node:crypto";
import { setImmediate as tick } from "node:timers/promises";
import type { Recorded, StreamID } from "../domain/event.ts";
import { type ArchivedFile, type FlowFile, flowOf } from "../domain/view/archive.ts";
import { frameOf } from "../domain/view/frame.ts";
import { type Entry, entryOf, type Head, startOf } from "../domain/evidence/ledger.ts";
import type { TaskState } from "../domain/state/task.ts";
import type { Frame } from "../protocol/event/frame.ts";
import { mapStrings } from "../redact.ts";
import type { Store } from "../store/store.ts";
import { pace } from "../pace.ts";
import { allMessagesIn } from "../task/query/message.ts";
import { createReads } from "../task/query/read.ts";
import type { ArchiveDeps } from "./archive.ts";
import { addText, partsOf } from "./text.ts";
import type { Zip } from "./zip.ts";

/**
 * The execution flow of a Task in an archive: the answers of the HTTP interface about it, its events and their ledger.
 */

export const flowFolder = "execution-flow/";

export const addFlow = async (
  zip: Zip,
  state: TaskState,
  folder: string,
  { store, workspaces, repositories, redact }: ArchiveDeps,
) => {
  // The time of the Task's last change serves as the current time; otherwise no two archives would be equal.
  const reads = createReads({
    store,
    workspaces,
    repositories,
    inspect: (directory) => workspaces.inspect(directory),
    now: () => new Date(state.updatedAt),
  });
  const [task, board, messages, recorded] = await Promise.all([
    reads.get(state.taskID),
    reads.board(state.taskID),
    allMessagesIn(store, state.taskID, state.open),
    eventsOf(store, state.taskID, state.version),
  ]);
  // The metadata is the caller's own and stays unchanged.
  const clean = <T>(value: T): T => mapStrings(value, redact);
  const { metadata } = state;
  const events = await eachOf(recorded, (event) =>
    frameOf(event.type === "task.created" ? { ...event, data: { ...clean(event.data), metadata } } : clean(event)),
  );
  const { ledger, head } = await ledgerOf(state.taskID, events);
  // Each of these contains the same long texts, so other work may run in between.
  const cleaned = async <T>(value: T): Promise<T> => {
    await tick();
    return clean(value);
  };
  const flow = flowOf({
    state: await cleaned(state),
    task: { ...(await cleaned(task)), metadata },
    board: await cleaned(board),
    messages: await eachOf(messages, clean),
    events,
    ledger,
  });
  return { files: await addFiles(zip, folder, flow), head, events };
};

/** The ledger of a stream's events. Other work may run in between. */
export const ledgerOf = async (
  stream: StreamID,
  events: readonly Frame[],
): Promise<{ ledger: Entry[]; head: Head }> => {
  const sha256 = (text: string) => hash("sha256", text);
  let head = startOf(stream, sha256);
  const entries = await eachOf(events, (event) => {
    const entry = entryOf(event, head, sha256);
    if (entry !== undefined) head = { entries: entry.seq, head: entry.hash };
    return entry;
  });
  return { ledger: entries.filter((entry) => entry !== undefined), head };
};

export const addFiles = async (zip: Zip, folder: string, flow: readonly FlowFile[]): Promise<ArchivedFile[]> => {
  const files: ArchivedFile[] = [];
  for (const file of flow) {
    const name = `${folder}${file.name}`;
    const { done } = await addText(zip, name, await partsOf(file));
    files.push({ name, ...(await done) });
  }
  return files;
};

/** Like `map`, for very many values: other work may run in between. */
export const eachOf = async <T, R>(values: readonly T[], change: (value: T) => R): Promise<R[]> => {
  const changed: R[] = [];
  for (const value of values) {
    changed.push(change(value));
    await pace();
  }
  return changed;
};

/** The number of events, of at most 64 KiB each, that are read at once. */
const pageEvents = 100;

export const eventsOf = async (store: Store, stream: StreamID, version: number): Promise<Recorded[]> => {
  const events: Recorded[] = [];
  while (events.length < version) {
    const page = await store.read(stream, {
      after: events.length,
      limit: Math.min(pageEvents, version - events.length),
    });
    if (page.length === 0) break;
    events.push(...page);
  }
  return events;
};
