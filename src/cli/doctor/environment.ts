import type { Config } from "../../config/config.ts";
import { bad, type Finding, ok } from "../terminal/finding.ts";

/**
 * The checks of `sortie doctor` on environments: whether this machine has what they name. They read no value, and run
 * none of the operator's commands.
 */

/** `lists`: why commands cannot be restricted to a list of hosts; undefined: they can. */
export const checkEnvironments = async (config: Config, lists: string | undefined): Promise<Finding[]> => {
  const projects = Object.keys(config.environments).length;
  const secrets = Object.keys(config.secretStore).length;
  if (projects + secrets === 0) return [];
  const { environmentProblems } = await import("../../service/machine.ts");
  const found = environmentProblems(config, lists);
  if (found.length > 0)
    return found.map(({ setting, problem }) =>
      bad("Environment", `${setting}: ${problem}`, `Correct it, or ${config.configPath}: Tasks that need it fail.`),
    );
  const of = (count: number, what: string) => `${count} ${what}${count === 1 ? "" : "s"}`;
  return [ok("Environments", `of ${of(projects, "project")}, ${of(secrets, "secret")} by name`)];
};

/** When images are enabled: whether a container engine has them. Fetches no image and starts nothing. */
export const checkImages = async (config: Config, tier: 1 | 2 | 3): Promise<Finding[]> => {
  if (!config.sandbox.containers) return [];
  const { imagesOn } = await import("../../service/machine.ts");
  const { engine, problem, missing } = await imagesOn(config, tier);
  if (problem !== undefined)
    return [bad("Images", problem, "Or remove sandbox.containers: Tasks of projects with an image fail.")];
  if (missing.length > 0)
    return missing.map(({ setting, problem: why }) =>
      bad("Images", `${setting}: ${why}`, "Tasks of this project fail."),
    );
  return [ok("Images", `of ${engine}; an experiment`)];
};
