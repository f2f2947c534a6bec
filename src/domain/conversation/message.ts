import type { AttachmentRef, BlobRef, LongText } from "../../protocol/text.ts";
import type { EventData } from "../../protocol/event/event.ts";

/** The messages of one session, as its model reads them. */

export type UserMessage = {
  role: "user";
  messageID: string;
  /** Version of the event that carried the message. */
  version: number;
  source: string;
  /** The message is a caller's, whatever its source says. */
  byUser?: true;
  text: LongText;
  attachments: AttachmentRef[];
  /** The message made a settled Task active again: earlier messages are history. */
  restarted?: true;
  /** The message repeats the request for a retry: earlier messages are not part of the conversation. */
  retried?: true;
  /** The message was written to the Task and passed on, instead of coming from the agent that delegated the work. */
  passed?: true;
  /** The service's words before the message. */
  before?: string;
  /** The text is the summary of a compaction. `note`: the agent's note at that time, which belongs to it. */
  summary?: { note: string | null };
};
export type AssistantMessage = {
  role: "assistant";
  messageID: string;
  /** Version of the reply's event. */
  version: number;
  text: LongText;
  calls: { callID: string; tool: string; input: EventData["tool.started"]["input"] }[];
  provider?: EventData["reply.finished"]["provider"];
  /** The reply contained nothing usable, and the model is asked again. */
  empty?: true;
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
  /** What the model has read or said. */
  said: ChatMessage[];
  /** Messages not yet read, with the versions of their events. */
  unread: { version: number; message: UserMessage }[];
  /** Messages that wait for the agent to finish. */
  queued: UserMessage[];
  /** The agent's latest note, verbatim. */
  note: string | null;
  /** Whether the agent's last reply was its final one. */
  idle: boolean;
  /** The last reply whose calls are not all finished, and their results so far in call order. */
  turn: { reply: AssistantMessage; results: (ToolMessage["results"][number] | undefined)[] } | undefined;
  /** Tokens of the last request and its reply, as counted by the provider; 0 = unknown. */
  tokens: number;
  /** Full texts of truncated results, by call. */
  outputs: Map<string, BlobRef>;
};

export const emptyConversation = (): Conversation => ({
  said: [],
  unread: [],
  queued: [],
  note: null,
  idle: false,
  turn: undefined,
  tokens: 0,
  outputs: new Map(),
});

/** Prefix of the ids of messages that the service itself addresses to the model. */
export const serviceMessage = "service-";
export const isService = ({ messageID }: { messageID: string }): boolean => messageID.startsWith(serviceMessage);

/** The agent's last text; empty if there is none yet. */
export const lastWordOf = ({ said }: Conversation): LongText =>
  said.findLast((message) => message.role === "assistant")?.text ?? "";

/**
 * How many replies at the end of the conversation had neither words nor calls, or lost the calls that they announced; 0
 * if there is something unread.
 */
export const emptyReplies = ({ said, unread }: Conversation): number => {
  if (unread.length > 0) return 0;
  const other = said.findLastIndex(
    (message) =>
      message.role !== "assistant" || message.calls.length > 0 || (message.empty !== true && !isBlank(message.text)),
  );
  return said.length - 1 - other;
};

/** Whether the last reply had words. */
export const saidSomething = (chat: Conversation): boolean => !isBlank(lastWordOf(chat));

const isBlank = (text: LongText): boolean => typeof text === "string" && text.trim() === "";

/** The messages of the next request: everything said, then what is unread. */
export const messagesOf = (chat: Conversation): ChatMessage[] => [
  ...chat.said,
  ...chat.unread.map(({ message }) => message),
];
