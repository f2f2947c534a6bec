import { StartError } from "../error.ts";
import type { AgentSettings, McpSettings } from "./file.ts";

/**
 * External agents and MCP servers as the configuration names them, with the variables that they need replaced by their
 * values.
 */

type Variables = Readonly<Record<string, string | undefined>>;

/** An external agent: a program driven over the Agent Client Protocol (ACP). */
export type AgentConfig = {
  command: string;
  /** Variables of the service's environment that are passed on, with their values. */
  env: Record<string, string>;
  home: string | undefined;
  network: boolean | readonly string[];
  mode: string;
};

/** An MCP server. `secrets`: the values that came from the service's environment. */
export type McpConfig =
  | {
      kind: "stdio";
      command: string;
      args: string[];
      env: Record<string, string>;
      secrets: string[];
      network: boolean | readonly string[];
    }
  | {
      kind: "http";
      url: string;
      headers: Record<string, string>;
      auth: { issuer: string; clientID: string; clientSecret: string; scope: string | undefined } | undefined;
    };

/** Resolves the variables that each agent needs. A missing one ends the start, rather than failing the first Task. */
export const agentsOf = (agents: Record<string, AgentSettings>, env: Variables): Record<string, AgentConfig> =>
  Object.fromEntries(
    Object.entries(agents).map(([name, agent]) => {
      const values = (agent.env ?? []).map((variable) => {
        const value = env[variable];
        if (value === undefined || value === "")
          throw new StartError(
            78,
            `agents.${name}.env names ${variable}, which is not set. Set it, or remove it from the list.`,
          );
        return [variable, value] as const;
      });
      const { command, home, network = true, mode = "default" } = agent;
      return [name, { command, env: Object.fromEntries(values), home, network, mode }];
    }),
  );

export const mcpServersOf = (servers: Record<string, McpSettings>, env: Variables): Record<string, McpConfig> =>
  Object.fromEntries(
    Object.entries(servers).map(([name, server]): [string, McpConfig] => {
      const secrets: string[] = [];
      const valuesOf = (where: string, given: Record<string, string> = {}) =>
        Object.fromEntries(
          Object.entries(given).map(([key, text]) => {
            if (!text.startsWith("env:")) return [key, text];
            const variable = text.slice("env:".length);
            const value = env[variable];
            if (value === undefined || value === "")
              throw new StartError(
                78,
                `mcpServers.${name}.${where}.${key} names ${variable}, which is not set. Set it, or remove it.`,
              );
            secrets.push(value);
            return [key, value];
          }),
        );
      if ("url" in server) {
        const { auth } = server;
        const { clientSecret = "" } = valuesOf("auth", auth === undefined ? {} : { clientSecret: auth.clientSecret });
        const headers = valuesOf("headers", server.headers);
        return [
          name,
          { kind: "http", url: server.url, headers, auth: auth && { ...auth, clientSecret, scope: auth.scope } },
        ];
      }
      const { command, args = [], network = "none" } = server;
      return [
        name,
        {
          kind: "stdio",
          command,
          args,
          env: valuesOf("env", server.env),
          secrets,
          network: typeof network === "string" ? network === "all" : network,
        },
      ];
    }),
  );
