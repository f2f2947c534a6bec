import type { DomainEvent, StreamID } from "../domain/event.ts";
import type { TextFrame } from "../protocol/event/frame.ts";
import { mapStrings, type Secrets, type Stream } from "../redact.ts";
import { cut } from "./blob/piece.ts";
import type { Live, Store, Write } from "./store.ts";

/**
 * Wraps a store so that no known secret is written: not in events, texts or files of the data folder, nor in live
 * frames, even when a secret is split between two of them. This is the only place that redacts, because whatever people
 * or models see later was written here first. Exempt are the caller's `metadata`, and the paths and refs that the
 * service itself acts on.
 */
export const redactStore = <S extends Store>(store: S, secrets: Secrets): S => {
  const live = guardLive(store.live, secrets);
  const clean = (stream: StreamID, event: DomainEvent): DomainEvent => {
    live.finish(stream, event);
    return cleanEvent(event, secrets.known);
  };
  return {
    ...store,
    redact: secrets.known,
    blobs: {
      put: async (bytes, exact = false) => store.blobs.put(exact ? bytes : await secrets.bytes(bytes), exact),
      async write(pieces, exact = false) {
        if (exact) return store.blobs.write(pieces, true);
        const clean = secrets.pieces();
        return store.blobs.write(() => clean(cut(pieces())), exact);
      },
      get: (sha256) => store.blobs.get(sha256),
      read: (sha256) => store.blobs.read(sha256),
      drop: (sha256) => store.blobs.drop(sha256),
    },
    live,
    commit: (write: Write) =>
      store.commit({
        ...write,
        appends: write.appends.map((append) => ({
          ...append,
          events: append.events.map((event) => clean(append.stream, event)),
        })),
      }),
  };
};

/** Events with paths and refs that the service acts on. */
const exact: ReadonlySet<DomainEvent["type"]> = new Set([
  "run.started",
  "workspace.prepared",
  "checkpoint.kept",
  "workspace.moved",
  "workspace.rebased",
  "landing.started",
  "landing.finished",
]);

const cleanEvent = (event: DomainEvent, known: (text: string) => string): DomainEvent => {
  if (exact.has(event.type)) return event;
  if (event.type === "mission.created") {
    const { directory, project } = event.data;
    return { type: event.type, data: { ...mapStrings(event.data, known), directory, project } };
  }
  if (event.type === "mission.woken" && event.data.metadata !== undefined)
    return { type: event.type, data: { ...mapStrings(event.data, known), metadata: event.data.metadata } };
  if (event.type !== "task.created") return mapStrings(event, known);
  const { metadata, directory, project } = event.data;
  return { type: event.type, data: { ...mapStrings(event.data, known), metadata, directory, project } };
};

/** The id of the text that this event makes final, so that its live frames are complete. */
const finished = (event: DomainEvent): string | undefined => {
  if (event.type === "reply.finished") return event.data.messageID;
  if (event.type === "tool.finished") return event.data.callID;
  return event.type === "check.finished" ? event.data.checkID : undefined;
};

/**
 * The most texts whose end is held back because it may be the beginning of a secret; beyond that, the oldest end is
 * dropped.
 */
const heldTexts = 1000;

const guardLive = (live: Live, secrets: Secrets): Live & { finish(stream: StreamID, event: DomainEvent): void } => {
  const streams = new Map<string, { stream: Stream; frame: TextFrame; after: number }>();
  const idOf = (frame: TextFrame) => ("callID" in frame.data ? frame.data.callID : frame.data.messageID);
  return {
    ...live,
    publish(frame, after) {
      if (frame.type === "now.delta") {
        const { text } = frame.data;
        live.publish({ ...frame, data: { ...frame.data, text: text && secrets.known(text) } }, after);
        return;
      }
      const id = idOf(frame);
      const key = `${frame.type} ${id}`;
      const { stream } = streams.get(key) ?? { stream: secrets.stream() };
      const text = stream.push(frame.data.text);
      streams.delete(key);
      if (stream.holds()) streams.set(key, { stream, frame, after });
      const [oldest] = streams.size > heldTexts ? streams.keys() : [];
      if (oldest !== undefined) streams.delete(oldest);
      if (text !== "") live.publish(text === frame.data.text ? frame : withText(frame, text), after);
    },
    finish(stream, event) {
      if (event.type === "task.settled") live.forget(stream);
      const id = finished(event);
      if (id === undefined) return;
      for (const type of ["message.delta", "reasoning.delta", "tool.output"]) {
        const found = streams.get(`${type} ${id}`);
        if (found === undefined) continue;
        streams.delete(`${type} ${id}`);
        live.publish(withText(found.frame, found.stream.end()), found.after);
      }
      live.end(stream, id);
    },
  };
};

const withText = (frame: TextFrame, text: string): TextFrame =>
  frame.type === "tool.output"
    ? { ...frame, data: { ...frame.data, text } }
    : { ...frame, data: { ...frame.data, text } };
