import type { EventData } from "../../protocol/event/event.ts";
import type { Message } from "../../protocol/task/board.ts";
import type { LongText } from "../../protocol/text.ts";
import { answerMessageID, answerSource, messagedSource, type Recorded, requestMessageID } from "../event.ts";
import { missionSentence, agentNotice, answerNotice, messagedNotice } from "../mission/wording.ts";

/** Folds events into messages for people. */

/** The events that `foldMessages` needs. */
export const messageTypes = [
  "task.created",
  "message.received",
  "reply.finished",
  "tool.started",
  "tool.finished",
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
  "mission.paused",
] as const;

/** A message whose long texts are still references. */
export type OpenMessage = Omit<Message, "text" | "calls"> & {
  text: LongText;
  calls: (Omit<Message["calls"][number], "output"> & { output: LongText | null })[];
};

/** Folds events, in order, into messages. Calls whose reply is not among the events are left out. */
export const messagesFrom = (events: readonly Recorded[]): OpenMessage[] => {
  const { messages, add } = foldMessages();
  for (const event of events) add(event);
  return messages;
};

/** Like `messagesFrom`, one event at a time: `messages` grows, and its entries change while their calls run. */
export const foldMessages = (): { messages: OpenMessage[]; add: (event: Recorded) => void } => {
  const messages: OpenMessage[] = [];
  const calls = new Map<string, OpenMessage["calls"][number]>();
  let last: OpenMessage | undefined;
  const add = (event: Recorded): void => {
    switch (event.type) {
      case "task.created":
        messages.push(user(event, requestMessageID(event.stream), event.data.sessionID, event.data.source, event.data));
        break;
      case "message.received":
        messages.push(user(event, event.data.messageID, event.data.sessionID, event.data.source, event.data));
        break;
      case "task.ended":
      case "task.asked":
      case "task.overdue":
      case "squad.reconciled":
      case "squad.refused":
      case "phase.written":
      case "phase.dropped":
      case "plan.ordered":
      case "mission.woken":
      case "mission.reminded":
      case "mission.paused": {
        const text = event.type === "mission.paused" ? missionSentence(event) : agentNotice(event);
        if (text === undefined) break;
        const messageID = `service-${event.version}`;
        messages.push(user(event, messageID, event.data.sessionID, "service", { text, attachments: [] }));
        break;
      }
      case "task.answered": {
        const text = answerNotice(event);
        if (text === undefined) break;
        const { sessionID, askID } = event.data;
        messages.push(user(event, answerMessageID(askID), sessionID, answerSource, { text, attachments: [] }));
        break;
      }
      case "task.messaged": {
        const { messageID, sessionID } = event.data;
        messages.push(
          user(event, messageID, sessionID, messagedSource, { text: messagedNotice(event), attachments: [] }),
        );
        break;
      }
      case "reply.finished": {
        const { messageID, sessionID, agent, text } = event.data;
        last = {
          messageID,
          sessionID,
          role: "assistant",
          source: agent,
          text,
          attachments: [],
          calls: [],
          at: event.at,
          eventID: event.position,
        };
        messages.push(last);
        break;
      }
      case "tool.started": {
        const { callID, tool, input } = event.data;
        const call = { callID, tool, input, state: "running" as const, output: null, exitCode: null, durationMs: null };
        calls.set(callID, call);
        last?.calls.push(call);
        break;
      }
      case "tool.finished": {
        const call = calls.get(event.data.callID);
        if (call === undefined) break;
        call.state = event.data.outcome;
        call.output = event.data.output;
        call.exitCode = event.data.exitCode;
        call.durationMs = event.data.durationMs;
        break;
      }
      default:
    }
  };
  return { messages, add };
};

const user = (
  event: Recorded,
  messageID: string,
  sessionID: string,
  source: string,
  data: Pick<EventData["message.received"], "attachments"> & ({ text: LongText } | { request: LongText }),
): OpenMessage => ({
  messageID,
  sessionID,
  role: "user",
  source,
  text: "text" in data ? data.text : data.request,
  attachments: data.attachments,
  calls: [],
  at: event.at,
  eventID: event.position,
});
