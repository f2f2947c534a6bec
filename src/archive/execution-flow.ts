import { hash } from "node:crypto";
import type { Recorded, StreamID } from "../domain/event.ts";
import { type ArchivedFile, type FlowFile, flowOf } from "../domain/view/archive.ts";
import { frameOf } from "../domain/view/frame.ts";
import { ledgerOf } from "../domain/evidence/ledger.ts";
import type { TaskState } from "../domain/state/task.ts";
import { mapStrings } from "../redact.ts";
import type { Store } from "../store/store.ts";
import { allMessagesIn } from "../task/query/message.ts";
import { createReads } from "../task/query/read.ts";
import type { ArchiveDeps } from "./archive.ts";
import type { Zip } from "./zip.ts";

/** The execution flow of a Task in an archive: what HTTP answers about it, its events and their ledger. */

export const flowFolder = "execution-flow/";

export const addFlow = async (
  zip: Zip,
  state: TaskState,
  folder: string,
  { store, workspaces, redact }: ArchiveDeps,
) => {
  // The Task's last change serves as the current time; otherwise no two archives would be equal.
  const reads = createReads({ store, workspaces, now: () => new Date(state.updatedAt) });
  const [task, board, messages, recorded] = await Promise.all([
    reads.get(state.taskID),
    reads.board(state.taskID),
    allMessagesIn(store, state.taskID, state.open),
    eventsOf(store, state.taskID, state.version),
  ]);
  // The metadata is the caller's own and stays unchanged.
  const clean = <T>(value: T): T => mapStrings(value, redact);
  const { metadata } = state;
  const events = recorded.map((event) =>
    frameOf(event.type === "task.created" ? { ...event, data: { ...clean(event.data), metadata } } : clean(event)),
  );
  const { ledger, ...head } = ledgerOf(state.taskID, events, (text) => hash("sha256", text));
  const flow = flowOf({
    state: clean(state),
    task: { ...clean(task), metadata },
    board: clean(board),
    messages: clean(messages),
    events,
    ledger,
  });
  return { files: await addFiles(zip, folder, flow), head, events };
};

export const addFiles = async (zip: Zip, folder: string, flow: readonly FlowFile[]): Promise<ArchivedFile[]> => {
  const files: ArchivedFile[] = [];
  for (const { name, text } of flow) {
    const { done } = await zip.add(`${folder}${name}`, 0o100644, Buffer.from(text));
    files.push({ name: `${folder}${name}`, ...(await done) });
  }
  return files;
};

export const eventsOf = async (store: Store, stream: StreamID, version: number): Promise<Recorded[]> => {
  const events: Recorded[] = [];
  while (events.length < version) {
    const page = await store.read(stream, { after: events.length, limit: Math.min(1000, version - events.length) });
    if (page.length === 0) break;
    events.push(...page);
  }
  return events;
};
