import type { AgentSpec } from "../../domain/agent.ts";
import type { DomainEvent } from "../../domain/event.ts";
import { isReviewer } from "../../domain/agent.ts";
import { keepText, loadJSON } from "../../store/blob/text.ts";
import { type ListedTool, mcpPrefix } from "../../tool/mcp/server.ts";
import { mcpTools, type OfServer } from "../../tool/mcp/tools.ts";
import type { Run } from "../run.ts";

/**
 * Decides which MCP servers an agent works with, and loads their tools. Each server is asked once per Task, when the
 * first agent needs its tools, because what a model was told must not change later.
 */

/**
 * The servers that the agent names. If it names none, the lead of the Task has all servers, and other agents have none.
 */
export const serversFor = (run: Pick<Run, "mcp" | "state">, agent: AgentSpec, isLead: boolean): string[] => {
  const { model, production, judges } = run.state();
  if (isReviewer(agent) || production !== null || judges || model.startsWith("builtin/")) return [];
  const named = agent.tools.filter((tool) => tool.startsWith(mcpPrefix)).map((tool) => tool.slice(mcpPrefix.length));
  if (named.length === 0) return isLead ? [...run.mcp.names()] : [];
  return run.mcp.names().filter((name) => named.includes(name));
};

/** How many servers are asked at the same time. */
const atOnce = 4;

export const toolsFor = async (run: Run, servers: readonly string[]) => {
  const queue = servers.filter((server) => run.state().mcp[server] === undefined);
  const ask = async () => {
    for (let server = queue.shift(); server !== undefined; server = queue.shift()) await list(run, server);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, queue.length) }, ask));
  const known = await Promise.all(
    servers.map(async (server): Promise<OfServer> => {
      const kept = await loadJSON(run.store.blobs, run.state().mcp[server]?.tools ?? null);
      return { server, tools: (kept ?? []) as unknown as ListedTool[] };
    }),
  );
  return mcpTools(known, run.mcp);
};

const list = async (run: Run, server: string): Promise<void> => {
  const { tools, problem } = await run.mcp.list(
    server,
    await run.workspace(),
    run.limits.commandSeconds * 1000,
    run.signal,
  );
  const listed: DomainEvent = {
    type: "mcp.listed",
    data: { server, count: tools.length, tools: await keepText(run.store.blobs, JSON.stringify(tools)), problem },
  };
  await run.record([listed]);
};
