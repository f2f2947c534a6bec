import { createHash } from "node:crypto";
import type { AgentSpec, SquadRef } from "../domain/agent.ts";
import { ServiceError } from "../errors.ts";
import type { Blobs } from "../store/store.ts";
import { base } from "./base.ts";
import { externalSquad } from "./external.ts";

/** Squads as data, and the revisions that Tasks are pinned to. */

export type Squad = {
  id: string;
  version: string;
  name: string;
  summary: string;
  pillars: readonly ("code" | "work")[];
  orchestrator: AgentSpec;
  agents: readonly AgentSpec[];
};

export interface Squads {
  /** The revision that a new Task is pinned to; its snapshot is kept for as long as the data folder. */
  pin(id: string): Promise<SquadRef>;
  load(ref: SquadRef): Promise<Squad>;
}

/** The digest of a squad is the SHA-256 of its snapshot, so a Task's squad is found by it years later. */
const snapshot = (squad: Squad): Buffer => Buffer.from(`sortie squad 1\n${JSON.stringify(squad)}`);

/** `external`: names of the operator's external agents; each is a squad of its own, `acp-<name>`. */
export const createSquads = (blobs: Blobs, external: readonly string[] = []): Squads => {
  const squads: readonly Squad[] = [base, ...external.map(externalSquad)];
  return {
    async pin(id) {
      const squad = squads.find((candidate) => candidate.id === id);
      if (squad === undefined)
        throw new ServiceError(
          "squad_not_available",
          `Expected promptProfile to be an installed squad (${squads.map((known) => known.id).join(", ")}), got ${JSON.stringify(id)}.`,
        );
      const bytes = snapshot(squad);
      await blobs.put(bytes, true);
      const digest = createHash("sha256").update(bytes).digest("hex");
      return { id: squad.id, version: squad.version, digest, scope: squad === base ? "builtin" : "user" };
    },
    async load(ref) {
      const bytes = await blobs.get(ref.digest);
      if (bytes === undefined)
        throw new Error(`The snapshot of squad ${ref.id} ${ref.version} (${ref.digest}) is gone.`);
      return JSON.parse(bytes.toString("utf8").replace(/^[^\n]*\n/, "")) as Squad;
    },
  };
};
