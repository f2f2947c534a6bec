import type { Position, StreamID } from "../../domain/event.ts";
import type { LiveFrame, TextFrame } from "../../protocol/event/frame.ts";

/**
 * What one node tells the others, so that they look at once. A hint may be lost, duplicated or late: a node that hears
 * nothing looks every second anyway.
 */

/**
 * `grown`: null: any stream may have grown. `revoked`: claims of an epoch below this one are lost. `due`: time and
 * rank.
 */
export type Hint =
  | readonly ["grown", StreamID | null]
  | readonly ["erased", StreamID]
  | readonly ["revoked", StreamID, number]
  | readonly ["due", StreamID, number, number]
  /** Somebody reads this stream's live frames at the sending node. */
  | readonly ["watched", StreamID]
  | readonly ["live", LiveFrame, Position]
  /**
   * Something that the log does not have (`Nodes.tell`). The `id` is unique, so that none replaces another in the
   * queue.
   */
  | readonly ["told", id: number, topic: string, words: readonly unknown[]];

export type HintQueue = {
  tell(hints: readonly Hint[]): void;
  /** Dropped if too much of its stream, or of all streams together, is queued. */
  frame(frame: LiveFrame, after: Position): void;
  close(): void;
};

/** Milliseconds between two notifications. The first one is sent at once. */
const everyMs = 20;
/** PostgreSQL accepts fewer than 8,000 bytes. */
const mostBytes = 7_900;
/** If more streams than this grew, they are told as "any". */
const mostGrown = 200;
/** The most `told` hints that are queued; further ones are lost. */
const mostTold = 200;
/** The most characters of a frame's text; each may take six bytes. */
const mostText = 1_000;
/** The most characters of queued frames, of one stream and of all. */
const mostOfStream = 32_768;
const mostOfAll = 131_072;

const keyOf = ([kind, stream]: Exclude<Hint, readonly ["live", ...unknown[]]>): string => `${kind} ${stream}`;

/** `send` must not reject: what could not be sent is lost. `self`: the sender's name, by which others recognise it. */
export const createHintQueue = (self: string, send: (payloads: readonly string[]) => Promise<void>): HintQueue => {
  let hints = new Map<string, Hint>();
  let grown = 0;
  let told = 0;
  let frames = new Map<StreamID, { list: (readonly ["live", LiveFrame, Position])[]; size: number }>();
  let size = 0;
  let sequence = 0;
  let timer: NodeJS.Timeout | undefined;
  let sending = false;
  let sentAt = Number.NEGATIVE_INFINITY;
  let closed = false;

  const schedule = (): void => {
    if (closed || sending || timer !== undefined) return;
    timer = setTimeout(() => void flush(), Math.max(0, sentAt + everyMs - performance.now()));
    timer.unref();
  };

  const flush = async (): Promise<void> => {
    timer = undefined;
    const next = [...hints.values(), ...[...frames.values()].flatMap(({ list }) => list)];
    hints = new Map();
    grown = 0;
    told = 0;
    frames = new Map();
    size = 0;
    sending = true;
    sentAt = performance.now();
    await send(pack(next, () => [self, sequence++]));
    sending = false;
    if (hints.size + frames.size > 0) schedule();
  };

  const keep = (frame: LiveFrame, after: Position): void => {
    const stream = frame.taskID ?? frame.sessionID ?? "";
    const known = frames.get(stream) ?? { list: [], size: 0 };
    const length = frame.type === "now.delta" ? 100 : frame.data.text.length;
    if (known.size + length > mostOfStream || size + length > mostOfAll) return;
    const last = known.list.at(-1);
    const joined = last === undefined || last[2] !== after ? undefined : join(last[1], frame);
    if (joined === undefined) known.list.push(["live", frame, after]);
    else known.list[known.list.length - 1] = ["live", joined, after];
    known.size += length;
    size += length;
    frames.set(stream, known);
  };

  return {
    tell(given) {
      for (const hint of given) {
        if (hint[0] === "live") keep(hint[1], hint[2]);
        else if (hint[0] === "told" && (told += 1) > mostTold) continue;
        else if (hint[0] === "grown" && (grown += 1) > mostGrown) hints.set("grown null", ["grown", null]);
        else hints.set(keyOf(hint), hint);
      }
      if (given.length > 0) schedule();
    },
    frame(frame, after) {
      if (frame.type === "now.delta") keep(frame, after);
      else for (const text of pieces(frame.data.text)) keep(withText(frame, text), after);
      schedule();
    },
    close() {
      closed = true;
      clearTimeout(timer);
    },
  };
};

/** One frame for both, if the second continues the text of the first and they fit into one; otherwise undefined. */
const join = (first: LiveFrame, second: LiveFrame): LiveFrame | undefined => {
  if (first.type === "now.delta" || second.type === "now.delta" || first.type !== second.type) return undefined;
  if (idOf(first) !== idOf(second) || first.data.text.length + second.data.text.length > mostText) return undefined;
  return withText(first, first.data.text + second.data.text);
};

const idOf = (frame: TextFrame): string => ("callID" in frame.data ? frame.data.callID : frame.data.messageID);

const withText = (frame: TextFrame, text: string): TextFrame =>
  frame.type === "tool.output"
    ? { ...frame, data: { ...frame.data, text } }
    : { ...frame, data: { ...frame.data, text } };

/** Cuts a text into pieces of at most `mostText`, and no character in two. */
const pieces = (text: string): string[] => {
  if (text.length <= mostText) return [text];
  const found: string[] = [];
  for (let at = 0; at < text.length; ) {
    const end = at + mostText;
    const code = text.charCodeAt(end - 1);
    const cut = code >= 0xd800 && code <= 0xdbff ? end - 1 : end;
    found.push(text.slice(at, cut));
    at = cut;
  }
  return found;
};

/**
 * Leaves out a hint that is too long for a payload. `head` makes payloads unique, because PostgreSQL drops a
 * notification that equals another one of its transaction.
 */
const pack = (hints: readonly Hint[], head: () => readonly [string, number]): string[] => {
  const payloads: string[] = [];
  let open: string[] = [];
  let bytes = 0;
  const close = () => {
    if (open.length > 0) payloads.push(`[${JSON.stringify(head())},${open.join(",")}]`);
    open = [];
    bytes = 0;
  };
  for (const hint of hints) {
    const text = JSON.stringify(hint);
    const length = Buffer.byteLength(text) + 1;
    if (length + 100 > mostBytes) continue;
    if (bytes + length + 100 > mostBytes) close();
    open.push(text);
    bytes += length;
  }
  close();
  return payloads;
};

/** The hints of a payload; undefined: it is our own, or not of this version. */
export const unpack = (payload: string, self: string): Hint[] | undefined => {
  try {
    const [head, ...hints] = JSON.parse(payload) as [[string, number], ...Hint[]];
    return Array.isArray(head) && head[0] !== self ? hints.filter((hint) => Array.isArray(hint)) : undefined;
  } catch {
    return undefined;
  }
};
