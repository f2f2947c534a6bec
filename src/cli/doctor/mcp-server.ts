import type { Config } from "../../config/config.ts";
import { bad, type Finding, note, ok } from "../terminal/finding.ts";
import { line } from "../terminal/format.ts";

/** The checks of `sortie doctor` on MCP servers: programs that are missing, and addresses that do not answer. None is started. */

export const checkMcpServers = async (
  config: Config,
  programs: ReadonlySet<string> | undefined,
): Promise<Finding[]> => {
  if (Object.keys(config.mcpServers).length === 0) return [];
  const { askMcpServer, mcpServersOn } = await import("../../service/machine.ts");
  return Promise.all(
    mcpServersOn(config, programs).map(async ({ name, problem }): Promise<Finding> => {
      const label = `MCP ${name}`;
      if (problem !== null)
        return bad(label, problem, "Install it where the service runs, or correct mcpServers in config.jsonc.");
      const server = config.mcpServers[name];
      if (server?.kind !== "http") return ok(label, `${server?.command}, installed`);
      const answer = await askMcpServer(name, server);
      return typeof answer === "number"
        ? ok(label, `${server.url} answers with ${answer} ${answer === 1 ? "tool" : "tools"}`)
        : note(label, `${server.url}: ${line(answer, 300)}`, "Until then, Tasks run without its tools.");
    }),
  );
};
