import type { Config } from "../config/config.ts";
import { isCommandRule } from "../domain/permission/plain-command.ts";
import { StartError } from "../error.ts";
import { problemOf } from "../repository/service.ts";
import { problemIn } from "../task/worker/project-rules.ts";
import { type AllowedTargets, parseAllowed } from "../webhook/target.ts";

/**
 * Has the rooms validate their parts of the configuration before anything is opened. Returns where webhooks may go;
 * throws a `StartError`.
 */
export const checkConfig = ({
  configPath,
  permissions,
  webhooks,
  repositories,
  environments,
  env,
}: Config): AllowedTargets => {
  for (const list of ["deny", "ask", "allow"] as const) {
    const problem = problemIn(list, permissions[list]);
    if (problem !== undefined) throw new StartError(78, `${configPath}: permissions.${problem}.`);
  }
  for (const [project, { shell = [] }] of Object.entries(environments))
    for (const rule of shell)
      if (!isCommandRule(rule))
        throw new StartError(
          78,
          `${configPath}: environments.${project}.shell: Expected one program with its words, such as npm run migrate, got ${JSON.stringify(rule)}.`,
        );
  const allowed = parseAllowed(webhooks.allow);
  if (typeof allowed === "string") throw new StartError(78, `${configPath}: webhooks.allow: ${allowed}.`);
  const wrong = problemOf(repositories, env);
  if (wrong !== undefined) throw new StartError(78, `${configPath}: repositories.${wrong}.`);
  return allowed;
};
