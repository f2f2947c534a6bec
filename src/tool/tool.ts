import type { z } from "zod";
import type { DomainEvent } from "../domain/event.ts";
import type { TaskState } from "../domain/state/task.ts";
import type { OutboundOptions } from "../outbound/address.ts";
import type { Command, CommandResult } from "../process/process.ts";
import type { EventData } from "../protocol/event/event.ts";
import type { Limits } from "../protocol/limit.ts";
import type { BlobRef } from "../protocol/text.ts";
import type { Workspace } from "../workspace/workspace.ts";

/** The port: a tool and what it works with (`WaitsForAnswer` is its one class). */

/**
 * What an agent can do. A tool that fails answers with `outcome: "error"` and words that help the model to go on; it
 * rejects only with the signal's abort or a bug.
 */
export interface Tool<I = unknown> {
  readonly name: string;
  readonly description: string;
  readonly input: z.ZodType<I>;
  /**
   * `none` may run again after a crash. `log` changes nothing but our own log and is run again too: its facts go with
   * the result, or carry the call's id so that the second run finds them. `workspace` and `unknown` are not repeated.
   */
  readonly effect: "none" | "log" | "workspace" | "unknown";
  run(input: I, context: ToolContext): Promise<ToolResult>;
}

export type ToolContext = {
  callID: string;
  sessionID: string;
  workspace: Workspace;
  limits: Limits;
  signal: AbortSignal;
  /** The whole text behind a result that was cut, by its call. */
  kept(callID: string): Promise<string | undefined>;
  /** Keeps bytes beside the log, under their hash; what the service knows as a secret is taken out of them. */
  keep(bytes: Uint8Array): Promise<BlobRef>;
  background: BackgroundCommands;
  /** How pages may be fetched; undefined: not at all. */
  web?: OutboundOptions | undefined;
  /** Output as it comes, for whoever listens; may be lost. */
  onOutput(text: string): void;
  /** The Task's fold: what an earlier run of this call has recorded is in it. */
  state(): TaskState;
  /** Commits facts while the call is still open. For effect `log`. */
  record(facts: readonly DomainEvent[]): Promise<void>;
  /**
   * Puts a question to the user. Rejects with Waits at first: the call stays open without a result, and is run again
   * once there is an answer, which it then gets here.
   */
  ask(question: Pick<EventData["ask.opened"], "prompt" | "options" | "default">): Promise<AskOutcome>;
  /** Has another agent of the squad work in a session of its own, until its last word. Run again, it goes on with it. */
  delegate(work: { agent: string; slices?: readonly string[] | undefined; brief: string }): Promise<ToolResult>;
};

/** On what only the built-in rules pass: a model has better ways, and would be told of it with every request. */
export const builtinOnly = { untold: true };

/** `refused`: the Task may ask no more; words for the model. */
export type AskOutcome = EventData["ask.answered"] | { refused: string };

/** The call waits for an answer: nothing was done, and nothing is to be recorded. */
export class WaitsForAnswer extends Error {}

export type ToolResult = {
  outcome: "ok" | "error";
  output: string;
  exitCode?: number;
  /** The whole text behind an output that was cut; it is kept and read as `output:<callID>`. */
  full?: string;
  /** Committed with the result, all or nothing: a call that runs again has left none. For effect `log`. */
  facts?: readonly DomainEvent[];
};

export interface BackgroundCommands {
  /** Starts a command; undefined: `most` run already. */
  start(workspace: Workspace, command: Omit<Command, "signal">, most: number): BackgroundCommand | undefined;
  /** A string says why there is none of this id. */
  find(id: string): BackgroundCommand | string;
  list(): readonly BackgroundCommand[];
  /** Ends all of them, and waits until they are gone. Those it ended answer later that it was not their doing. */
  end(): Promise<void>;
}

export interface BackgroundCommand {
  readonly id: string;
  readonly command: string;
  /** undefined: it runs. */
  ended(): CommandResult | undefined;
  seconds(): number;
  /** Whether `Background.end` ended it, and not the command itself or its agent. */
  swept(): boolean;
  /** What it wrote since the last call, head and tail when that is long. */
  take(): string;
  /** Waits for its end, or with `output` for new output, too; at most so long. Rejects with the signal's abort. */
  wait(what: "end" | "output", ms: number, signal: AbortSignal): Promise<void>;
  kill(): Promise<void>;
}
