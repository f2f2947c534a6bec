import type { AttachmentRef, BlobRef, EventData, LongText } from "../protocol/event.ts";
import { warningText } from "./budget.ts";
import { type Recorded, requestMessageID } from "./event.ts";

/**
 * What one session's model reads, as a fold. A message that came while the model was answering, or while its calls
 * ran, stands after that turn's tool results: providers refuse a call without its result.
 */

export type UserMessage = {
  role: "user";
  messageID: string;
  source: string;
  text: LongText;
  attachments: AttachmentRef[];
  /** It made a settled Task active again: what came before is history. */
  restarted?: true;
};
export type AssistantMessage = {
  role: "assistant";
  messageID: string;
  text: LongText;
  calls: { callID: string; tool: string; input: EventData["tool.started"]["input"] }[];
  provider?: EventData["reply.finished"]["provider"];
};
export type ToolMessage = {
  role: "tool";
  results: {
    callID: string;
    tool: string;
    outcome: "ok" | "error" | "interrupted";
    output: LongText;
    exitCode: number | null;
  }[];
};
export type ChatMessage = UserMessage | AssistantMessage | ToolMessage;

export type Conversation = {
  /** Read by the model, or said by it. */
  said: ChatMessage[];
  /** Not yet read, with the version of their event. */
  unread: { version: number; message: UserMessage }[];
  /** Messages that wait for the agent to finish. */
  queued: UserMessage[];
  /** What the agent noted last, word for word. */
  note: string | null;
  /** Whether the last reply was the agent's last word. */
  idle: boolean;
  /** The last reply's calls that still miss a result, and the results so far, in call order. */
  turn: { reply: AssistantMessage; results: (ToolMessage["results"][number] | undefined)[] } | undefined;
  /** Whole texts behind results that were cut, by call. */
  outputs: Map<string, BlobRef>;
};

export const emptyConversation = (): Conversation => ({
  said: [],
  unread: [],
  queued: [],
  note: null,
  idle: false,
  turn: undefined,
  outputs: new Map(),
});

/** How the ids of messages begin that nobody sent: the service's own words to the model. */
const serviceMessage = "service-";
export const isService = ({ messageID }: { messageID: string }): boolean => messageID.startsWith(serviceMessage);

/** Folds one event of the session in. The conversation belongs to the one run that folds it and is changed in place. */
export const converse = (chat: Conversation, event: Recorded): void => {
  switch (event.type) {
    case "task.created": {
      const { request, attachments, source } = event.data;
      const message: UserMessage = {
        role: "user",
        messageID: requestMessageID(event.stream),
        source,
        text: request,
        attachments,
      };
      chat.unread.push({ version: event.version, message });
      return;
    }
    case "message.received": {
      const { messageID, source, text, attachments, disposition } = event.data;
      const message: UserMessage = {
        role: "user",
        messageID,
        source,
        text,
        attachments,
        ...(disposition === "restarted" ? { restarted: true } : {}),
      };
      if (disposition === "queued" && !(chat.idle && chat.unread.length === 0)) chat.queued.push(message);
      else chat.unread.push({ version: event.version, message });
      return;
    }
    case "reply.finished": {
      const { messageID, text, calls, read, provider } = event.data;
      closeTurn(chat);
      for (const { message } of chat.unread.filter(({ version }) => version <= read)) chat.said.push(message);
      chat.unread = chat.unread.filter(({ version }) => version > read);
      chat.idle = event.data.finish === "end";
      if (event.data.finish !== "calls") deliver(chat, event.version);
      if (event.data.finish === "failed") return;
      const reply: AssistantMessage = {
        role: "assistant",
        messageID,
        text,
        calls: [],
        ...(provider === undefined ? {} : { provider }),
      };
      chat.said.push(reply);
      chat.turn = calls.length === 0 ? undefined : { reply, results: calls.map(() => undefined) };
      return;
    }
    case "tool.started": {
      const { callID, tool, input } = event.data;
      if (chat.turn === undefined) return;
      chat.turn.reply.calls.push({ callID, tool, input });
      // An external agent's call may join those that are open.
      if (chat.turn.results.length < chat.turn.reply.calls.length) chat.turn.results.push(undefined);
      return;
    }
    case "tool.finished": {
      const { callID, tool, outcome, output, full, exitCode } = event.data;
      if (full !== undefined) chat.outputs.set(callID, full);
      const at = chat.turn?.reply.calls.findIndex((call) => call.callID === callID) ?? -1;
      if (chat.turn === undefined || at < 0) return;
      chat.turn.results[at] = { callID, tool, outcome, output, exitCode };
      if (chat.turn.results.every((result) => result !== undefined)) closeTurn(chat);
      return;
    }
    case "note.written":
      chat.note = event.data.text;
      return;
    case "budget.warned": {
      const message: UserMessage = {
        role: "user",
        messageID: `${serviceMessage}${event.version}`,
        source: "service",
        text: warningText(event.data),
        attachments: [],
      };
      chat.unread.push({ version: event.version, message });
      return;
    }
    case "task.settled":
      closeTurn(chat);
      deliver(chat, event.version);
      return;
    default:
  }
};

/** The agent has finished, or was ended: what waited for that is read next. */
const deliver = (chat: Conversation, version: number): void => {
  for (const message of chat.queued) chat.unread.push({ version, message });
  chat.queued = [];
};

/** The events that a conversation is made of. */
export const conversationTypes = [
  "task.created",
  "message.received",
  "reply.finished",
  "tool.started",
  "tool.finished",
  "note.written",
  "budget.warned",
  "task.settled",
] as const;

/** Ends a turn with what its calls gave; a call that never ended (a cancelled attempt) is told as interrupted. */
const closeTurn = (chat: Conversation): void => {
  if (chat.turn === undefined) return;
  const { reply, results } = chat.turn;
  chat.turn = undefined;
  chat.said.push({
    role: "tool",
    results: reply.calls.map(
      ({ callID, tool }, index) =>
        results[index] ?? {
          callID,
          tool,
          outcome: "interrupted",
          output: "Interrupted: outcome unknown.",
          exitCode: null,
        },
    ),
  });
};

/** What the next request holds: everything said, then what nobody has read yet. */
export const messagesOf = (chat: Conversation): ChatMessage[] => [
  ...chat.said,
  ...chat.unread.map(({ message }) => message),
];
