import { expect, test } from "vitest";
import type { DomainEvent } from "../../src/domain/event.ts";
import type { Store } from "../../src/store/store.ts";
import { openConversation } from "../../src/task/session/conversation.ts";
import { created } from "../harness/events.ts";
import { backends } from "../harness/store.ts";

/** What of a long log is read to open a conversation: of many summaries, the one that counts. */

const usage = { inputTokens: 9, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0, costUSD: 0 };

const reply = (sessionID: string, text: string, read: number): DomainEvent => ({
  type: "reply.finished",
  data: {
    messageID: `msg_${text}`,
    sessionID,
    agent: "orchestrator",
    model: "mock/large",
    read,
    text,
    calls: [],
    finish: "length",
    failure: null,
    usage,
    durationMs: 1,
  },
});

const summary = (sessionID: string, through: number, text: string): DomainEvent => ({
  type: "conversation.compacted",
  data: {
    sessionID,
    through,
    kept: [1],
    carried: [],
    summary: text,
    note: null,
    before: 900,
    after: 100,
    by: "mock/large",
    usage,
    durationMs: 1,
  },
});

const helper: DomainEvent = {
  type: "session.started",
  data: {
    sessionID: "ses_2",
    parentSessionID: "ses_1",
    agent: "helper",
    model: "mock/large",
    purpose: "work",
    callID: null,
    sliceIDs: [],
    brief: "Help.",
  },
};

/** The texts that the session's model would read, and how many summaries were read for that. */
const opened = async (store: Store, taskID: string, sessionID?: string) => {
  let summaries = 0;
  const counting: Store = {
    ...store,
    async read(stream, options) {
      const found = await store.read(stream, options);
      summaries += found.filter(({ type }) => type === "conversation.compacted").length;
      return found;
    },
  };
  const state = await store.state(taskID);
  if (state === undefined) throw new Error("Expected the Task");
  const { said } = await openConversation(counting, taskID, state, ...(sessionID === undefined ? [] : [sessionID]));
  return { texts: said.map((message) => ("text" in message ? message.text : "")), summaries };
};

for (const backend of backends)
  test(`${backend.name}: a conversation opens from its newest summary, without reading those before`, async () => {
    await using place = await backend.open();
    const { store } = place;
    const first = created({ request: "Read it." });
    const stream = first.data.taskID;
    const append = (...events: DomainEvent[]) =>
      store.commit({ appends: [{ stream, expected: "any", events }], due: [{ stream, due: null }] });
    await append(first, reply("ses_1", "a", 1), summary("ses_1", 2, "as far as a"));
    await append(reply("ses_1", "b", 3), summary("ses_1", 4, "as far as b"), reply("ses_1", "c", 5));
    // Once to find it, once where it stands among what came after the turns that it replaced.
    expect(await opened(store, stream)).toEqual({ texts: ["Read it.", "as far as b", "c"], summaries: 2 });

    // The newest is another session's: then all are looked through.
    await append(helper, reply("ses_2", "d", 7), summary("ses_2", 8, "as far as d"));
    expect(await opened(store, stream)).toEqual({ texts: ["Read it.", "as far as b", "c"], summaries: 6 });
    expect((await opened(store, stream, "ses_2")).texts).toEqual(["as far as d"]);
  });
