import type { ModelRef } from "../domain/agent.ts";
import type { CheckSpec } from "../protocol/check.ts";
import type { EventData } from "../protocol/event/event.ts";
import type { Effort } from "../protocol/field.ts";
import type { ModelUsage, TurnFailure } from "../protocol/event/conversation.ts";

/**
 * One model as the agent loop sees it: a language model (`provider/provider.ts`, over the AI SDK's provider packages)
 * or the built-in model (`builtin/builtin.ts`). Both pass `test/model/model.test.ts`. Models keep no state of a
 * conversation: after a crash the same request may be sent again.
 */
export interface Model extends Readonly<Traits> {
  readonly ref: ModelRef;
  /** Whether repeating a failed request can help. false for the built-in model, which is deterministic. */
  readonly retries: boolean;
  /** One request, not retried here. A failure is a value; rejects only with the signal's reason, when it aborts. */
  reply(request: ModelRequest): Promise<ModelReply | ModelFailure>;
}

/** What a model can read. */
export type Traits = {
  /** Tokens that a request and its reply may have together. */
  window: number;
  takes: { images: boolean; pdf: boolean; tools: boolean };
  /** The model accepts a reasoning effort; `usual` applies where nobody names one. Absent: no effort is sent. */
  effort?: { usual: Effort | undefined };
};

export type ModelRequest = {
  /** The agent's instructions. */
  system: string;
  /** The conversation, oldest first, with long texts and attachments loaded. */
  messages: readonly PromptMessage[];
  tools: readonly ToolSpec[];
  /** The tool that the reply has to call, where the provider supports that; the messages say it as well. */
  toolChoice?: string;
  /** The reasoning effort of the Task or the agent; not sent to a model that does not accept one. */
  effort?: Effort;
  /** Known facts of the Task and its project, for the built-in model; language models read them in the messages. */
  facts: Facts;
  /** The session's id. Requests of one session share their beginning, and a provider may be told so for its cache. */
  session?: string;
  /** The Task's id, which names recordings of the exchange. */
  task?: string;
  signal: AbortSignal;
  /** Called when the provider begins to answer, whatever comes first. */
  onBegin?: () => void;
  /** Called when the first piece of text, of reasoning or of a call arrives. */
  onFirst?: () => void;
  /** Called with parts of the text as they arrive, for live display; the reply has the whole text. */
  onText(delta: string): void;
  /** Called with parts of the model's reasoning as they arrive, for live display. */
  onReasoning(delta: string): void;
  /** Called with parts of a call's arguments as they arrive, for live display; the reply has them whole. */
  onInput?: (call: { id: string; tool: string }, delta: string) => void;
};

/** `parameters`: JSON Schema of the arguments. */
export type ToolSpec = { name: string; description: string; parameters: object };

export type PromptMessage =
  | {
      role: "user";
      messageID: string;
      source: string;
      text: string;
      files: PromptFile[];
      /** The message made a settled Task active again: what came before is history. */
      restarted?: boolean;
    }
  | {
      role: "assistant";
      messageID: string;
      text: string;
      calls: { callID: string; tool: string; input: unknown }[];
      /** As in the reply: the provider's own parts, to be sent back unchanged. */
      provider?: EventData["reply.finished"]["provider"];
    }
  | {
      role: "tool";
      /** In the order of the calls. `interrupted`: the service stopped meanwhile, and the outcome is unknown. */
      results: {
        callID: string;
        tool: string;
        outcome: "ok" | "error" | "interrupted";
        output: string;
        /** null: no command ran, or it ended without a code. */
        exitCode: number | null;
      }[];
    };

/** `path`: where the file is in the workspace, for tools. */
export type PromptFile = { filename: string; mime: string; bytes: Uint8Array; path?: string };

export type Facts = {
  checks: readonly CheckSpec[];
  /** The project's own commands, as its manifest names them; absent where it names none. */
  detected: { test?: string; build?: string; lint?: string; typecheck?: string };
  /**
   * Why some of these commands say nothing about the work: they cannot run here, or did not when they last ran before a
   * change.
   */
  blocked?: { test?: string; build?: string; lint?: string; typecheck?: string };
  /** How those of these commands ended that were red when they last ran before a change. */
  red?: { test?: string; build?: string; lint?: string; typecheck?: string };
  /** Those of these commands that the service runs on the work when the request names no checks. */
  own?: readonly CheckSpec[];
  /** Every command that the project's manifests name; a run of any of them is evidence. */
  named?: readonly string[];
  /** What else was detected; language models read it in their instructions. */
  project?: {
    languages: string[];
    managers: string[];
    /** The entries of its root folder. */
    layout: string;
    /** Folders of installed packages at its root, which Git ignores and commands find. */
    installed?: string[];
    /** `AGENTS.md` files of folders below. */
    nested: string[];
    /** The nearest `AGENTS.md`, from the root up to the repository's top; bounded. */
    guide?: { path: string; text: string };
    skills?: { name: string; description: string }[];
  };
  /**
   * Constants of the Task and its machine, one line each for language models. `commands`: for agents that run commands.
   */
  about?: readonly { all: string; commands?: string }[];
  /** Tokens that the agent's model can hold. */
  window?: number;
  /** The squad's own skills. */
  skills?: readonly { name: string; description: string }[];
  /** Whether the leading agent has tools of MCP servers. */
  servers?: boolean;
  /** JSON Schema of the output that the caller wants. */
  outputSchema?: string;
  /** The kind of work; with `work` the result is a document. */
  pillar?: "code" | "work";
};

export type ModelReply = {
  ok: true;
  text: string;
  /** `invalid`: why `input` is not an object of arguments, in words for the model. */
  calls: { tool: string; input: unknown; invalid?: string }[];
  finish: Exclude<EventData["reply.finished"]["finish"], "failed">;
  usage: ModelUsage;
  /** The reasoning effort that was sent; absent: none was. */
  effort?: Effort;
  /** Parts that the provider wants back unchanged with the next request, such as reasoning signatures. */
  provider?: EventData["reply.finished"]["provider"];
};

export type ModelFailure = {
  ok: false;
  failure: TurnFailure;
  /** Milliseconds that the provider asked to wait (`Retry-After`). */
  retryAfterMs?: number;
  /**
   * No request was sent: the provider's circuit breaker is open, or its pause is not over. Does not count as an
   * attempt.
   */
  held?: true;
  /** The cause is the provider (quota, overload, outage): a model of another provider may well answer. */
  elsewhere?: true;
  /** What the failed request cost nevertheless. */
  usage: ModelUsage;
};

export const noUsage: ModelUsage = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  costUSD: 0,
};
