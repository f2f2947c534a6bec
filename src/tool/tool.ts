import type { z } from "zod";
import type { DomainEvent } from "../domain/event.ts";
import type { TaskState } from "../domain/state/task.ts";
import type { OutboundOptions } from "../outbound/address.ts";
import type { Command, CommandResult } from "../process/process.ts";
import type { EventData } from "../protocol/event/event.ts";
import type { Limits } from "../protocol/limit.ts";
import type { BlobRef } from "../protocol/text.ts";
import type { Workspace } from "../workspace/workspace.ts";

/** The contract of a tool: what an agent can do, and the context that the tool runs in. */

export type Effect = "none" | "log" | "workspace" | "unknown";

/**
 * A tool that fails resolves to `outcome: "error"` with words that help the model to continue; it rejects only with the
 * signal's reason, with `WaitsForAnswer`, or because of a bug. The caller commits `tool.started` before `run` and
 * `tool.finished` after it, so a call without a result has an unknown outcome after a crash.
 */
export interface Tool<I = unknown> {
  readonly name: string;
  /** What models read about the tool. */
  readonly description: string;
  /** By tool name: text added to the description for an agent that also has that tool. */
  readonly beside?: Readonly<Record<string, string>>;
  /** Schema of the arguments. Callers validate them before `run`. */
  readonly input: z.ZodType<I>;
  /**
   * Whether a call without a result runs again after a crash. `none`: the tool changes nothing; the call runs again.
   * `log`: the tool changes only our own log; the call runs again, too, because its events are committed with the
   * result or carry the call's id, so that the second run finds them. `workspace` and `unknown`: the call is reported
   * as interrupted and not repeated.
   */
  readonly effect: Effect;
  /** The effect of a call with these arguments, not yet validated, where it is less than the tool's. */
  effectOf?(input: unknown): Effect;
  /** JSON Schema of the arguments for models, where it differs from `input`'s. */
  readonly parameters?: object;
  /** The tool that a call with these arguments means, with the arguments for it; that tool is then called instead. */
  meant?(input: unknown): { tool: Tool; input: unknown } | undefined;
  run(input: I, context: ToolContext): Promise<ToolResult>;
}

export const effectOf = (tool: Tool, input: unknown): Effect => tool.effectOf?.(input) ?? tool.effect;

/**
 * Schema metadata of arguments that are accepted but left out of the schema that language models read with every
 * request: they are for the built-in model, or another tool does the same.
 */
export const hiddenFromModels = { untold: true };

export type ToolResult = {
  outcome: "ok" | "error";
  /** What the model reads. */
  output: string;
  exitCode?: number;
  /** The whole text behind a truncated output. It is kept, and `read` and `search` find it at `output:<callID>`. */
  full?: string | Uint8Array;
  /** The part of the result that is evidence; the service truncates it after secrets are removed. */
  evidence?: { command: string; output: string; tree: string | null; sliceID?: string; proves?: true };
  /** Events committed together with the result, so that a call that must run again has left none. For effect `log`. */
  facts?: readonly DomainEvent[];
};

/**
 * A file that a call changed, and its bytes before the change; null: it did not exist; undefined: not known. `gone`:
 * the call removed it.
 */
export type Touched = { path: string; before: Uint8Array | null | undefined; gone?: true };

export type ToolContext = {
  callID: string;
  sessionID: string;
  workspace: Workspace;
  limits: Limits;
  signal: AbortSignal;
  /** Whether the agent is offered the tool of this name. Texts for the agent must not name any other tool. */
  has(tool: string): boolean;
  /** The whole text, as UTF-8, behind the truncated result of an earlier call; undefined: nothing is kept for it. */
  kept(callID: string): Promise<Buffer | undefined>;
  /** Stores bytes as a blob, by their hash, after removing the secrets that the service knows. */
  keep(bytes: Uint8Array): Promise<BlobRef>;
  background: BackgroundCommands;
  /** Whether the project's manifest or a check of the Task names one of the commands in this text. */
  isNamed(command: string): boolean;
  /** The secrets that the operator gives this command, which then runs in a sandbox of its own; undefined: none. */
  secretsFor(command: string): Readonly<Record<string, string>> | undefined;
  /** Options for fetching web pages; undefined: web access is off. */
  web?: OutboundOptions | undefined;
  /**
   * Called with the files that the call has changed, so that they can be checked afterwards; undefined: no check
   * follows.
   */
  touched?: ((files: readonly Touched[]) => void) | undefined;
  /** Sends parts of the output to live viewers. May be lost. */
  onOutput(text: string): void;
  /** The Task's state, including everything that an earlier run of this call recorded. */
  state(): TaskState;
  /** Commits events while the call is still open. For effect `log`. */
  record(facts: readonly DomainEvent[]): Promise<void>;
  /**
   * Asks the user a question. The first time, it records the question and rejects with `WaitsForAnswer`: the call stays
   * open without a result. Once there is an answer the call runs again, and `ask` resolves to it.
   */
  ask(question: Pick<EventData["ask.opened"], "prompt" | "options" | "default">): Promise<AskOutcome>;
  /**
   * Has another agent of the squad work in a session of its own, and resolves to its last message. When the call runs
   * again, it continues the same session. Rejects with `WaitsForAnswer` while the session waits.
   */
  delegate(work: { agent: string; slices?: readonly string[] | undefined; brief: string }): Promise<ToolResult>;
};

/** `refused`: the Task has used up its questions; the reason, worded for the model. */
export type AskOutcome = EventData["ask.answered"] | { refused: string };

/** The call waits for an answer. Nothing was done, the call stays open, and no result may be recorded. */
export class WaitsForAnswer extends Error {}

/** The call needs files that are not available; nothing was done. The message says why, for the model. */
export class NoFiles extends Error {}

/** A command. `written`: its text as the agent wrote it. */
export type ToolCommand = Omit<Command, "signal"> & { written: string };

/** The background commands of one run. They end with the run and do not survive a crash. */
export interface BackgroundCommands {
  /** Starts a command; undefined: `most` commands are running already. */
  start(workspace: Workspace, command: ToolCommand, most: number): BackgroundCommand | undefined;
  /** The command with this id, or a message saying why there is none. */
  find(id: string): BackgroundCommand | string;
  list(): readonly BackgroundCommand[];
  /** Kills all running commands and resolves once they have ended; `swept` is then true for them. */
  end(): Promise<void>;
}

export interface BackgroundCommand {
  readonly id: string;
  readonly command: string;
  /** The command's result; undefined: it is still running. */
  ended(): CommandResult | undefined;
  /** How long the command has run so far, or ran in all. */
  seconds(): number;
  /** Whether `BackgroundCommands.end` ended it, rather than the command itself or its agent. */
  swept(): boolean;
  /** The output since the last call; only head and tail if it is long. */
  take(): string;
  /** Waits up to `ms` for the command's end, or with "output" also for new output. Rejects with the signal's reason. */
  wait(what: "end" | "output", ms: number, signal: AbortSignal): Promise<void>;
  /** Resolves once the command has ended. */
  kill(): Promise<void>;
}
