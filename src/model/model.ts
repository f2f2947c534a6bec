import type { ModelRef } from "../domain/agent.ts";
import type { CheckSpec } from "../protocol/check.ts";
import type { EventData } from "../protocol/event/event.ts";
import type { ModelUsage, TurnFailure } from "../protocol/event/conversation.ts";

/**
 * One language model (or the embedded rules) as the loop sees it. A provider's failure is a value. Implementations:
 * `provider/provider.ts` over the AI SDK's provider packages, `builtin/builtin.ts`; both pass `test/contract/model.test.ts`.
 */
export interface Model extends Readonly<Traits> {
  readonly ref: ModelRef;
  /** Whether another attempt can give another answer; the rules' cannot. */
  readonly retries: boolean;
  /** Never rejects but with the signal's abort. */
  reply(request: ModelRequest): Promise<ModelReply | ModelFailure>;
}

export type Traits = {
  /** Tokens that a request and its reply may hold together. */
  window: number;
  takes: { images: boolean; pdf: boolean; tools: boolean };
};

export type ToolSpec = { name: string; description: string /** JSON Schema of the arguments. */; parameters: object };

export type ModelRequest = {
  system: string;
  /** Long texts and attachments resolved to what a model can read. */
  messages: readonly PromptMessage[];
  tools: readonly ToolSpec[];
  /** The Task's facts that the rules plan from; language models read them in the messages. */
  facts: Facts;
  /** The Task's id, by which a recording is named. */
  task?: string;
  signal: AbortSignal;
  /** The model has begun to answer. */
  onFirst?: () => void;
  onText(delta: string): void;
  onReasoning(delta: string): void;
};

export type PromptMessage =
  | {
      role: "user";
      messageID: string;
      source: string;
      text: string;
      files: PromptFile[];
      /** It made a settled Task active again: what came before is history. */
      restarted?: boolean;
    }
  | {
      role: "assistant";
      messageID: string;
      text: string;
      calls: { callID: string; tool: string; input: unknown }[];
      provider?: EventData["reply.finished"]["provider"];
    }
  | {
      role: "tool";
      results: {
        callID: string;
        tool: string;
        outcome: "ok" | "error" | "interrupted";
        output: string;
        exitCode: number | null;
      }[];
    };

/** `path`: where it stands in the workspace, for tools. */
export type PromptFile = { filename: string; mime: string; bytes: Uint8Array; path?: string };

export type Facts = {
  checks: readonly CheckSpec[];
  /** The project's own commands, found in its manifest; absent where there is none. */
  detected: { test?: string; build?: string; lint?: string; typecheck?: string };
  /** What else was found; language models read it in the handbook. */
  project?: {
    languages: string[];
    managers: string[];
    /** What stands at its root. */
    layout: string;
    /** `AGENTS.md` files of folders below. */
    nested: string[];
    /** The nearest `AGENTS.md`, from the root up to the repository's top; bounded. */
    guide?: { path: string; text: string };
    skills?: { name: string; description: string }[];
  };
  /** The squad's own. */
  skills?: readonly { name: string; description: string }[];
  /** What kind of work it is; for `work` the result is a document. */
  pillar?: "code" | "work";
};

export type ModelReply = {
  ok: true;
  text: string;
  calls: {
    tool: string;
    input: unknown /** Set when the arguments are not what the schema wants. */;
    invalid?: string;
  }[];
  finish: Exclude<EventData["reply.finished"]["finish"], "failed">;
  usage: ModelUsage;
  provider?: EventData["reply.finished"]["provider"];
};

export type ModelFailure = {
  ok: false;
  failure: TurnFailure;
  /** Milliseconds the provider asked to wait (`Retry-After`). */
  retryAfterMs?: number;
  /** Nothing was asked: the provider's breaker is open. No attempt is counted. */
  held?: true;
  /** The provider's own trouble (quota, overload, absence): another may well answer. */
  elsewhere?: true;
  usage: ModelUsage;
};

export const noUsage: ModelUsage = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  costUSD: 0,
};
