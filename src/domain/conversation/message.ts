import type { AttachmentRef, BlobRef, LongText } from "../../protocol/text.ts";
import type { EventData } from "../../protocol/event/event.ts";

/** What one session's model reads. */

export type UserMessage = {
  role: "user";
  messageID: string;
  /** Of the event that it came with. */
  version: number;
  source: string;
  text: LongText;
  attachments: AttachmentRef[];
  /** It made a settled Task active again: what came before is history. */
  restarted?: true;
  /** The text is the summary of older turns; the agent's note, as it stood then, belongs to it. */
  summary?: { note: string | null };
};
export type AssistantMessage = {
  role: "assistant";
  messageID: string;
  /** Of the reply's event. */
  version: number;
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
  /** Tokens of the last request and its reply, as the provider counted them; 0 = unknown. */
  tokens: number;
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
  tokens: 0,
  outputs: new Map(),
});

/** How the ids of messages begin that nobody sent: the service's own words to the model. */
export const serviceMessage = "service-";
export const isService = ({ messageID }: { messageID: string }): boolean => messageID.startsWith(serviceMessage);

/** What the agent said last; empty: nothing yet. */
export const lastWordOf = ({ said }: Conversation): LongText =>
  said.findLast((message) => message.role === "assistant")?.text ?? "";

/** What the next request holds: everything said, then what nobody has read yet. */
export const messagesOf = (chat: Conversation): ChatMessage[] => [
  ...chat.said,
  ...chat.unread.map(({ message }) => message),
];
