import type { AgentSpec, SquadRef } from "../domain/agent.ts";

/** Squads as data, and the revisions that Tasks are pinned to. */

export type Scope = SquadRef["scope"];

/** `description`: what the others of its squad are told of it. */
export type Agent = AgentSpec & { description: string };

/** Instructions for a kind of work, read by agents when it comes up. */
export type SquadSkill = { name: string; description: string; text: string };

export type Squad = {
  id: string;
  version: string;
  name: string;
  summary: string;
  notFor: string;
  pillars: readonly ("code" | "work")[];
  /** What it fully owns, by its own word; nothing else makes it an owner. */
  owns: { domains: readonly string[]; phases: readonly string[] };
  orchestrator: Agent;
  /** Those besides the Orchestrator. */
  agents: readonly Agent[];
  skills: readonly SquadSkill[];
};

export interface Squads {
  /** The revision that a new Task of this project is pinned to; its snapshot is kept for as long as the data folder. */
  pin(id: string, directory: string): Promise<SquadRef>;
  load(ref: SquadRef): Promise<Squad>;
}
