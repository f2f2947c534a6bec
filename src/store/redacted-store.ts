import type { DomainEvent } from "../domain/event.ts";
import type { LiveFrame } from "../protocol/event/frame.ts";
import { mapStrings, type Secrets, type Stream } from "../redact.ts";
import type { Live, Store, Write } from "./store.ts";

/**
 * The store, and nothing goes into it that the service knows as a secret: events, texts and files in the data folder,
 * live frames also where a piece ends in the middle of one. The one place for it: whatever people or models are shown
 * later was written here first. What stays as it is: the caller's `metadata`, and what the service itself goes by.
 */
export const redactStore = <S extends Store>(store: S, secrets: Secrets): S => {
  const live = guardLive(store.live, secrets);
  const clean = (event: DomainEvent): DomainEvent => {
    live.finish(event);
    return cleanEvent(event, secrets.known);
  };
  return {
    ...store,
    redact: secrets.known,
    blobs: {
      put: (bytes, exact = false) => store.blobs.put(exact ? bytes : secrets.bytes(bytes), exact),
      get: (sha256) => store.blobs.get(sha256),
      drop: (sha256) => store.blobs.drop(sha256),
    },
    live,
    commit: (write: Write) =>
      store.commit({
        ...write,
        appends: write.appends.map((append) => ({ ...append, events: append.events.map(clean) })),
      }),
  };
};

/** Paths and refs that the service works by. */
const exact: ReadonlySet<DomainEvent["type"]> = new Set([
  "run.started",
  "workspace.prepared",
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
  if (event.type !== "task.created") return mapStrings(event, known);
  const { metadata, directory, project } = event.data;
  return { type: event.type, data: { ...mapStrings(event.data, known), metadata, directory, project } };
};

/** The text that stands as a fact now, so that its live frames are at their end. */
const finished = (event: DomainEvent): string | undefined => {
  if (event.type === "reply.finished") return event.data.messageID;
  if (event.type === "tool.finished") return event.data.callID;
  return event.type === "check.finished" ? event.data.checkID : undefined;
};

/** Texts whose last piece may be the beginning of a secret; the oldest is let go. */
const heldTexts = 1000;

const guardLive = (live: Live, secrets: Secrets): Live & { finish(event: DomainEvent): void } => {
  const streams = new Map<string, { stream: Stream; frame: LiveFrame; after: number }>();
  const idOf = (frame: LiveFrame) => ("callID" in frame.data ? frame.data.callID : frame.data.messageID);
  return {
    subscribe: (stream, listener) => live.subscribe(stream, listener),
    publish(frame, after) {
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
    finish(event) {
      const id = streams.size === 0 ? undefined : finished(event);
      if (id === undefined) return;
      for (const type of ["message.delta", "reasoning.delta", "tool.output"]) {
        const found = streams.get(`${type} ${id}`);
        if (found === undefined) continue;
        streams.delete(`${type} ${id}`);
        live.publish(withText(found.frame, found.stream.end()), found.after);
      }
    },
  };
};

const withText = (frame: LiveFrame, text: string): LiveFrame =>
  frame.type === "tool.output"
    ? { ...frame, data: { ...frame.data, text } }
    : { ...frame, data: { ...frame.data, text } };
