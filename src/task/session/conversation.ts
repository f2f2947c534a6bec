import {
  belongsTo,
  conversationTypes,
  applyEvent,
  messageEventTypes,
  restoreFromCompaction,
} from "../../domain/conversation/fold.ts";
import { type Conversation, emptyConversation } from "../../domain/conversation/message.ts";
import type { Recorded, StreamID } from "../../domain/event.ts";
import { rootOf, type StreamState } from "../../domain/state/stream.ts";
import type { TaskState } from "../../domain/state/task.ts";
import type { Store } from "../../store/store.ts";
import type { Conversations } from "../run.ts";

/** Opens the conversations of sessions of a Task or a Mission, as far as they are needed to continue. */

/**
 * The conversation of a session up to the fold's version. Only messages are read of the turns that the newest
 * compaction replaces.
 */
export const openConversation = async (
  store: Store,
  stream: StreamID,
  state: StreamState,
  sessionID = rootOf(state),
): Promise<Conversation> => {
  const { version } = state;
  const isOurs = (event: Recorded) =>
    event.version <= version && belongsTo(event, sessionID, sessionID === rootOf(state));
  const compacted = await newestSummary(store, stream, isOurs);
  const after = compacted?.data.through ?? 0;
  const chat =
    compacted === undefined
      ? emptyConversation()
      : restoreFromCompaction(compacted, (await store.read(stream, { types: messageEventTypes })).filter(isOurs));
  for (const event of await store.read(stream, { types: conversationTypes, after }))
    if (isOurs(event)) applyEvent(chat, event);
  return chat;
};

/**
 * Compactions are long, and only the newest of a session counts. All of them are read only when the newest of the
 * stream belongs to another session.
 */
const newestSummary = async (store: Store, stream: string, isOurs: (event: Recorded) => boolean) => {
  const types = ["conversation.compacted"] as const;
  const newest = await store.read(stream, { types, last: true, limit: 1 });
  const found = newest.every(isOurs) ? newest : await store.read(stream, { types });
  const summary = found.findLast(isOurs);
  return summary?.type === "conversation.compacted" ? summary : undefined;
};

export const createConversations = (store: Store, state: () => TaskState, root: Conversation): Conversations => {
  const open = new Map<string, Conversation>([[rootOf(state()), root]]);
  return {
    async of(sessionID) {
      const known = open.get(sessionID);
      if (known !== undefined) return known;
      // Events of other sessions may be recorded meanwhile; this session's are only recorded once its conversation is
      // open.
      const chat = await openConversation(store, state().taskID, state(), sessionID);
      open.set(sessionID, chat);
      return chat;
    },
    follow(event) {
      for (const [sessionID, chat] of open)
        if (belongsTo(event, sessionID, sessionID === rootOf(state()))) applyEvent(chat, event);
    },
    close(sessionID) {
      if (sessionID !== rootOf(state())) open.delete(sessionID);
    },
  };
};
