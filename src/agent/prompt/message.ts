import { attachmentPaths } from "../../domain/attachment.ts";
import { type ChatMessage, type Conversation, messagesOf } from "../../domain/conversation/message.ts";
import type { PromptFile, PromptMessage } from "../../model/model.ts";
import type { AttachmentRef } from "../../protocol/text.ts";
import { loadInput, loadText, requireText } from "../../store/blob/text.ts";
import type { Blobs } from "../../store/store.ts";
import { shortenedResult, shareRoom } from "../../tool/result.ts";

/**
 * Builds the messages that the model reads: the conversation with its long texts loaded from blobs. Only the end
 * changes from turn to turn, so that providers can cache the prefix.
 */

const wrapUp =
  "The user asks you to stop here. Call no tools. Say in a few sentences what is done, what is not, and what state the files are in.";

/**
 * The messages of the next request. `last`: the user wants the session to end, so a request for a final summary is
 * appended.
 */
export const promptOf = (chat: Conversation, blobs: Blobs, last: boolean): Promise<PromptMessage[]> =>
  createPrompts(blobs).next(chat, last);

/** Messages whose attachments exceed this many bytes are not cached; they are read again for each request. */
const filesBytes = 1024 * 1024;

/** Largest share of the window that the results of one turn may take together. */
const resultsShare = 0.4;

const shortestResult = 400;

/**
 * Loads each message once; a conversation only grows at its end. `window`: tokens that the model can hold. `filed`:
 * attachments are also in the working directory, so messages name their paths.
 */
export const createPrompts = (blobs: Blobs, window = Number.POSITIVE_INFINITY, filed = true) => {
  const loaded = new WeakMap<ChatMessage, PromptMessage>();
  const loadOnce = async (message: ChatMessage): Promise<PromptMessage> => {
    const known = loaded.get(message);
    if (known !== undefined) return known;
    const prompt = await load(message, blobs, window, filed);
    const large =
      message.role === "user" && message.attachments.reduce((sum, { bytes }) => sum + bytes, 0) > filesBytes;
    if (!large) loaded.set(message, prompt);
    return prompt;
  };
  // Nearly all messages are cached: creating a promise for each one of a long conversation would cost more than the
  // turn.
  const all = async (messages: readonly ChatMessage[]): Promise<PromptMessage[]> => {
    const missing = messages.filter((message) => !loaded.has(message));
    const fresh = new Map(
      await Promise.all(missing.map(async (message) => [message, await loadOnce(message)] as const)),
    );
    return messages.flatMap((message) => loaded.get(message) ?? fresh.get(message) ?? []);
  };
  return {
    all,
    /** `words`: a demand by the service, appended to this one request. */
    async next(chat: Conversation, last: boolean, words?: string): Promise<PromptMessage[]> {
      const messages = await all(messagesOf(chat));
      const say = (messageID: string, text: string) =>
        messages.push({ role: "user", messageID, source: "service", text, files: [] });
      if (last) say("wrap-up", wrapUp);
      else if (words !== undefined) say("demand", words);
      return messages;
    },
  };
};

const load = async (message: ChatMessage, blobs: Blobs, window: number, filed: boolean): Promise<PromptMessage> => {
  switch (message.role) {
    case "user": {
      const { messageID, source, summary, passed } = message;
      const names = message.attachments.map(({ filename }) => filename);
      const paths = attachmentPaths(messageID, names);
      const files = await Promise.all(
        message.attachments.map(async (ref, index) => ({
          ...(await loadFile(ref, blobs)),
          // A message that was passed on from the Task has its attachments in the Task's files, not necessarily in
          // these.
          ...(filed && passed !== true ? { path: paths[index] ?? "" } : {}),
        })),
      );
      const restarted = message.restarted === true ? { restarted: true } : {};
      const said = await requireText(blobs, message.text);
      const text = message.before === undefined ? said : `${message.before}\n\n${said}`;
      return {
        role: "user",
        messageID,
        source,
        text: summary === undefined ? (passed === true ? toAll(text) : text) : afterSummary(text, summary.note),
        files,
        ...restarted,
      };
    }
    case "assistant": {
      const { messageID, provider } = message;
      const calls = await Promise.all(
        message.calls.map(async ({ callID, tool, input }) => ({ callID, tool, input: await loadInput(blobs, input) })),
      );
      return {
        role: "assistant",
        messageID,
        text: await loadText(blobs, message.text),
        calls,
        ...(provider === undefined ? {} : { provider }),
      };
    }
    case "tool": {
      const texts = await Promise.all(message.results.map(({ output }) => loadText(blobs, output)));
      const lengths = texts.map(({ length }) => length);
      const rooms = shareRoom(lengths, window * 4 * resultsShare, shortestResult);
      return {
        role: "tool",
        results: message.results.map((result, at) => ({
          ...result,
          output: shortenedResult(texts[at] ?? "", result.callID, rooms[at] ?? shortestResult),
        })),
      };
    }
  }
};

const toAll = (text: string): string =>
  `The user says to everybody who works on this Task; where it differs from your brief, it counts:\n\n${text}`;

const afterSummary = (summary: string, note: string | null): string => {
  const noted = note === null ? "" : `\n\n# Your note\n\n${note}`;
  return `Note from the service: earlier turns of this conversation were cut. What the user wrote stands above, word for word; the rest is summarised here. What stands below this note came later, and the files are as all of it left them.\n\n# Summary\n\n${summary}${noted}\n\nGo on from here.`;
};

const loadFile = async (ref: AttachmentRef, blobs: Blobs): Promise<PromptFile> => ({
  filename: ref.filename,
  mime: ref.mime,
  bytes: (await blobs.get(ref.sha256)) ?? Buffer.from("[gone from the data folder]"),
});
