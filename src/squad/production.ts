import { isReviewer } from "../domain/agent.ts";
import type { Squad } from "./squad.ts";
import { recommend } from "./catalog/recommend.ts";
import type { Scan } from "./catalog/catalog.ts";
import { tools } from "../tool/registry.ts";

/**
 * The restrictions on a squad that a Mission produced: small, made only of texts, with a reviewer of the work, and for
 * its project only. Checked when the squad is written, and again when it is found in the catalog.
 */

export const productionBounds = { agentsMin: 3, agentsMax: 9, skillsMax: 3 } as const;

/** All tools that such a package may name: not those of MCP servers, which belong to the operator. */
export const producedTools: readonly string[] = Object.keys(tools);

/** Everything that violates the restrictions; empty if nothing does. `phase`: the phase that the squad must own. */
export const productionProblems = (squad: Squad, wanted: { id: string; phase: string }): string[] => {
  const { agentsMin, agentsMax, skillsMax } = productionBounds;
  const { agents, skills, orchestrator } = squad;
  const problems: string[] = [];
  if (squad.id !== wanted.id) problems.push(`Expected the id ${wanted.id}, got ${squad.id}`);
  if (agents.length < agentsMin || agents.length > agentsMax)
    problems.push(`Expected ${agentsMin} to ${agentsMax} agents besides the Orchestrator, got ${agents.length}`);
  if (!agents.some(isReviewer))
    problems.push("Expected an agent named reviewer, which judges the work before it lands");
  if (skills.length > skillsMax) problems.push(`Expected at most ${skillsMax} skills, got ${skills.length}`);
  for (const agent of [orchestrator, ...agents]) {
    if (agent.runtime !== undefined)
      problems.push(`Expected no program behind the agent ${agent.name}, got ${agent.runtime}`);
    const foreign = agent.tools.find((tool) => !producedTools.includes(tool));
    if (foreign !== undefined)
      problems.push(`Expected tools of the service alone for the agent ${agent.name}, got ${foreign}`);
  }
  if (!ownsPhase(squad, wanted.phase)) problems.push(`Expected \`owns\` to have the phase ${wanted.phase}`);
  return problems;
};

/** Whether the squad owns the phase, decided as in the catalog's recommendation. */
const ownsPhase = (squad: Squad, phase: string): boolean => {
  const scan: Scan = {
    healthy: true,
    complete: true,
    revision: "",
    squads: [{ squad, scope: "project", digest: "", files: undefined }],
    issues: [],
    warnings: [],
  };
  return squad.pillars.some((pillar) => recommend(scan, phase, pillar).owners.length > 0);
};
