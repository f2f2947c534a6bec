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
  /** Of reasoning, with whatever model; absent: as the operator has it. */
  effort?: Effort;
  /** What runs its loop: the service (absent), or a program from the operator's configuration, over ACP. */
  runtime?: `acp:${string}`;
};

/** Tools that run commands. They are given together: what one leaves running only the other can read and end. */
export const commandTools: readonly string[] = ["shell", "process"];

export const isReviewer = ({ name }: Pick<AgentSpec, "name">): boolean => name === "reviewer";
