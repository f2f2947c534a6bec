import { isFull } from "../../domain/conversation/compaction.ts";
import { type DomainEvent, isMission } from "../../domain/event.ts";
import { emptyReplies, saidSomething } from "../../domain/conversation/message.ts";
import { budgetWarnings } from "../../domain/session/budget.ts";
import { newID } from "../../id.ts";
import { createStuckGuard } from "../../engine/stuck.ts";
import { deepest, isNestedWithin } from "../../json.ts";
import type { ModelFailure, ModelReply } from "../../model/model.ts";
import { keepInput, keepText } from "../../store/blob/text.ts";
import { withinTime } from "../deadline.ts";
import { createPrompts } from "../prompt/message.ts";
import { systemOf } from "../prompt/system.ts";
import type { AgentSession } from "../session.ts";
import { effectOfCall, markInvalid, runCalls } from "./call.ts";
import { compact } from "./compaction.ts";
import { effortOf } from "./effort.ts";
import { afterFailure } from "./failure.ts";
import { createArgumentProgress } from "./argument-progress.ts";

/**
 * Runs one agent until it calls no more tools or the Task no longer wants it to continue (a limit, a cancel). Each turn
 * is a request, one commit with the reply and the intents of its calls, then the results.
 */
export const runAgent = (session: AgentSession): Promise<void> =>
  withinTime(session, (signal) => runTurns(session, signal));

const runTurns = async (session: AgentSession, signal: AbortSignal): Promise<void> => {
  const made =
    session.system ??
    systemOf(session.agent, session.task(), { ...session.facts, window: session.model.window }, session.teammates);
  const { system, isNew } = (await session.opening?.(made)) ?? { system: made, isNew: false };
  /** The system prompt if it is still to be stored, with the next reply. */
  let unkept = isNew ? system : undefined;
  const overhead = system.length + JSON.stringify(session.specs).length;
  const prompts = createPrompts(session.store.blobs, session.model.window, !isMission(session.stream));
  const shorten = (forced: boolean) => compact(session, { system, prompts, overhead, signal, forced });
  /** The provider rejected the conversation as too long, and it has been compacted since. */
  let shortened = false;
  /** The provider accepts no `toolChoice`, so the demand is made in words alone. */
  let unchosen = false;
  const notStuck = createStuckGuard({
    version: () => session.state().version,
    record: session.record,
    sleep: (ms) => session.sleep(ms, signal),
  });
  for (;;) {
    await session.space();
    if (!session.wanted()) return;
    await notStuck("turn");
    const warnings = budgetWarnings(session.state(), session.limits, session.now());
    if (warnings.length > 0) await session.record(warnings);
    await session.between?.();
    if (isFull(session.chat, overhead, session.model.window) && (await shorten(false))) continue;
    const demand = session.last ? undefined : session.demand?.();
    const messageID = newID("msg");
    const read = session.state().version;
    const started = performance.now();
    const written = createArgumentProgress((text, lines) =>
      session.doing(messageID, text, { count: lines, unit: "line" }),
    );
    const said = await session.model.reply({
      system,
      messages: await prompts.next(session.chat, session.last, demand?.words ?? wordsAfter(session)),
      // Also in the last turn, because providers reject a history with calls when no tools are sent. Calls in that
      // reply are not run.
      tools: session.specs,
      ...(demand === undefined || unchosen ? {} : { toolChoice: demand.tool }),
      ...effortOf(session),
      facts: session.facts,
      session: session.sessionID,
      task: session.stream,
      signal,
      onText: (text) => session.live("message.delta", messageID, text),
      onReasoning: (text) => session.live("reasoning.delta", messageID, text),
      onInput: written,
    });
    session.signal.throwIfAborted();
    const durationMs = Math.round(performance.now() - started);

    if (!said.ok) {
      if (demand !== undefined && !unchosen && said.failure.code === "provider_refused") {
        unchosen = true;
        continue;
      }
      if (said.failure.code === "context_too_long" && !shortened && (await shorten(true))) {
        shortened = true;
        continue;
      }
      if (await afterFailure(session, said, signal, () => failedReply(session, messageID, read, durationMs, said)))
        continue;
      return;
    }

    const reply =
      demand === undefined ? said : { ...said, calls: said.calls.filter(({ tool }) => tool === demand.tool) };
    shortened = false;
    const finish = finishOf(session, reply);
    await session.record(await replyEvents(session, messageID, { read, durationMs, unkept }, { ...reply, finish }), {
      lazy: changesNothing(session, reply),
    });
    unkept = undefined;
    const calls = session.chat.turn?.reply.calls ?? [];
    if (calls.length === 0) {
      if (!session.last && (finish === "length" || finish === "empty" || session.demand?.() !== undefined)) continue;
      return;
    }
    await runCalls(
      session,
      calls.map((call, index) => ({ ...call, given: argumentsOf(reply.calls[index]) })),
      signal,
    );
  }
};

/**
 * How many empty replies in a row are answered with another request; the next one ends the work, and the checks judge
 * it.
 */
const askedAgain = 2;

/**
 * Whether a reply has neither words nor calls, or announced calls that are lost, such as a call that names no tool:
 * some models end like that by mistake. Not for a reviewer, which has a demand of its own.
 */
const isEmpty = ({ chat, last, demand }: AgentSession, { text, calls, finish }: ModelReply): boolean =>
  !last &&
  demand === undefined &&
  (finish === "empty" || (finish === "end" && text.trim() === "")) &&
  calls.length === 0 &&
  emptyReplies(chat) < askedAgain;

/** How the agent's turn ends; calls in the last turn are not run. */
const finishOf = (session: AgentSession, reply: ModelReply): ModelReply["finish"] => {
  if (reply.calls.length > 0 && !session.last) return "calls";
  if (isEmpty(session, reply)) return "empty";
  return reply.finish === "length" && !session.last ? "length" : "end";
};

const wordsAfter = ({ chat, demand }: AgentSession): string | undefined =>
  demand === undefined && emptyReplies(chat) > 0
    ? `${saidSomething(chat) ? "Your last reply announced a call, but none with the name of a tool came" : "Your last reply was empty"}. Go on with a call; or, if all is done, say what you did.`
    : undefined;

/** Whether all of the reply's calls only read files; then their intents need not be on disk before they run. */
const changesNothing = ({ last, tools }: AgentSession, { calls }: ModelReply): boolean =>
  !last && calls.length > 0 && calls.every(({ tool, input }) => effectOfCall(tools.get(tool), input) === "none");

const argumentsOf = (call: ModelReply["calls"][number] | undefined): unknown => {
  if (call?.invalid !== undefined) return markInvalid(call.invalid);
  return isNestedWithin(call?.input)
    ? call?.input
    : markInvalid(
        `Expected the arguments of ${call?.tool} nested at most ${deepest} deep, got more. Call it again with plain ones.`,
      );
};

/** The reply and the intent of each of its calls; committed together, before any effect. */
const replyEvents = async (
  session: AgentSession,
  messageID: string,
  { read, durationMs, unkept }: { read: number; durationMs: number; unkept: string | undefined },
  reply: ModelReply,
): Promise<DomainEvent[]> => {
  const { sessionID, agent, model, store } = session;
  const calls = session.last ? [] : reply.calls.map((call) => ({ ...call, callID: newID("call") }));
  const started = await Promise.all(
    calls.map(
      async ({ callID, ...call }): Promise<DomainEvent> => ({
        type: "tool.started",
        data: {
          callID,
          sessionID,
          tool: call.tool,
          input: await keepInput(store.blobs, argumentsOf(call)),
          effect: effectOfCall(session.tools.get(call.tool), call.input),
        },
      }),
    ),
  );
  const told = session.chat.unread.find(({ version, message }) => version <= read && message.before !== undefined);
  const before = told?.message.before;
  return [
    {
      type: "reply.finished",
      data: {
        messageID,
        sessionID,
        agent: agent.name,
        model: model.ref,
        read,
        text: await keepText(store.blobs, reply.text),
        calls: calls.map(({ callID }) => callID),
        finish: reply.finish,
        failure: null,
        usage: reply.usage,
        durationMs,
        ...(reply.effort === undefined ? {} : { effort: reply.effort }),
        ...(unkept === undefined ? {} : { system: await store.blobs.put(Buffer.from(unkept)) }),
        ...(told === undefined || before === undefined
          ? {}
          : { before: { messageID: told.message.messageID, text: before } }),
        ...(reply.provider === undefined ? {} : { provider: reply.provider }),
      },
    },
    ...started,
  ];
};

const failedReply = (
  session: AgentSession,
  messageID: string,
  read: number,
  durationMs: number,
  failed: Pick<ModelFailure, "failure" | "usage">,
): DomainEvent => ({
  type: "reply.finished",
  data: {
    messageID,
    sessionID: session.sessionID,
    agent: session.agent.name,
    model: session.model.ref,
    read,
    text: "",
    calls: [],
    finish: "failed",
    failure: failed.failure,
    usage: failed.usage,
    durationMs,
  },
});
