import type { DomainEvent } from "../../domain/event.ts";
import type { TaskState } from "../../domain/state/task.ts";
import { messageOf } from "../../error.ts";
import { secretNamed } from "../../protocol/task/environment.ts";
import { keepText, loadJSON } from "../../store/blob/text.ts";
import type { ServerSource } from "../../tool/mcp/connections.ts";
import { requestedServer, expandVariables, projectFile, parseRequestedServers } from "../../tool/mcp/project-file.ts";
import { McpFailure, type McpServer } from "../../tool/mcp/server.ts";
import type { RunDeps } from "../run.ts";
import { type ProjectFile, readProjectFile } from "./project-request.ts";

/**
 * The MCP servers that a project asks for. The file is read from the user's directory before any agent works, and has
 * an effect only if the operator has granted exactly this file. The operator's own servers take precedence.
 */

/** Whether the file is to be read: when a conversation begins, and at each new attempt until the file is granted. */
export const readsServers = ({ projectServers, reply, attemptStartedAt }: TaskState): boolean =>
  projectServers === null ? reply === null : !projectServers.granted && attemptStartedAt === null;

export const readServers = async (
  { store, granted }: Pick<RunDeps, "store" | "granted">,
  { directory, project, projectServers: before }: TaskState,
): Promise<DomainEvent[]> => {
  let found: ProjectFile | undefined;
  try {
    found = await readProjectFile(directory, projectFile);
  } catch (error) {
    return [event("", false, {}, { "": messageOf(error) }, "{}")];
  }
  if (found === undefined) return [];
  const { digest, text } = found;
  const isGranted = granted(project, digest, projectFile);
  if (before?.digest === digest && before.granted === isGranted) return [];
  const { servers, problems } = parseRequestedServers(text);
  return [event(digest, isGranted, servers, problems, await keepText(store.blobs, JSON.stringify(servers)))];
};

type Data = (DomainEvent & { type: "mcp.asked" })["data"];

const event = (
  digest: string,
  isGranted: boolean,
  servers: object,
  problems: Record<string, string>,
  text: Data["servers"],
): DomainEvent => ({
  type: "mcp.asked",
  data: { file: projectFile, digest, granted: isGranted, names: Object.keys(servers), servers: text, problems },
});

/** All servers that a Task may use. */
export const serversOf = (
  { store, mcpServers, variable, environments }: Pick<RunDeps, "store" | "mcpServers" | "variable" | "environments">,
  state: () => TaskState,
): ServerSource => {
  const asked = (): Pick<Data, "names" | "servers"> => {
    const { projectServers: found } = state();
    return found?.granted === true ? found : { names: [], servers: "{}" };
  };
  return {
    names: () => [...new Set([...Object.keys(mcpServers), ...asked().names])].toSorted(),
    async settings(name) {
      const own = Object.hasOwn(mcpServers, name) ? mcpServers[name] : undefined;
      if (own !== undefined) return withSecrets(own, environments);
      if (!asked().names.includes(name)) return undefined;
      const kept = (await loadJSON(store.blobs, asked().servers)) as Record<string, unknown> | undefined;
      const read = requestedServer.safeParse(kept?.[name]);
      return read.success ? settingsOf(read.data, variable) : undefined;
    },
  };
};

/** Fills in the values of the secrets that a server's settings name, when the server is started. */
const withSecrets = async (server: McpServer, environments: RunDeps["environments"]): Promise<McpServer> => {
  const filled = async (values: Readonly<Record<string, string>>): Promise<Record<string, string>> => {
    const named = Object.entries(values).flatMap(([key, value]) => {
      const name = secretNamed(value);
      return name === undefined ? [] : [{ key, name }];
    });
    const known = await environments.secrets(named.map(({ name }) => name)).catch((error: unknown) => {
      throw new McpFailure(messageOf(error));
    });
    return { ...values, ...Object.fromEntries(named.map(({ key, name }) => [key, known[name] ?? ""])) };
  };
  return server.kind === "stdio"
    ? { ...server, env: await filled(server.env) }
    : { ...server, headers: await filled(server.headers) };
};

const settingsOf = (server: ReturnType<typeof requestedServer.parse>, variable: RunDeps["variable"]): McpServer => {
  if ("command" in server) return { kind: "stdio", ...server, network: false };
  const headers = Object.entries(server.headers).map(([name, text]): [string, string] => {
    const value = expandVariables(text, variable);
    if (value === undefined) throw new McpFailure(`its header ${name} names a variable that the service does not have`);
    return [name, value];
  });
  return { kind: "http", url: server.url, headers: Object.fromEntries(headers) };
};
