import type { ContentBlock, PromptResponse, SessionUpdate, ToolCallContent } from "@agentclientprotocol/sdk";
import { createTwoFilesPatch } from "diff";
import type { DomainEvent } from "../../domain/event.ts";
import { newID } from "../../id.ts";
import { withBoundedNesting } from "../../json.ts";
import { noUsage } from "../../model/model.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { ModelUsage, TurnFailure } from "../../protocol/event/conversation.ts";
import { keepInput, keepText, outputBytes } from "../../store/blob/text.ts";
import { truncateMiddle } from "../../tool/result.ts";
import type { SessionContext } from "../session.ts";

/**
 * Translates an external agent's updates into events: its text up to a call becomes a reply, each call becomes a
 * `tool.started` and a `tool.finished`. Calls that begin while others are open belong to the same reply.
 */

/** A call as far as the agent has described it; updates arrive in parts. */
type Call = {
  title: string;
  tool: string;
  input: unknown;
  content: ToolCallContent[];
  rawOutput: unknown;
  /** Set once the call's intent is recorded; `at` is a `performance.now()` time. */
  begun?: { callID: string; at: number };
  ended: boolean;
};

type EventRecorder = {
  take(update: SessionUpdate): Promise<void>;
  /** Records the intent of a call that is about to happen, once. Resolves to the call's id in the event log. */
  begin(toolCallID: string, about: Described): Promise<string>;
  /** Ends the agent's turn: records `interrupted` for calls that have no result, then the last reply. */
  finish(stop: PromptResponse | TurnFailure): Promise<void>;
};

type Described = {
  title?: string | null;
  name?: string | null;
  kind?: string | null;
  rawInput?: unknown;
  content?: ToolCallContent[] | null;
  rawOutput?: unknown;
};

/** Longest text of one reply that is kept, in characters. */
const maxText = 1024 * 1024;

export const createEventRecorder = (turn: SessionContext, read: number): EventRecorder => {
  const calls = new Map<string, Call>();
  const started = performance.now();
  let messageID = newID("msg");
  let text = "";
  let usage: ModelUsage = { ...noUsage, costUSD: null };

  const reply = async (
    ids: string[],
    finish: EventData["reply.finished"]["finish"],
    failure: TurnFailure | null,
  ): Promise<DomainEvent> => {
    const event: DomainEvent = {
      type: "reply.finished",
      data: {
        messageID,
        sessionID: turn.sessionID,
        agent: turn.agent.name,
        model: turn.state().model,
        read,
        text: await keepText(turn.store.blobs, text),
        calls: ids,
        finish,
        failure,
        usage,
        durationMs: Math.round(performance.now() - started),
      },
    };
    messageID = newID("msg");
    text = "";
    usage = { ...noUsage, costUSD: null };
    return event;
  };

  const callOf = (id: string, about: Described): Call => {
    const known: Call = calls.get(id) ?? {
      title: "",
      tool: "other",
      input: undefined,
      content: [],
      rawOutput: undefined,
      ended: false,
    };
    calls.set(id, known);
    known.title = about.title ?? known.title;
    known.tool = about.name ?? about.kind ?? known.tool;
    if (about.rawInput !== undefined) known.input = withBoundedNesting(about.rawInput);
    if (about.content != null) known.content = about.content;
    if (about.rawOutput !== undefined) known.rawOutput = withBoundedNesting(about.rawOutput);
    return known;
  };

  const begin = async (id: string, about: Described): Promise<string> => {
    const call = callOf(id, about);
    if (call.begun !== undefined) return call.begun.callID;
    const callID = newID("call");
    call.begun = { callID, at: performance.now() };
    const alone = ![...calls.values()].some((other) => other !== call && other.begun !== undefined && !other.ended);
    const intent: DomainEvent = {
      type: "tool.started",
      data: {
        callID,
        sessionID: turn.sessionID,
        tool: call.tool,
        input: await keepInput(turn.store.blobs, { title: call.title, input: call.input ?? null }),
        // The effect "unknown" keeps the service from ever repeating the call after a crash.
        effect: "unknown",
      },
    };
    await turn.record(alone ? [await reply([callID], "calls", null), intent] : [intent]);
    return callID;
  };

  const end = async (id: string, outcome: EventData["tool.finished"]["outcome"], about: Described): Promise<void> => {
    await begin(id, about);
    const call = callOf(id, about);
    if (call.begun === undefined || call.ended) return;
    call.ended = true;
    await turn.record([
      {
        type: "tool.finished",
        data: {
          callID: call.begun.callID,
          sessionID: turn.sessionID,
          tool: call.tool,
          outcome,
          output: await keepText(turn.store.blobs, outputOf(call), outputBytes),
          exitCode: exitCodeOf(call.rawOutput),
          durationMs: Math.round(performance.now() - call.begun.at),
        },
      },
    ]);
    // Content is not needed after this, and a long turn has thousands of calls.
    call.content = [];
    call.input = undefined;
    call.rawOutput = undefined;
  };

  return {
    begin,
    async take(update) {
      switch (update.sessionUpdate) {
        case "agent_message_chunk": {
          const words = textOf(update.content);
          usage = counted(usage, update._meta);
          if (words === "") return;
          text = text.length + words.length <= maxText ? text + words : text;
          turn.live("message.delta", messageID, words);
          return;
        }
        case "agent_thought_chunk":
          turn.live("reasoning.delta", messageID, textOf(update.content));
          return;
        case "tool_call":
        case "tool_call_update": {
          const { toolCallId, status } = update;
          if (status === "completed") return end(toolCallId, "ok", update);
          if (status === "failed") return end(toolCallId, "error", update);
          // A pending call may still be waiting for its arguments.
          if (status === "in_progress") await begin(toolCallId, update);
          else callOf(toolCallId, update);
          return;
        }
        // Updates that only an editor displays.
        case "user_message_chunk":
        case "plan":
        case "available_commands_update":
        case "current_mode_update":
        case "config_option_update":
        case "session_info_update":
        case "usage_update":
        case "notice":
        case "compaction_update":
        case "compaction_summary_chunk":
          return;
      }
    },
    async finish(stop) {
      for (const [id, call] of calls) if (call.begun !== undefined && !call.ended) await end(id, "interrupted", {});
      if ("code" in stop) {
        await turn.record([await reply([], "failed", stop)]);
        return;
      }
      usage = counted(usage, stop._meta);
      const { stopReason } = stop;
      if (stopReason === "refusal") {
        const failure = {
          code: "provider_refused",
          message: `${turn.agent.name} refused to go on${text.trim() === "" ? "." : `: ${text.trim().slice(0, 500)}`}`,
          retryable: false,
          remedy: "Change the request, or choose another squad.",
        };
        await turn.record([await reply([], "failed", failure)]);
        return;
      }
      const cut = stopReason === "max_tokens" || stopReason === "max_turn_requests";
      await turn.record([await reply([], cut && !turn.last ? "length" : "end", null)]);
    },
  };
};

const textOf = (content: ContentBlock): string => (content.type === "text" ? content.text : "");

const outputOf = (call: Call): string => {
  const parts = call.content.flatMap((part) => {
    switch (part.type) {
      case "content":
        return textOf(part.content);
      case "diff":
        return (
          createTwoFilesPatch(part.path, part.path, part.oldText ?? "", part.newText, "", "", { timeout: 200 }) ?? ""
        );
      case "terminal":
        return [];
    }
  });
  const said = parts.join("\n").trim();
  const raw = typeof call.rawOutput === "string" ? call.rawOutput : "";
  return truncateMiddle(said === "" ? raw : said, "the agent read the rest itself");
};

const exitCodeOf = (raw: unknown): number | null => {
  const code = typeof raw === "object" && raw !== null && "exitCode" in raw ? raw.exitCode : undefined;
  return typeof code === "number" ? code : null;
};

/** Adds tokens that the agent reports in `_meta.usage`; the protocol has no stable field for them yet. */
const counted = (sum: ModelUsage, meta: Record<string, unknown> | null | undefined): ModelUsage => {
  const usage = meta?.["usage"];
  if (typeof usage !== "object" || usage === null) return sum;
  const number = (name: string): number => {
    const value = (usage as Record<string, unknown>)[name];
    return typeof value === "number" && value >= 0 ? value : 0;
  };
  return {
    ...sum,
    inputTokens: sum.inputTokens + number("inputTokens"),
    outputTokens: sum.outputTokens + number("outputTokens"),
    cacheReadTokens: sum.cacheReadTokens + number("cachedReadTokens"),
    cacheWriteTokens: sum.cacheWriteTokens + number("cachedWriteTokens"),
  };
};
