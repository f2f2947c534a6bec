import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { estimate, isFull, planCompaction, planRenewal } from "../../src/domain/conversation/compaction.ts";
import { type Conversation, emptyConversation } from "../../src/domain/conversation/message.ts";
import {
  conversationTypes,
  applyEvent,
  messageEventTypes,
  restoreFromCompaction,
} from "../../src/domain/conversation/fold.ts";
import type { DomainEvent, Recorded } from "../../src/domain/event.ts";
import { created } from "../harness/events.ts";

/** Random lives of one conversation: a summary at any moment, and the same conversation however it is opened. */

const usage = { inputTokens: 900, outputTokens: 100, cacheReadTokens: 0, cacheWriteTokens: 0, costUSD: 0 };
const at = "2026-11-21T08:00:00.000Z";

type Move =
  | { kind: "message"; disposition: "steered" | "queued"; size: number }
  | { kind: "turn"; calls: number; size: number; during: number; note: boolean }
  | { kind: "end" }
  | { kind: "settle" }
  | { kind: "warn" }
  | { kind: "answer" }
  | { kind: "compact"; window: number }
  | { kind: "renew" };

const moves: fc.Arbitrary<Move> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("message" as const),
      disposition: fc.constantFrom("steered" as const, "queued" as const),
      size: fc.nat(400),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("turn" as const),
      calls: fc.integer({ min: 1, max: 3 }),
      size: fc.nat(2000),
      during: fc.nat(2),
      note: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("end" as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("settle" as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("warn" as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("answer" as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("compact" as const), window: fc.integer({ min: 100, max: 2000 }) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("renew" as const) }) },
);

/** Lives the moves as the loop would: what a model reads is asked before what it answers is known. */
const live = (list: readonly Move[]): { events: Recorded[]; chat: Conversation } => {
  const events: Recorded[] = [];
  const chat = emptyConversation();
  let settled = false;
  const add = (...facts: DomainEvent[]) => {
    for (const fact of facts) {
      const version = events.length + 1;
      const event: Recorded = { ...fact, stream: "task_1", position: version, version, at };
      events.push(event);
      if ((conversationTypes as readonly string[]).includes(event.type)) applyEvent(chat, event);
    }
  };
  const message = (disposition: "steered" | "queued" | "restarted", size: number): DomainEvent => ({
    type: "message.received",
    data: {
      messageID: `msg_${events.length}`,
      sessionID: "ses_1",
      source: "api",
      text: `m${events.length} ${"x".repeat(size)}`,
      attachments: [],
      disposition,
    },
  });
  const reply = (read: number, finish: "calls" | "end", calls: string[]): DomainEvent => ({
    type: "reply.finished",
    data: {
      messageID: `rep_${events.length}`,
      sessionID: "ses_1",
      agent: "o",
      model: "a/b",
      read,
      text: `r${events.length}`,
      calls,
      finish,
      failure: null,
      usage,
      durationMs: 1,
    },
  });
  const warn: DomainEvent = { type: "budget.warned", data: { name: "maxSteps", used: 8, cap: 10 } };
  const answered = (count: number): DomainEvent => ({
    type: "task.answered",
    data: {
      sessionID: "ses_1",
      taskID: "task_2",
      askID: `ask_${count}`,
      how: "closed",
      said: { phase: "a", title: "Task two", question: "Red or blue?", answer: `Blue, and everywhere (${count}).` },
    },
  });
  add(created());
  for (const move of list) {
    if (settled && move.kind !== "message") continue;
    switch (move.kind) {
      case "message":
        add(message(settled ? "restarted" : move.disposition, move.size));
        settled = false;
        break;
      case "warn":
        add(warn);
        break;
      case "answer":
        add(answered(events.length));
        break;
      case "turn": {
        const read = events.length;
        for (let count = 0; count < move.during; count++)
          add(count === 0 ? message("steered", 10) : message("queued", 10));
        if (move.note && move.during === 0) add(warn);
        const ids = Array.from({ length: move.calls }, (_, index) => `call_${events.length}_${index}`);
        add(
          reply(read, "calls", ids),
          ...ids.map(
            (callID): DomainEvent => ({
              type: "tool.started",
              data: { callID, sessionID: "ses_1", tool: "read", input: { path: callID }, effect: "none" },
            }),
          ),
        );
        if (move.during > 0) add(message("steered", 5));
        for (const callID of ids) {
          if (move.note) add({ type: "note.written", data: { sessionID: "ses_1", callID, text: `plan ${callID}` } });
          add({
            type: "tool.finished",
            data: {
              callID,
              sessionID: "ses_1",
              tool: "read",
              outcome: "ok",
              output: "o".repeat(move.size),
              full: { sha256: callID, bytes: 1 },
              exitCode: null,
              durationMs: 1,
            },
          });
        }
        break;
      }
      case "end":
        if (chat.unread.length > 0) add(reply(events.length, "end", []));
        break;
      case "settle":
        add({ type: "task.settled", data: { lifecycleStatus: "failed", summary: "" } });
        settled = true;
        break;
      case "renew":
      case "compact": {
        // A Mission's conversation, in which nothing ever is queued, when something new came in.
        if (move.kind === "renew" && (chat.unread.length === 0 || wasQueued(chat, events))) break;
        const cut = move.kind === "renew" ? planRenewal(chat) : planCompaction(chat, move.window, false);
        if (cut === undefined) break;
        const { through, kept, carried } = cut;
        add({
          type: "conversation.compacted",
          data: {
            sessionID: "ses_1",
            through,
            kept,
            carried,
            summary: `s${events.length}`,
            note: chat.note,
            before: 1,
            after: 1,
            by: "a/b",
            usage,
            durationMs: 1,
          },
        });
        break;
      }
    }
  }
  return { events, chat };
};

/** Also what was to wait and did not have to, because the agent was idle. */
const wasQueued = ({ queued, unread }: Conversation, events: readonly Recorded[]): boolean =>
  queued.length > 0 ||
  unread.some(({ message }) =>
    events.some(
      (event) =>
        event.version === message.version && event.type === "message.received" && event.data.disposition === "queued",
    ),
  );

/** As task/session/conversation.ts opens one. */
const opened = (events: readonly Recorded[]): Conversation => {
  const summary = events.findLast((event) => event.type === "conversation.compacted");
  if (summary?.type !== "conversation.compacted") throw new Error("no summary");
  const chat = restoreFromCompaction(
    summary,
    events.filter(({ type }) => (messageEventTypes as readonly string[]).includes(type)),
  );
  for (const event of events)
    if (event.version > summary.data.through && (conversationTypes as readonly string[]).includes(event.type))
      applyEvent(chat, event);
  return chat;
};

const plain = (chat: Conversation) => ({ ...chat, outputs: [...chat.outputs] });

const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
console.info(`compaction: fast-check seed ${seed}`);

describe("a summary", () => {
  test("opened from its newest one, a conversation is the same at every moment after", () => {
    let summaries = 0;
    fc.assert(
      fc.property(fc.array(moves, { minLength: 5, maxLength: 40 }), (list) => {
        const { events } = live(list);
        for (let end = 1; end <= events.length; end++) {
          const part = events.slice(0, end);
          if (!part.some(({ type }) => type === "conversation.compacted")) continue;
          summaries += 1;
          const whole = emptyConversation();
          for (const event of part)
            if ((conversationTypes as readonly string[]).includes(event.type)) applyEvent(whole, event);
          expect(plain(opened(part))).toEqual(plain(whole));
        }
      }),
      { seed, numRuns: 300 },
    );
    expect(summaries).toBeGreaterThan(500);
  });

  test("the request, what people wrote and the newest turn stay; a call keeps its result", () => {
    fc.assert(
      fc.property(fc.array(moves, { minLength: 5, maxLength: 40 }), (list) => {
        const { chat, events } = live(list);
        expect(chat.said[0] ?? chat.unread[0]?.message).toMatchObject({ role: "user", text: created().data.request });
        chat.said.forEach((message, index) => {
          const before = chat.said[index - 1];
          if (message.role === "tool")
            expect(before?.role === "assistant" && before.calls.map(({ callID }) => callID)).toEqual(
              message.results.map(({ callID }) => callID),
            );
        });
        // Nothing that came after the summary's turns is lost, and nothing stands twice.
        const versions = [...chat.said, ...chat.unread.map(({ message }) => message), ...chat.queued].flatMap(
          (message) => (message.role === "tool" ? [] : [message.version]),
        );
        expect(new Set(versions).size).toBe(versions.length);
        const cut = events.findLast((event) => event.type === "conversation.compacted");
        const through = cut?.type === "conversation.compacted" ? cut.data.through : 0;
        const late = events.filter(
          ({ version, type }) => version > through && (type === "message.received" || type === "task.answered"),
        );
        for (const { version } of late) expect(versions).toContain(version);
      }),
      { seed, numRuns: 200 },
    );
  });

  test("what a person answered to a Task stays as what they wrote does, also when all else is replaced", () => {
    const turn = { kind: "turn", calls: 1, size: 1000, during: 0, note: false } as const;
    const message = { kind: "message", disposition: "steered", size: 1 } as const;
    for (const shorten of [{ kind: "renew" }, { kind: "compact", window: 400 }] as const) {
      const { chat, events } = live([
        turn,
        { kind: "answer" },
        turn,
        { kind: "end" },
        message,
        turn,
        { kind: "end" },
        message,
        shorten,
      ]);
      expect(events.filter(({ type }) => type === "conversation.compacted")).toHaveLength(1);
      const [request, answer] = chat.said;
      expect(request).toMatchObject({ text: created().data.request });
      expect(answer).toMatchObject({ role: "user", source: "answer" });
      expect(answer?.role === "user" && answer.text).toMatch(
        /Red or blue\?[^]*The answer, which the Task has: Blue, and everywhere/,
      );
      expect(plain(opened(events))).toEqual(plain(chat));
    }
  });

  test("is due by what the provider counted and what came since, and only where it helps", () => {
    const { chat } = live([{ kind: "turn", calls: 1, size: 4000, during: 0, note: false }]);
    expect(estimate(chat, 0)).toBe(2000);
    chat.tokens = 0;
    expect(estimate(chat, 4000)).toBeGreaterThan(2000);
    expect(isFull(chat, 0, 1000)).toBe(true);
    expect(isFull(chat, 0, 10_000)).toBe(false);
    expect(isFull(chat, 4000, 1000)).toBe(false);
    // One turn: there is nothing older.
    expect(planCompaction(chat, 1000, true)).toBeUndefined();
  });
});
