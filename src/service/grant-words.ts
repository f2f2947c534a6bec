import type { EnvironmentSettings } from "../protocol/task/environment.ts";
import { describeServer, projectFile } from "../tool/mcp/project-file.ts";
import type { ProjectRequest } from "./trust.ts";

/** A project's request in sentences, for the person who decides about it on the command line or on the page. */

export type RequestWords = { requests: string[]; problems: string[]; grantable: boolean };

export const wordsOf = (request: ProjectRequest): RequestWords => {
  if (request.file === projectFile) {
    const { servers, problems } = request.asked;
    const requests = Object.entries(servers).map(([name, server]) => `${name}: ${describeServer(server)}`);
    return {
      requests,
      problems: Object.entries(problems).map(([name, why]) => `${name || projectFile}: ${why}`),
      grantable: requests.length > 0,
    };
  }
  return "problem" in request.asked
    ? { requests: [], problems: [request.asked.problem], grantable: false }
    : { requests: environmentWords(request.asked), problems: [], grantable: true };
};

const environmentWords = ({
  setup,
  network,
  setupNetwork,
  variables = {},
  secrets = [],
  limits = {},
  paths = [],
  diagnostics,
  image,
}: EnvironmentSettings): string[] => {
  const hosts = (setting: string | readonly string[]): string =>
    typeof setting === "string" ? setting : setting.join(", ");
  return [
    ...(image === undefined ? [] : [`image: all commands run in the system of ${image}, as this machine has it`]),
    ...(setup === undefined
      ? []
      : [`setup: runs ${JSON.stringify(setup)} in the sandbox, in each new worktree and checkout`]),
    ...(network === undefined ? [] : [`network of all commands: ${hosts(network)}`]),
    ...(setupNetwork === undefined ? [] : [`network of the setup: ${hosts(setupNetwork)}`]),
    ...Object.entries(variables).map(([name, value]) => `variable: ${name}=${value}`),
    ...(secrets.length === 0 ? [] : [`secrets, for the setup and the project's own checks: ${secrets.join(", ")}`]),
    ...Object.entries(limits).map(([name, value]) => `limit: ${name} ${value}`),
    ...(paths.length === 0 ? [] : [`read by all commands, besides the project: ${paths.join(", ")}`]),
    ...(diagnostics === false ? ["diagnostics: nothing looks at edits"] : []),
    ...(Array.isArray(diagnostics)
      ? diagnostics.map(({ run }) => `diagnostics: runs ${JSON.stringify(run)} in the sandbox, after edits`)
      : []),
  ];
};
