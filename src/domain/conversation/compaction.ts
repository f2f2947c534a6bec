import { serviceSourceOf } from "../../protocol/event/source.ts";
import type { EventData } from "../../protocol/event/event.ts";
import { type ChatMessage, type Conversation, isService, type UserMessage } from "./message.ts";

/**
 * Decides when a conversation is too long for its model, and which turns a compaction replaces. Sizes are in tokens:
 * what the provider counted with the last reply, plus a quarter of the characters since.
 */

/** Share of the window: the conversation is compacted before a request longer than this. */
const fullAt = 0.8;
/** Shares of the window: for the newest turns, which stay unchanged, and for the user's messages. */
const keptShare = 0.25;
const messagesShare = 0.15;
/** Share of the window: a compaction that frees less than this is not worthwhile. */
const worthShare = 0.1;

const perToken = 4;
/**
 * The most characters per token, once the provider has counted: some providers leave cached tokens out of their count.
 */
const perTokenAtMost = 6;

const imageChars = 6_000;
const inlinedChars = 100_000;

const sizes = new WeakMap<ChatMessage, number>();

/** Characters of a message, as the model reads it. Cached, so its turn must be complete. */
export const charsOf = (message: ChatMessage): number => {
  const known = sizes.get(message);
  if (known !== undefined) return known;
  const size = measure(message);
  sizes.set(message, size);
  return size;
};

const measure = (message: ChatMessage): number => {
  const long = (text: UserMessage["text"]) => (typeof text === "string" ? text.length : text.blob.bytes);
  switch (message.role) {
    case "user": {
      const files = message.attachments.map(({ mime, bytes }) =>
        mime.startsWith("image/") ? imageChars : Math.min(bytes, inlinedChars),
      );
      return long(message.text) + (message.summary?.note?.length ?? 0) + sum(files);
    }
    case "assistant":
      return long(message.text) + sum(message.calls.map(({ tool, input }) => tool.length + inputChars(input)));
    case "tool":
      return sum(message.results.map(({ output }) => long(output)));
  }
};

const inputChars = (input: unknown): number => {
  if (typeof input === "object" && input !== null && "blob" in input) {
    const { blob } = input as { blob: { bytes?: number } };
    if (typeof blob === "object" && typeof blob?.bytes === "number") return blob.bytes;
  }
  return JSON.stringify(input).length;
};

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);
const charsIn = (messages: readonly ChatMessage[]): number => sum(messages.map(charsOf));

/** Estimated tokens of the next request. `overhead`: characters of the instructions and the tools. */
export const estimate = (chat: Conversation, overhead: number): number => {
  const unread = chat.unread.map(({ message }) => message);
  const all = overhead + charsIn(chat.said) + charsIn(unread);
  if (chat.tokens === 0) return Math.ceil(all / perToken);
  const last = chat.said.findLastIndex(({ role }) => role === "assistant");
  const since = charsIn(chat.said.slice(last + 1)) + charsIn(unread);
  return Math.ceil(Math.max(chat.tokens + since / perToken, all / perTokenAtMost));
};

/** Whether to compact. If the instructions alone fill half the window, no compaction would help. */
export const isFull = (chat: Conversation, overhead: number, window: number): boolean =>
  overhead / perToken < window / 2 && estimate(chat, overhead) > window * fullAt;

export type Compaction = Pick<EventData["conversation.compacted"], "through" | "kept" | "carried"> & {
  /** The turns to replace, with the messages between them. */
  gone: ChatMessage[];
  /** Characters of the replaced turns that are dropped. */
  leaves: number;
  /** Characters that remain, not counting the summary. */
  stays: number;
};

/** Which turns to replace; undefined if none can be, or if too little would be gained. `forced`: accept any gain. */
export const planCompaction = (chat: Conversation, window: number, forced: boolean): Compaction | undefined => {
  const chars = window * perToken;
  const turns = chat.said.flatMap((message, at) =>
    message.role === "assistant" && message.calls.length > 0 ? [at] : [],
  );
  // The newest turn stays, because the model has not read its results yet.
  const ends = (chat.said.at(-1)?.role === "tool" ? turns.slice(0, -1) : turns).map((at) => at + 2);
  const end = ends.find((at) => charsIn(chat.said.slice(at)) <= chars * keptShare) ?? ends.at(-1);
  const reply = end === undefined ? undefined : chat.said[end - 2];
  if (end === undefined || reply?.role !== "assistant") return undefined;

  const cut = cutAt(chat, end, reply.version, chars * messagesShare);
  return !forced && cut.leaves < chars * worthShare ? undefined : cut;
};

/**
 * Replaces everything up to the newest reply except what people wrote; undefined if there is no reply yet. For a
 * conversation whose turn is over: that reply's results were read, or say nothing new.
 */
export const planRenewal = (chat: Conversation): Compaction | undefined => {
  const at = chat.said.findLastIndex(({ role }) => role === "assistant");
  const reply = chat.said[at];
  if (reply?.role !== "assistant" || chat.turn !== undefined) return undefined;
  const end = chat.said[at + 1]?.role === "tool" ? at + 2 : at + 1;
  return cutAt(chat, end, reply.version, Number.POSITIVE_INFINITY);
};

const cutAt = (chat: Conversation, end: number, through: number, room: number): Compaction => {
  const gone = chat.said.slice(0, end);
  const kept = keepers(gone, room);
  const later = [...chat.said.slice(end), ...chat.unread.map(({ message }) => message), ...chat.queued];
  return {
    through,
    kept: kept.map(({ version }) => version),
    carried: later.flatMap((message) =>
      message.role === "user" && message.version < through ? [message.version] : [],
    ),
    gone,
    leaves: charsIn(gone) - charsIn(kept),
    stays: charsIn(kept) + charsIn(chat.said.slice(end)) + charsIn(chat.unread.map(({ message }) => message)),
  };
};

/** The messages of people that stay verbatim: always the request, and the newest of the others that fit. */
const keepers = (gone: readonly ChatMessage[], room: number): UserMessage[] => {
  const written = gone.flatMap((message) =>
    message.role === "user" && serviceSourceOf(message) !== "checks" && !isService(message) ? [message] : [],
  );
  const [request, ...later] = written;
  if (request === undefined) return [];
  let left = room;
  const fitting = later.toReversed().filter((message) => {
    left -= charsOf(message);
    return left >= 0 || message.restarted === true;
  });
  return [request, ...fitting.toReversed()];
};
