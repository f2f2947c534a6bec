import type { Config } from "../../config/config.ts";
import { bad, type Finding, note, ok } from "../terminal/finding.ts";

/**
 * The checks of `sortie doctor` on repositories by address: which addresses are allowed, and mirrors that nobody has
 * used for a long time.
 */

export const checkRepositories = async (config: Config): Promise<Finding[]> => {
  const { allow, credentials, mirrorDays: days } = config.repositories;
  if (allow.length === 0)
    return [
      ok(
        "Repositories",
        'no repository URLs allowed; `"repositories": { "allow": ["https://*"] }` in config.jsonc allows every public https host',
      ),
    ];
  const { oldMirrors, repositoryProblem } = await import("../../service/machine.ts");
  const problem = repositoryProblem(config);
  if (problem !== undefined) return [bad("Repositories", `repositories.${problem}`, `Correct ${config.configPath}.`)];
  const given = credentials.length === 0 ? "no credentials" : `${credentials.length} with credentials`;
  const found = ok("Repositories", `${allow.length} allowed ${allow.length === 1 ? "address" : "addresses"}, ${given}`);
  const old = oldMirrors(config);
  if (old.length === 0) return [found];
  const more = old.length > 5 ? ` and ${old.length - 5} more` : "";
  return [
    found,
    note(
      "Mirrors",
      `${old.slice(0, 5).join(", ")}${more} not used for ${days} days`,
      "They are removed once no Task, Mission or squad uses them: delete their Tasks, or set limits.keepDays.",
    ),
  ];
};
