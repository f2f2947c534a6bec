import { interruptedCall } from "../../agent/loop/call.ts";
import type { DomainEvent } from "../../domain/event.ts";
import type { TaskState } from "../../domain/state/task.ts";

/**
 * The events, with an end added for each call that is left open by a session ending in them. A session's calls end in
 * the same commit as the session, because nothing would end them later.
 */
export const closingCalls = ({ open }: Pick<TaskState, "open">, events: readonly DomainEvent[]): DomainEvent[] =>
  events.flatMap((event, at) => {
    if (event.type !== "session.ended") return [event];
    const { sessionID } = event.data;
    const done = new Set(
      events.slice(0, at).flatMap((other) => (other.type === "tool.finished" ? [other.data.callID] : [])),
    );
    const left = open.filter((call) => call.sessionID === sessionID && !done.has(call.callID));
    return [...left.map((call) => interruptedCall(sessionID, call, "Its session has ended.")), event];
  });
