import type { StreamFrame } from "../../../../src/client/event-stream.ts";
import type { Frame } from "../../../../src/protocol/event/frame.ts";
import { createConversation, type Item } from "./fold.ts";

/**
 * The log of a Task or Mission in the page: existing events are read in pages, newest first, and new ones arrive by the
 * stream.
 */

export type Log = {
  subscribe: (listener: () => void) => () => void;
  version: () => number;
  frames(): readonly Frame[];
  items(): readonly Item[];
  /** The replies that agents are writing right now, by message id. */
  saying(): ReadonlyMap<string, Saying>;
  /** What a running call has written so far. */
  output(callID: string): string | undefined;
  /** The last progress that the service reported for the present activity. */
  now(): NowFrame | undefined;
  /** Whether older frames are being loaded, or could not be. */
  older(): "loading" | "failed" | "none";
  /** How many frames have been read so far; older ones are inserted all at once. */
  read(): number;
  add(frames: readonly StreamFrame[]): void;
  /** Reads all frames up to this event id. Never rejects; see `older`. */
  load(last: number): Promise<void>;
};

export type NowFrame = Extract<StreamFrame, { type: "now.delta" }>;
export type Saying = { sessionID: string; at: string; text: string; reasoning: string };

/** How many positions are read first, so that the end of a long log appears at once. */
const tail = 1500;
const pageSize = 1000;
/** Characters kept of a running call's output; its end is what matters. */
const outputLength = 32_768;

type Page = (after: number, limit: number) => Promise<{ events: readonly Frame[]; nextAfter: number; more: boolean }>;

export const createLog = (page: Page): Log => {
  const listeners = new Set<() => void>();
  let frames: Frame[] = [];
  let version = 0;
  let older: ReturnType<Log["older"]> = "loading";
  let read = 0;
  let conversation = createConversation();
  const saying = new Map<string, Saying>();
  const outputs = new Map<string, string>();
  let now: NowFrame | undefined;

  const changed = () => {
    version += 1;
    for (const listener of listeners) listener();
  };

  /**
   * Adds frames, and keeps them in order and unique. A frame that is older than the newest known one makes everything
   * fold again.
   */
  const put = (more: readonly Frame[]): void => {
    const last = frames.at(-1)?.id ?? -1;
    if (more.every(({ id }) => id > last)) {
      frames = [...frames, ...more];
      for (const frame of more) conversation.add(frame);
      return;
    }
    const known = new Map(frames.map((frame) => [frame.id, frame]));
    for (const frame of more) known.set(frame.id, frame);
    frames = [...known.values()].toSorted((a, b) => a.id - b.id);
    conversation = createConversation();
    for (const frame of frames) conversation.add(frame);
  };

  const forget = (frame: Frame): void => {
    const done = (id: string) => {
      saying.delete(id);
      outputs.delete(id);
      if (now?.data.id === id) now = undefined;
    };
    if (frame.type === "reply.finished") done(frame.data.messageID);
    if (frame.type === "tool.finished") done(frame.data.callID);
    if (frame.type === "check.finished") done(frame.data.checkID);
    if (frame.type === "task.settled") saying.clear();
  };

  const range = async (from: number, to: number, take: (events: readonly Frame[]) => void): Promise<void> => {
    let after = from;
    while (after < to) {
      const { events, nextAfter, more } = await page(after, pageSize);
      if (!more) return;
      take(events);
      after = nextAfter;
    }
  };

  return {
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    version: () => version,
    frames: () => frames,
    items: () => conversation.items(),
    saying: () => saying,
    output: (callID) => outputs.get(callID),
    now: () => now,
    older: () => older,
    read: () => Math.max(read, frames.length),
    add(more) {
      const durable: Frame[] = [];
      for (const frame of more)
        switch (frame.type) {
          case "message.delta":
          case "reasoning.delta": {
            const { messageID, text } = frame.data;
            const now = saying.get(messageID) ?? { sessionID: frame.sessionID, at: frame.at, text: "", reasoning: "" };
            const field = frame.type === "message.delta" ? "text" : "reasoning";
            saying.set(messageID, { ...now, [field]: now[field] + text });
            break;
          }
          case "tool.output": {
            const { callID, text } = frame.data;
            outputs.set(callID, `${outputs.get(callID) ?? ""}${text}`.slice(-outputLength));
            break;
          }
          case "now.delta":
            now = frame;
            break;
          case "task.snapshot":
          case "mission.snapshot":
          case "stream.end":
            break;
          default:
            forget(frame);
            durable.push(frame);
        }
      if (durable.length > 0) put(durable);
      changed();
    },
    async load(last) {
      try {
        const begin = Math.max(0, last - tail);
        const newest: Frame[] = [];
        await range(begin, last, (events) => newest.push(...events));
        put(newest);
        if (begin > 0) {
          changed();
          // Inserted all at once, because each insertion folds everything again.
          const rest: Frame[] = [];
          await range(0, begin, (events) => {
            rest.push(...events);
            read = rest.length + newest.length;
            changed();
          });
          put(rest);
        }
        older = "none";
      } catch {
        older = "failed";
      }
      changed();
    },
  };
};
