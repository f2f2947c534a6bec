import type { z } from "zod";
import type { DomainEvent } from "../domain/event.ts";
import type { TaskState } from "../domain/state/task.ts";
import type { OutboundOptions } from "../outbound/address.ts";
import type { Command, CommandResult } from "../process/process.ts";
import type { EventData } from "../protocol/event/event.ts";
import type { Limits } from "../protocol/limit.ts";
import type { BlobRef } from "../protocol/text.ts";
import type { Workspace } from "../workspace/workspace.ts";

/** What an agent can do: a tool, and what it works with while it runs. */

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
  /** What is added to it for an agent that has the tool of this name, too. */
  readonly beside?: Readonly<Record<string, string>>;
  /** Schema of the arguments. Callers validate them before `run`. */
  readonly input: z.ZodType<I>;
  /**
   * Whether a call without a result runs again after a crash. `none`: it changes nothing and runs again. `log`: it
   * changes only our own log and runs again, too; its events are committed with the result, or carry the call's id, so
   * that the second run finds them. `workspace` and `unknown`: it is reported as interrupted and not repeated.
   */
  readonly effect: Effect;
  /** The effect of a call with these arguments, unchecked, where it is less than the tool's. */
  effectOf?(input: unknown): Effect;
  /** JSON Schema of the arguments as models read it, where that is not `input`'s. */
  readonly parameters?: object;
  /**
   * The tool that a call with these arguments means, with the arguments for that; it is then the one that is called.
   */
  meant?(input: unknown): { tool: Tool; input: unknown } | undefined;
  run(input: I, context: ToolContext): Promise<ToolResult>;
}

export const effectOf = (tool: Tool, input: unknown): Effect => tool.effectOf?.(input) ?? tool.effect;

/**
 * Schema metadata of arguments that are taken, and left out of what language models read with every request: they are
 * for the built-in model, or another tool does the same.
 */
export const untold = { untold: true };

export type ToolResult = {
  outcome: "ok" | "error";
  /** What the model reads. */
  output: string;
  exitCode?: number;
  /** The whole text behind a truncated output. It is kept, and `read` and `search` find it at `output:<callID>`. */
  full?: string | Uint8Array;
  /** What of it is evidence; the service cuts it once secrets are removed. */
  evidence?: { command: string; output: string; tree: string | null; sliceID?: string; proves?: true };
  /** Events committed together with the result, so a call that has to run again has left none. For effect `log`. */
  facts?: readonly DomainEvent[];
};

/**
 * A file that a call changed, and its bytes before; null: it did not exist; undefined: not known. `gone`: it is
 * removed.
 */
export type Touched = { path: string; before: Uint8Array | null | undefined; gone?: true };

export type ToolContext = {
  callID: string;
  sessionID: string;
  workspace: Workspace;
  limits: Limits;
  signal: AbortSignal;
  /** Whether its agent is offered the tool of this name: what it reads names no other. */
  has(tool: string): boolean;
  /** The whole text, as UTF-8, behind the truncated result of an earlier call; undefined: nothing is kept for it. */
  kept(callID: string): Promise<Buffer | undefined>;
  /** Stores bytes as a blob, by their hash, after removing the secrets that the service knows. */
  keep(bytes: Uint8Array): Promise<BlobRef>;
  background: BackgroundCommands;
  /** Whether the project's manifest or a check of the Task names one of the commands in this text. */
  isNamed(command: string): boolean;
  /** The secrets that the operator gives this command, which is run alone; undefined: none. */
  secretsFor(command: string): Readonly<Record<string, string>> | undefined;
  /** How web pages may be fetched; undefined: not at all. */
  web?: OutboundOptions | undefined;
  /** Told of the files that the call has changed, for what is looked at afterwards; undefined: nobody looks. */
  touched?: ((files: readonly Touched[]) => void) | undefined;
  /** Sends parts of the output to live viewers. May be lost. */
  onOutput(text: string): void;
  /** The Task's state, including everything that an earlier run of this call recorded. */
  state(): TaskState;
  /** Commits events while the call is still open. For effect `log`. */
  record(facts: readonly DomainEvent[]): Promise<void>;
  /**
   * Asks the user a question. At first it records the question and rejects with `WaitsForAnswer`: the call stays open
   * without a result. Once there is an answer the call runs again, and `ask` resolves to it.
   */
  ask(question: Pick<EventData["ask.opened"], "prompt" | "options" | "default">): Promise<AskOutcome>;
  /**
   * Has another agent of the squad work in a session of its own, and resolves to its last message. When the call runs
   * again, it continues the same session. Rejects with `WaitsForAnswer` while the session waits.
   */
  delegate(work: { agent: string; slices?: readonly string[] | undefined; brief: string }): Promise<ToolResult>;
};

/** `refused`: the Task has used up its questions; in words for the model. */
export type AskOutcome = EventData["ask.answered"] | { refused: string };

/** The call waits for an answer. Nothing was done, the call stays open, and no result may be recorded. */
export class WaitsForAnswer extends Error {}

/** The call needs files that cannot be had; nothing was done. The message says why, for the model. */
export class NoFiles extends Error {}

/** A command, and as its agent wrote it. */
export type ToolCommand = Omit<Command, "signal"> & { written: string };

/** The background commands of one run. They end with the run and do not survive a crash. */
export interface BackgroundCommands {
  /** Starts a command; undefined: `most` commands are running already. */
  start(workspace: Workspace, command: ToolCommand, most: number): BackgroundCommand | undefined;
  /** The command with this id, or why there is none. */
  find(id: string): BackgroundCommand | string;
  list(): readonly BackgroundCommand[];
  /** Kills all running commands and resolves once they have ended; `swept` is then true for them. */
  end(): Promise<void>;
}

export interface BackgroundCommand {
  readonly id: string;
  readonly command: string;
  /** undefined: it is still running. */
  ended(): CommandResult | undefined;
  /** How long it has run so far, or ran. */
  seconds(): number;
  /** Whether `BackgroundCommands.end` ended it, rather than the command itself or its agent. */
  swept(): boolean;
  /** The output since the last call; head and tail when it is long. */
  take(): string;
  /** Waits up to `ms` for its end, or with "output" also for new output. Rejects with the signal's reason. */
  wait(what: "end" | "output", ms: number, signal: AbortSignal): Promise<void>;
  /** Resolves once it has ended. */
  kill(): Promise<void>;
}
