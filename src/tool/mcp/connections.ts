import type { Workspace } from "../../workspace/workspace.ts";
import { connectTo, type McpConnection } from "./connection.ts";
import { type Listing, type McpAnswer, McpFailure, type McpServer } from "./server.ts";

/**
 * The connections of one run. Each is made when first needed, for the files that its caller works on, and ends with the
 * turn. A connection that ended by itself is made anew, a few times per run.
 */
export type McpConnections = {
  names(): readonly string[];
  /** Rejects only with the signal's reason: a server that cannot be reached yields no tools, and a problem. */
  list(server: string, workspace: Workspace, timeoutMs: number, signal: AbortSignal): Promise<Listing>;
  /** Rejects with `McpFailure`. */
  call(
    server: string,
    tool: string,
    input: Record<string, unknown>,
    workspace: Workspace,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<McpAnswer>;
  /** Ends all connections, and resolves when they are gone. */
  end(): Promise<void>;
};

/** The configured servers. `settings` resolves to undefined if there is no server of that name. */
export type ServerSource = {
  names(): readonly string[];
  settings(name: string): Promise<McpServer | undefined>;
};

const mostStarts = 5;

export const createMcpConnections = (servers: ServerSource, life: AbortSignal): McpConnections => {
  const open = new Map<string, Promise<McpConnection>>();
  const failed = new Map<string, number>();

  const connection = async (server: string, workspace: Workspace, timeoutMs: number): Promise<McpConnection> => {
    const settings = await servers.settings(server);
    if (settings === undefined) throw new McpFailure("it is not configured any more");
    const key = `${server} ${workspace.root}`;
    const before = await open.get(key)?.catch(() => undefined);
    if (before !== undefined && !before.isOver()) return before;
    const failures = failed.get(key) ?? 0;
    if (failures >= mostStarts) throw new McpFailure(`it ended ${failures} times in this run and is not started again`);
    failed.set(key, failures + 1);
    const made = connectTo(server, settings, workspace, timeoutMs, life);
    open.set(key, made);
    return made;
  };

  return {
    names: () => servers.names(),
    async list(server, workspace, timeoutMs, signal) {
      try {
        return await (await connection(server, workspace, timeoutMs)).list(signal);
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof McpFailure) return { tools: [], problem: error.message };
        throw error;
      }
    },
    async call(server, tool, input, workspace, timeoutMs, signal) {
      return (await connection(server, workspace, timeoutMs)).call(tool, input, timeoutMs, signal);
    },
    async end() {
      const all = [...open.values()];
      open.clear();
      failed.clear();
      await Promise.all(all.map(async (made) => (await made.catch(() => undefined))?.close()));
    },
  };
};
