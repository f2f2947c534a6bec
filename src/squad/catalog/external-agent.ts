import { hash } from "node:crypto";
import type { CatalogEntry } from "./scope.ts";
import type { Squad } from "../squad.ts";
import { snapshotOf } from "../package/snapshot.ts";

/**
 * The squad of one external agent: it works alone, with its own model and tools, under the service's permission rules.
 */
const externalSquad = (name: string): Squad => ({
  id: `acp-${name}`,
  version: "1.0.0",
  name,
  summary: `The external agent ${name}, over the Agent Client Protocol.`,
  notFor: "Work that needs the service's own tools or several agents.",
  pillars: ["code", "work"],
  owns: { domains: [], phases: [] },
  orchestrator: {
    name,
    description: "An agent that is a program, with its own model and tools.",
    tools: [],
    delegates: [],
    runtime: `acp:${name}`,
    instructions: `You carry out one Task in a project on a server, unattended. There is nobody to ask: decide what a careful colleague would decide, and say in your last message what you decided and why.

- Work in the current directory only. What you change there enters the project by itself when you are done.
- Make the smallest change that does the whole job, in the style of what surrounds it, and prove it with the project's own commands.
- Start nothing that outlives you: every process you leave is ended with your turn.
- Your last message, two to six sentences: what changed and where, how it was shown to work, what is left or uncertain.`,
  },
  agents: [],
  skills: [],
});

/** The agent's squad as a catalog entry; without files, because it is made from the configuration. */
export const findExternal = (name: string): CatalogEntry => {
  const squad = externalSquad(name);
  return { squad, scope: "user", digest: hash("sha256", snapshotOf(squad), "hex"), files: undefined };
};
