import { createTally } from "../../domain/evidence/tally.ts";
import type { Position, StreamID } from "../../domain/event.ts";
import type { LiveFrame, TextFrame } from "../../protocol/event/frame.ts";
import type { SoFar } from "../../protocol/field.ts";

/**
 * The progress of what a stream is doing, counted from its live frames. If several things grow at once, the one that
 * began last is told. In memory only, and never exact: a frame is sent at most every `everyMs`, with the newest number.
 */

type NowFrame = Extract<LiveFrame, { type: "now.delta" }>;
type Counter = (piece: string) => SoFar | undefined;
type Growing = { text: string | null; take: Counter; newest?: { frame: NowFrame; after: Position } };
type Known = { growing: Map<string, Growing>; sentAt: number; due: NodeJS.Timeout | undefined };

const everyMs = 250;
const mostStreams = 1000;

const counted = (count: number, unit: SoFar["unit"]): SoFar | undefined => (count > 0 ? { count, unit } : undefined);

/** Counts the words of a text whose pieces may end anywhere. */
const createWords = (): Counter => {
  let words = 0;
  let within = false;
  return (piece) => {
    words += piece.split(/\s+/).filter(Boolean).length - (within && /^\S/.test(piece) ? 1 : 0);
    within = /\S$/.test(piece);
    return counted(words, "word");
  };
};

const createOutput = (): Counter => {
  const tally = createTally();
  return (piece) => {
    tally.take(piece);
    return counted(tally.tests(), "test") ?? counted(tally.lines(), "line");
  };
};

const counters: Record<TextFrame["type"], { text: string | null; make: () => Counter }> = {
  "message.delta": { text: "Writing a reply", make: createWords },
  "reasoning.delta": { text: "Thinking", make: createWords },
  "tool.output": { text: null, make: createOutput },
};

/** `send` gets the frames for readers. */
export const createNow = (send: (stream: StreamID, frame: NowFrame, after: Position) => void) => {
  const streams = new Map<StreamID, Known>();

  const newest = (stream: StreamID) =>
    [...(streams.get(stream)?.growing.values() ?? [])].findLast((growing) => growing.newest !== undefined)?.newest;

  const forget = (stream: StreamID): void => {
    clearTimeout(streams.get(stream)?.due);
    streams.delete(stream);
  };

  const knownOf = (stream: StreamID): Known => {
    const known = streams.get(stream) ?? { growing: new Map(), sentAt: Number.NEGATIVE_INFINITY, due: undefined };
    const [oldest] = !streams.has(stream) && streams.size >= mostStreams ? streams.keys() : [];
    if (oldest !== undefined) forget(oldest);
    streams.set(stream, known);
    return known;
  };

  /** Sends at once, or as soon as the last frame was sent long enough ago. */
  const offer = (stream: StreamID, known: Known): void => {
    if (known.due !== undefined) return;
    const flush = () => {
      known.due = undefined;
      known.sentAt = performance.now();
      const told = newest(stream);
      if (told !== undefined) send(stream, told.frame, told.after);
    };
    const wait = known.sentAt + everyMs - performance.now();
    if (wait <= 0) flush();
    else known.due = setTimeout(flush, wait).unref();
  };

  const put = (stream: StreamID, id: string, growing: Growing): void => {
    const known = knownOf(stream);
    known.growing.set(id, growing);
    if (growing.newest !== undefined && newest(stream) === growing.newest) offer(stream, known);
  };

  return {
    take(stream: StreamID, frame: LiveFrame, after: Position): void {
      if (frame.type === "now.delta") {
        const { id, text, soFar } = frame.data;
        put(stream, id, { text, take: () => soFar, newest: { frame, after } });
        return;
      }
      const id = frame.type === "tool.output" ? frame.data.callID : frame.data.messageID;
      const { text, make } = counters[frame.type];
      const before = streams.get(stream)?.growing.get(id);
      // Under one id a reply thinks, then writes, then calls.
      const take = before?.text === text ? before.take : make();
      const soFar = take(frame.data.text);
      if (soFar === undefined) return put(stream, id, { text, take });
      const { type: _type, data: _data, ...whose } = frame;
      put(stream, id, {
        text,
        take,
        newest: { frame: { ...whose, type: "now.delta", data: { id, text, soFar } }, after },
      });
    },
    /** The thing with this id does not grow any more. */
    end: (stream: StreamID, id: string): void => {
      const known = streams.get(stream);
      if (known?.growing.delete(id) === true && known.growing.size === 0) forget(stream);
    },
    of: (stream: StreamID): NowFrame | undefined => newest(stream)?.frame,
    forget,
  };
};
