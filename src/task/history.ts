import {
  type Conversation,
  conversationTypes,
  converse,
  emptyConversation,
  messageEventTypes,
  reopen,
} from "../domain/conversation.ts";
import type { StreamID } from "../domain/event.ts";
import type { Store } from "../store/store.ts";

/** The conversation of a Task up to a version. Of what its newest summary replaces, nothing but the messages is read. */
export const openConversation = async (store: Store, stream: StreamID, version: number): Promise<Conversation> => {
  const [summary] = await store.read(stream, { types: ["conversation.compacted"], last: true, limit: 1 });
  const compacted = summary?.type === "conversation.compacted" && summary.version <= version ? summary : undefined;
  const chat =
    compacted === undefined
      ? emptyConversation()
      : reopen(compacted, await store.read(stream, { types: messageEventTypes }));
  const after = compacted?.data.through ?? 0;
  for (const event of await store.read(stream, { types: conversationTypes, after }))
    if (event.version <= version) converse(chat, event);
  return chat;
};
