import type { z } from "zod";
import type { Limits } from "../protocol/limits.ts";
import type { Workspace } from "../workspace/workspace.ts";

/**
 * What an agent can do. A tool that fails answers with `outcome: "error"` and words that help the model to go on; it
 * rejects only with the signal's abort or a bug.
 */
export interface Tool<I = unknown> {
  readonly name: string;
  readonly description: string;
  readonly input: z.ZodType<I>;
  /** `none` may run again after a crash; `workspace` and `unknown` are not repeated by us. */
  readonly effect: "none" | "log" | "workspace" | "unknown";
  run(input: I, context: ToolContext): Promise<ToolResult>;
}

export type ToolContext = {
  workspace: Workspace;
  limits: Limits;
  signal: AbortSignal;
  /** Output as it comes, for whoever listens; may be lost. */
  onOutput(text: string): void;
};

export type ToolResult = { outcome: "ok" | "error"; output: string; exitCode?: number };

/** The longest text a tool result brings to the model, characters; longer is cut to head and tail. */
export const maxOutput = 24_000;

/** Keeps head and tail of a long text and says what is missing, and how to read it. */
export const fit = (text: string, hint: string, max = maxOutput): string => {
  if (text.length <= max) return text;
  const half = Math.floor(max / 2);
  const missing = text.length - 2 * half;
  return `${text.slice(0, half)}\n… ${missing} characters left out; ${hint} …\n${text.slice(-half)}`;
};
