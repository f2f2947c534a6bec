import type { Effort } from "../protocol/field.ts";

/** The agents of a squad as data, and the references that pin a Task to a squad revision and a model. */

export type SquadRef = { id: string; version: string; digest: string; scope: "builtin" | "user" | "project" };

/** `provider/model`, e.g. `anthropic/claude-sonnet-4-5` or `builtin/rules-1`. The first slash separates the two. */
export type ModelRef = `${string}/${string}`;

export type AgentSpec = {
  name: string;
  instructions: string;
  tools: readonly string[];
  /** Names of agents of the same squad that this one may delegate to. */
  delegates: readonly string[];
  model?: ModelRef;
  /** The reasoning effort, with any model; absent: the operator's setting applies. */
  effort?: Effort;
  /** What runs the agent's loop: the service (absent), or a program from the operator's configuration, over ACP. */
  runtime?: `acp:${string}`;
};

/**
 * Tools that run commands. An agent gets both or neither: only `process` can read and end what `shell` leaves running.
 */
export const commandTools: readonly string[] = ["shell", "process"];

export const isReviewer = ({ name }: Pick<AgentSpec, "name">): boolean => name === "reviewer";
