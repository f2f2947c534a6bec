import type { EventData } from "../../protocol/event/event.ts";
import type { MessageAccepted } from "../../protocol/task/accepted.ts";
import { rootOf, type Session } from "../../domain/state/stream.ts";
import type { TaskState } from "../../domain/state/task.ts";

/** Decides which sessions read a message to a Task. */

type Disposition = EventData["message.received"]["disposition"];

/** Delegated sessions that are at work; they read what is said meanwhile. */
const atWork = ({ sessions }: TaskState): Session[] =>
  sessions.filter(
    ({ callID, purpose, end, interrupted }) =>
      callID !== null && purpose === "work" && end === null && interrupted === null,
  );

/**
 * The delegated sessions that read a message. A message that is queued, interrupts or restarts goes to the Orchestrator
 * alone.
 */
export const delegatesReading = (state: TaskState, disposition: Disposition): Session[] =>
  disposition === "steered" ? atWork(state) : [];

export const readersOf = (state: TaskState, disposition: Disposition): MessageAccepted["readers"] => {
  const root = state.sessions.filter(({ sessionID }) => sessionID === rootOf(state));
  return [...root, ...delegatesReading(state, disposition)].map(({ sessionID, agent }) => ({
    sessionID,
    agent,
    when:
      disposition === "queued"
        ? "when_done"
        : disposition === "steered" && isWaiting(state, sessionID)
          ? "after_delegates"
          : "next_turn",
  }));
};

const isWaiting = ({ open }: TaskState, sessionID: string): boolean =>
  open.some((call) => call.sessionID === sessionID && call.tool === "delegate");
