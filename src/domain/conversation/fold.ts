import { warningText } from "../session/budget.ts";
import { answerMessageID, answerSource, messagedSource, type Recorded, requestMessageID, sessionOf } from "../event.ts";
import { agentNotice, answerNotice, messagedNotice } from "../mission/wording.ts";

import {
  type AssistantMessage,
  type ChatMessage,
  type Conversation,
  emptyConversation,
  serviceMessage,
  type UserMessage,
} from "./message.ts";

/**
 * The conversation of one session, as its model reads it, folded from events. A message that arrived while the model
 * was answering, or while its calls ran, is placed after that turn's tool results, because providers reject a call
 * without a result.
 */

/** Whether an event is part of a session's conversation. `root`: the session is the Orchestrator's. */
export const belongsTo = (event: Recorded, sessionID: string, root: boolean): boolean =>
  event.type === "task.settled" || (event.type === "budget.warned" ? root : sessionOf(event) === sessionID);

/** Folds in one event of the session. The conversation belongs to the run that folds it and is modified in place. */
export const applyEvent = (chat: Conversation, event: Recorded): void => {
  switch (event.type) {
    case "task.created": {
      const { request, attachments, source, revertOf, mergeOf } = event.data;
      const message: UserMessage = {
        role: "user",
        messageID: requestMessageID(event.stream),
        version: event.version,
        source,
        text: request,
        attachments,
      };
      begin(chat, message, revertOf !== undefined || mergeOf !== undefined);
      return;
    }
    case "session.started": {
      const { sessionID, brief } = event.data;
      const message: UserMessage = {
        role: "user",
        messageID: sessionID.replace(/^ses_/, "msg_"),
        version: event.version,
        source: "orchestrator",
        text: brief,
        attachments: [],
      };
      chat.unread.push({ version: event.version, message });
      return;
    }
    case "message.received": {
      const { messageID, source, text, attachments, disposition, byUser, retried } = event.data;
      const message: UserMessage = {
        role: "user",
        messageID,
        version: event.version,
        source,
        ...(byUser === undefined ? {} : { byUser }),
        text,
        attachments,
        ...(disposition === "restarted" ? { restarted: true } : {}),
        ...(retried === undefined ? {} : { retried: true }),
      };
      if (retried !== undefined) {
        Object.assign(chat, emptyConversation());
        begin(chat, message, retried === "service");
        return;
      }
      if (disposition === "queued" && !(chat.idle && chat.unread.length === 0)) chat.queued.push(message);
      else chat.unread.push({ version: event.version, message });
      return;
    }
    case "message.passed": {
      const { messageID, source, text, attachments } = event.data;
      const message: UserMessage = {
        role: "user",
        messageID,
        version: event.version,
        source,
        text,
        attachments,
        passed: true,
      };
      chat.unread.push({ version: event.version, message });
      return;
    }
    case "reply.finished": {
      const { messageID, text, calls, read, provider, usage, before } = event.data;
      if (usage.outputTokens > 0) chat.tokens = usage.inputTokens + usage.outputTokens;
      closeTurn(chat);
      const told = chat.unread.find(({ message }) => message.messageID === before?.messageID);
      if (told !== undefined && before !== undefined) told.message.before = before.text;
      for (const { message } of chat.unread.filter(({ version }) => version <= read)) chat.said.push(message);
      chat.unread = chat.unread.filter(({ version }) => version > read);
      chat.idle = event.data.finish === "end";
      if (event.data.finish !== "calls" && event.data.finish !== "empty") deliver(chat, event.version);
      if (event.data.finish === "failed") return;
      const reply: AssistantMessage = {
        role: "assistant",
        messageID,
        version: event.version,
        text,
        calls: [],
        ...(provider === undefined ? {} : { provider }),
        ...(event.data.finish === "empty" ? { empty: true } : {}),
      };
      chat.said.push(reply);
      chat.turn = calls.length === 0 ? undefined : { reply, results: calls.map(() => undefined) };
      return;
    }
    case "tool.started": {
      const { callID, tool, input } = event.data;
      if (chat.turn === undefined) return;
      chat.turn.reply.calls.push({ callID, tool, input });
      // An external agent may start a call while others are open.
      if (chat.turn.results.length < chat.turn.reply.calls.length) chat.turn.results.push(undefined);
      return;
    }
    case "tool.finished": {
      const { callID, tool, outcome, output, full, exitCode } = event.data;
      const at = chat.turn?.reply.calls.findIndex((call) => call.callID === callID) ?? -1;
      if (chat.turn === undefined || at < 0) return;
      if (full !== undefined) chat.outputs.set(callID, full);
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
        version: event.version,
        source: "service",
        text: warningText(event.data),
        attachments: [],
      };
      chat.unread.push({ version: event.version, message });
      return;
    }
    case "conversation.compacted":
      compact(chat, event);
      return;
    case "task.ended":
    case "task.asked":
    case "task.overdue":
    case "squad.reconciled":
    case "squad.refused":
    case "phase.written":
    case "phase.dropped":
    case "plan.ordered":
    case "mission.woken":
    case "mission.reminded": {
      const text = agentNotice(event);
      if (text === undefined) return;
      const message: UserMessage = {
        role: "user",
        messageID: `${serviceMessage}${event.version}`,
        version: event.version,
        source: "service",
        text,
        attachments: [],
      };
      chat.unread.push({ version: event.version, message });
      return;
    }
    case "task.answered": {
      const text = answerNotice(event);
      if (text === undefined) return;
      const messageID = answerMessageID(event.data.askID);
      const message: UserMessage = {
        role: "user",
        messageID,
        version: event.version,
        source: answerSource,
        text,
        attachments: [],
      };
      chat.unread.push({ version: event.version, message });
      return;
    }
    case "task.messaged": {
      const message: UserMessage = {
        role: "user",
        messageID: event.data.messageID,
        version: event.version,
        source: messagedSource,
        text: messagedNotice(event),
        attachments: [],
      };
      chat.unread.push({ version: event.version, message });
      return;
    }
    case "mission.aborted":
    case "task.settled":
      closeTurn(chat);
      deliver(chat, event.version);
      return;
    default:
  }
};

/** Begins the conversation with the request. A request that the service carries out itself is not left unread. */
const begin = (chat: Conversation, message: UserMessage, byService: boolean): void => {
  chat.idle = byService;
  if (byService) chat.said.push(message);
  else chat.unread.push({ version: message.version, message });
};

/** Makes the messages that waited for the agent to finish unread, so that it reads them next. */
const deliver = (chat: Conversation, version: number): void => {
  for (const message of chat.queued) chat.unread.push({ version, message });
  chat.queued = [];
};

/** The events that `applyEvent` needs. */
export const conversationTypes = [
  "task.created",
  "session.started",
  "message.received",
  "message.passed",
  "reply.finished",
  "tool.started",
  "tool.finished",
  "note.written",
  "budget.warned",
  "conversation.compacted",
  "task.settled",
  "task.ended",
  "task.asked",
  "task.answered",
  "task.messaged",
  "task.overdue",
  "squad.reconciled",
  "squad.refused",
  "phase.written",
  "phase.dropped",
  "plan.ordered",
  "mission.woken",
  "mission.reminded",
  "mission.aborted",
] as const;

type Compacted = Recorded & { type: "conversation.compacted" };

/** The messages that replace the turns up to `through`: the kept ones, then the summary. */
const replacement = (event: Compacted, gone: readonly ChatMessage[]): ChatMessage[] => {
  const kept = new Set(event.data.kept);
  const summary: UserMessage = {
    role: "user",
    messageID: `${serviceMessage}${event.version}`,
    version: event.version,
    source: "service",
    text: event.data.summary,
    attachments: [],
    summary: { note: event.data.note },
  };
  const stay = gone.flatMap((message) => (message.role === "user" && kept.has(message.version) ? [message] : []));
  return [...stay.toSorted((a, b) => a.version - b.version), summary];
};

const compact = (chat: Conversation, event: Compacted): void => {
  chat.tokens = 0;
  const last = chat.said.findIndex((message) => message.role === "assistant" && message.version === event.data.through);
  // A conversation restored from a later compaction does not contain these turns.
  if (last < 0) return;
  const end = chat.said[last + 1]?.role === "tool" ? last + 2 : last + 1;
  // A conversation restored from this compaction has seen no reply and is not idle; this one must agree. `idle` matters
  // only for queued messages, which a Mission never has.
  if (!chat.said.slice(end).some(({ role }) => role === "assistant")) chat.idle = false;
  chat.said.splice(0, end, ...replacement(event, chat.said.slice(0, end)));
  const calls = chat.said.flatMap((message) => (message.role === "assistant" ? message.calls : []));
  const stay = new Set(calls.map(({ callID }) => callID));
  for (const callID of chat.outputs.keys()) if (!stay.has(callID)) chat.outputs.delete(callID);
};

/** Types of the earlier events that `restoreFromCompaction` needs, as far as the compaction names them. */
export const messageEventTypes = [
  "task.created",
  "session.started",
  "message.received",
  "message.passed",
  "budget.warned",
  "task.ended",
  "task.asked",
  "task.answered",
  "task.messaged",
  "task.overdue",
  "squad.reconciled",
  "squad.refused",
  "phase.written",
  "phase.dropped",
  "plan.ordered",
  "mission.woken",
  "mission.reminded",
] as const;

/**
 * The conversation right after its newest compaction; later events are folded in afterwards. `messages`: the events
 * that the compaction names in `kept` and `carried`.
 */
export const restoreFromCompaction = (event: Compacted, messages: readonly Recorded[]): Conversation => {
  const of = (versions: readonly number[]): Conversation => {
    const chat = emptyConversation();
    for (const message of messages) if (versions.includes(message.version)) applyEvent(chat, message);
    return chat;
  };
  const { unread, queued } = of(event.data.kept);
  const kept = [...unread.map(({ message }) => message), ...queued];
  return { ...of(event.data.carried), said: replacement(event, kept), note: event.data.note };
};

/** Ends a turn with the results of its calls. A call without one (of a cancelled attempt) counts as interrupted. */
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
