import type { AgentSpec, SquadRef } from "../domain/agent.ts";

/** A squad as data, and the revisions that Tasks are pinned to. */

/** Where a package is stored: in the product, in the data folder, or in the project. */
export type Scope = SquadRef["scope"];

export type Squad = {
  id: string;
  version: string;
  name: string;
  /** What the squad is for. */
  summary: string;
  /** The work that it should not be chosen for; "" if the package does not say. */
  notFor: string;
  /** The kinds of work that the squad does; with `work` the result is a document. */
  pillars: readonly ("code" | "work")[];
  /** What the squad claims to cover completely. Only this claim makes it an owner in recommendations. */
  owns: { domains: readonly string[]; phases: readonly string[] };
  orchestrator: Agent;
  /** All agents but the Orchestrator. */
  agents: readonly Agent[];
  skills: readonly SquadSkill[];
};

/** `description`: the text that the other agents of the squad read about this one. */
export type Agent = AgentSpec & { description: string };

/** Instructions for one kind of work; agents load them when that work comes up. */
export type SquadSkill = { name: string; description: string; text: string };

export interface Squads {
  /**
   * Pins a new Task to the revision of the squad that a project at `directory` uses now. Before this resolves, the
   * revision's snapshot is stored for as long as the data folder exists. Throws `ServiceError(squad_not_available)`.
   */
  pin(id: string, directory: string | undefined): Promise<SquadRef>;
  /**
   * The pinned revision, by its digest, whatever has happened to the package since. Throws when its snapshot is
   * missing, was changed, or cannot be read by this version.
   */
  load(ref: SquadRef): Promise<Squad>;
}
