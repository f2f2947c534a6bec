import type { StreamState } from "../../domain/state/stream.ts";
import { foldMessages, messageTypes, type OpenMessage } from "../../domain/view/message.ts";
import type { Message } from "../../protocol/task/board.ts";
import { openBlob, readOf } from "../../store/blob/piece.ts";
import { loadInput, loadText } from "../../store/blob/text.ts";
import type { BlobRead, Json, Store } from "../../store/store.ts";

/**
 * Pages of the conversation of a Task or a Mission. The cost of a page depends on its content, not on the length of the
 * conversation.
 */

/** `after`: the `eventID` of the last message already read. */
export type MessageQuery = { after: number; limit: number };

/** Events read at a time; a message takes about three. */
const fewest = 200;
const most = 1000;

/** How many characters of long texts a page may contain; it contains at least one message. */
const pageChars = 2 * 1024 ** 2;

/**
 * One page of messages, oldest first: at most `limit`, fewer when their texts are long. `open`: the stream's calls that
 * are running now. `nextAfter` is null on the last page.
 */
export const messagesIn = async (
  store: Pick<Store, "since" | "blobs">,
  stream: string,
  { after, limit, open }: MessageQuery & Pick<StreamState, "open">,
  signal?: AbortSignal,
): Promise<{ messages: Message[]; nextAfter: number | null }> => {
  const running = new Set(open.map(({ callID }) => callID));
  const { messages: found, add } = foldMessages();
  const size = Math.min(most, Math.max(fewest, limit * 3));
  for (let edge = after; !isWhole(found, limit, running); ) {
    const events = await store.since(edge, size, { stream, types: messageTypes }, signal);
    for (const event of events) add(event);
    const last = events.at(-1);
    if (last === undefined) break;
    edge = last.position;
  }
  const messages: Message[] = [];
  let chars = 0;
  for (const message of found.slice(0, limit)) {
    const loaded = await loadMessage(store, message);
    chars += loaded.calls.reduce((sum, { output }) => sum + (output?.length ?? 0), loaded.text.length);
    if (chars > pageChars && messages.length > 0) break;
    messages.push(loaded);
  }
  return { messages, nextAfter: found.length > messages.length ? (messages.at(-1)?.eventID ?? null) : null };
};

/** All messages, page by page. */
export const allMessagesIn = async (
  store: Pick<Store, "since" | "blobs">,
  stream: string,
  open: StreamState["open"],
): Promise<Message[]> => {
  const all: Message[] = [];
  for (let after: number | null = 0; after !== null; ) {
    const page: Awaited<ReturnType<typeof messagesIn>> = await messagesIn(store, stream, {
      after,
      limit: fewest,
      open,
    });
    all.push(...page.messages);
    after = page.nextAfter;
  }
  return all;
};

/**
 * Whether no later event can change the first `limit` messages. Calls belong to the newest reply, so a later reply must
 * have been found; and all calls must have ended, except those that are running now, and those that a crash left
 * behind, whose session has continued since.
 */
const isWhole = (found: readonly OpenMessage[], limit: number, running: ReadonlySet<string>): boolean => {
  const later = found.slice(limit).filter(({ role }) => role === "assistant");
  if (later.length === 0) return false;
  const goneOn = new Set(later.map(({ sessionID }) => sessionID));
  return found
    .slice(0, limit)
    .every(
      ({ sessionID, calls }) =>
        goneOn.has(sessionID) || calls.every(({ callID, state }) => state !== "running" || running.has(callID)),
    );
};

/** The full output of a call, as its tool returned it; undefined when no call with this id has ended. */
export const outputOfCall = async (
  store: Pick<Store, "since" | "blobs">,
  stream: string,
  callID: string,
): Promise<BlobRead | undefined> => {
  for (let edge = 0; ; ) {
    const events = await store.since(edge, most, { stream, types: ["tool.finished"] });
    for (const { type, data, position } of events) {
      edge = position;
      if (type !== "tool.finished" || data.callID !== callID) continue;
      const whole = data.full === undefined ? undefined : await openBlob(store.blobs, data.full);
      return whole ?? readOf(Buffer.from(await loadText(store.blobs, data.output)));
    }
    if (events.length < most) return undefined;
  }
};

export const loadMessage = async (store: Pick<Store, "blobs">, message: OpenMessage): Promise<Message> => ({
  ...message,
  text: await loadText(store.blobs, message.text),
  calls: await Promise.all(
    message.calls.map(async (call) => ({
      ...call,
      input: await loadInput(store.blobs, call.input as Json),
      output: call.output === null ? null : await loadText(store.blobs, call.output),
    })),
  ),
});
