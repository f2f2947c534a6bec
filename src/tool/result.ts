import type { z } from "zod";
import type { DomainEvent } from "../domain/event.ts";
import type { TaskState } from "../domain/state/task.ts";
import type { BlobRef } from "../protocol/text.ts";
import type { EventData } from "../protocol/event/event.ts";
import type { Limits } from "../protocol/limit.ts";
import { FileRefused } from "../workspace/file/files.ts";
import { GitError } from "../workspace/git/git.ts";
import type { Workspace } from "../workspace/workspace.ts";
import type { Background } from "./command/background.ts";
import type { OutboundOptions } from "../outbound/address.ts";

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
  background: Background;
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
  ask(question: Pick<EventData["ask.opened"], "prompt" | "options" | "default">): Promise<Asked>;
  /** Has another agent of the squad work in a session of its own, until its last word. Run again, it goes on with it. */
  delegate(work: { agent: string; slices?: readonly string[] | undefined; brief: string }): Promise<ToolResult>;
};

/** On what only the built-in rules pass: a model has better ways, and would be told of it with every request. */
export const untold = { untold: true };

/** `refused`: the Task may ask no more; words for the model. */
export type Asked = EventData["ask.answered"] | { refused: string };

/** The call waits for an answer: nothing was done, and nothing is to be recorded. */
export class Waits extends Error {}

export type ToolResult = {
  outcome: "ok" | "error";
  output: string;
  exitCode?: number;
  /** The whole text behind an output that was cut; it is kept and read as `output:<callID>`. */
  full?: string;
  /** Committed with the result, all or nothing: a call that runs again has left none. For effect `log`. */
  facts?: readonly DomainEvent[];
};

/** The longest text a tool result brings to the model, characters; longer is cut to head and tail. */
export const maxOutput = 24_000;

/** Keeps head and tail of a long text and says what is missing, and how to read it. */
export const fit = (text: string, hint: string, max = maxOutput): string => {
  if (text.length <= max) return text;
  const half = Math.floor(max / 2);
  const missing = text.length - 2 * half;
  return `${text.slice(0, half)}\n… ${missing} characters left out; ${hint} …\n${text.slice(-half)}`;
};

/** Where a call's whole output is read. */
export const outputPath = "output:";

/** Head and tail of a text of any length; the whole is kept for `read` and `search`. */
export const sized = (text: string, { callID }: Pick<ToolContext, "callID">): Omit<ToolResult, "exitCode"> =>
  text.length <= maxOutput
    ? { outcome: "ok", output: text }
    : { outcome: "ok", output: fit(text, `all of it: \`read\` or \`search\` path ${outputPath}${callID}`), full: text };

export const ok = (output: string): ToolResult => ({ outcome: "ok", output });
export const failed = (output: string): ToolResult => ({ outcome: "error", output });

/** What the workspace refused, as words for the model. The signal's abort and bugs go on. */
export const answer = async (signal: AbortSignal, work: () => Promise<ToolResult>): Promise<ToolResult> => {
  signal.throwIfAborted();
  try {
    const result = await work();
    signal.throwIfAborted();
    return result;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof FileRefused) return failed(`${error.message}.`);
    if (error instanceof GitError) return failed(fit(error.stderr.trim() || error.message, "the rest is more of it"));
    throw error;
  }
};

/** A path on one line: names with control characters, or that begin with a quote, as a JSON string. */
export const shown = (path: string): string => (/^"|\p{Cc}/u.test(path) ? JSON.stringify(path) : path);

export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;

/** Text that somebody else wrote, with its origin: it informs the model and is no instruction. A mitigation, no guard. */
export const asData = (origin: string, text: string): string =>
  `<data from=${JSON.stringify(origin)}>\n${text.replaceAll(/<(\/?data\b)/gi, "<\u200B$1")}\n</data>`;
