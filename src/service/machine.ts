import { accessSync, constants, existsSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute } from "node:path";
import { rgPath } from "@vscode/ripgrep";
import type { Config } from "../config/config.ts";
import { messageOf } from "../error.ts";
import { findBrowser } from "../check/browser/find.ts";
import { findProgram, type Sandbox } from "../process/sandbox/sandbox.ts";
import { findContainer } from "../process/image/container.ts";
import { findEngine, inspectImage, type RunEngine } from "../process/image/engine.ts";
import { execute, tryList, programsMissingInside } from "../process/sandbox/self-test.ts";
import { findSandbox, type Trial } from "../process/sandbox/tier.ts";
import { secretNamed } from "../protocol/task/environment.ts";
import { problemOf } from "../repository/service.ts";
import { unusedMirrors } from "../repository/sweep.ts";
import { type Catalog, createCatalog } from "../squad/catalog/catalog.ts";
import { type Kept, removalFailuresIn } from "../workspace/worktree/removal-failure.ts";

/**
 * What the service finds on this machine for its configuration: the sandbox, squads, the browser, and worktrees and
 * mirrors that are left over. `sortie doctor` uses the same functions.
 */

export const sandboxOf = (config: Config, trial?: Trial): Promise<Sandbox> => {
  const { containers, image, ...asked } = config.sandbox;
  const machine = {
    path: config.env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin",
    home: config.env["HOME"] ?? homedir(),
    env: config.env,
    dataDir: config.dataDir,
    paths: asked.paths,
    tmpBytes: config.limits.commandTmpBytes,
    programs: { rg: rgPath },
  };
  const run: RunEngine = ([file = "", ...args], env) => execute([file, ...args], env, { timeout: engineMs });
  const container = (reference: string) => () =>
    findContainer({ ...machine, reference, network: asked.network ?? false, run });
  return findSandbox({
    ...asked,
    ...machine,
    ...(trial === undefined ? {} : { trial }),
    ...(containers && image !== undefined ? { container: container(image) } : {}),
  });
};

/** How long a container engine may take to answer, in milliseconds. */
const engineMs = 60_000;

export const catalogOf = ({ agents, mcpServers }: Config, dataDir: string | undefined): Catalog =>
  createCatalog({ dataDir, external: Object.keys(agents), servers: Object.keys(mcpServers) });

/** Why commands cannot be restricted to a list of hosts; undefined: they can. */
export const hostListProblem = async (sandbox: Sandbox, { env }: Pick<Config, "env">): Promise<string | undefined> => {
  const tried = await tryList(sandbox, env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin");
  return tried.ok ? undefined : tried.why;
};

/**
 * Settings of environments and secrets that this machine cannot meet, as far as can be told without running anything.
 */
export const environmentProblems = (
  { environments, secretStore, env }: Pick<Config, "environments" | "secretStore" | "env">,
  lists: string | undefined,
): { setting: string; problem: string }[] => [
  ...Object.entries(secretStore).flatMap(([name, source]) => {
    const problem = sourceProblem(source, env);
    return problem === undefined ? [] : [{ setting: `secretStore.${name}`, problem }];
  }),
  ...Object.entries(environments).flatMap(([project, { network, setupNetwork }]) => {
    const setting = `environments.${project}`;
    const missing =
      project.startsWith("/") && !existsSync(project) ? [{ setting, problem: "there is no such folder" }] : [];
    const listed = [network, setupNetwork].some((wanted) => typeof wanted === "object");
    return listed && lists !== undefined
      ? [...missing, { setting, problem: `commands cannot be kept to a list of hosts here: ${lists}` }]
      : missing;
  }),
];

const sourceProblem = (source: Config["secretStore"][string], env: Config["env"]): string | undefined => {
  if (typeof source === "object") {
    const [command = ""] = source.command;
    const found = command.includes("/") ? isProgram(command) : findProgram(command, env["PATH"] ?? "") !== undefined;
    return found ? undefined : `${command} is not installed`;
  }
  if (source.startsWith("env:"))
    return (env[source.slice(4)] ?? "") === "" ? `${source.slice(4)} is not set` : undefined;
  try {
    accessSync(source.slice("file:".length), constants.R_OK);
    return undefined;
  } catch {
    return `${source.slice("file:".length)} cannot be read`;
  }
};

/** Which container engine has the images that projects' commands may run in, and which images are missing there. */
export const imagesOn = async (
  { environments, env }: Pick<Config, "environments" | "env">,
  tier: Sandbox["tier"],
): Promise<{ engine: string; problem: string | undefined; missing: { setting: string; problem: string }[] }> => {
  if (tier !== 1)
    return { engine: "", problem: `images take bubblewrap (tier 1), and this is tier ${tier}`, missing: [] };
  const engine = await findEngine(env, execute);
  if ("why" in engine) return { engine: "", problem: engine.why, missing: [] };
  const wanted = Object.entries(environments).flatMap(([project, { image }]) =>
    image === undefined ? [] : [{ setting: `environments.${project}.image`, image }],
  );
  const found = await Promise.all(
    wanted.map(async ({ setting, image }) => {
      const inspected = await inspectImage(engine, image, env, execute);
      return "why" in inspected ? [{ setting, problem: inspected.why }] : [];
    }),
  );
  return { engine: `${engine.name} (${engine.file})`, problem: undefined, missing: found.flat() };
};

/**
 * Each MCP server and what this machine lacks to run it, as far as can be told without starting it. `programs`: the
 * programs in the image, when the sandbox is a container.
 */
export const mcpServersOn = (
  { mcpServers, env }: Pick<Config, "mcpServers" | "env">,
  programs: ReadonlySet<string> | undefined,
) =>
  Object.entries(mcpServers).map(([name, server]) => {
    if (server.kind === "http") return { name, kind: server.kind, problem: null };
    const { command } = server;
    // Whether the image has a file at this path shows only when the server is started.
    if (programs !== undefined) {
      const found = command.includes("/") || programs.has(command);
      return { name, kind: server.kind, problem: found ? null : `${command} is not in the image of the sandbox` };
    }
    return { name, kind: server.kind, problem: isInstalled(command, env) ? null : `${command} is not installed` };
  });

/** A relative path counts as installed: it lies in the project, and is looked up when the server starts there. */
const isInstalled = (command: string, env: Config["env"]): boolean =>
  command.includes("/")
    ? !isAbsolute(command) || isProgram(command)
    : findProgram(command, env["PATH"] ?? "") !== undefined;

/** The programs of MCP servers that are installed on this machine but that commands in the sandbox cannot read. */
export const unseenServers = (sandbox: Sandbox, { mcpServers, env }: Pick<Config, "mcpServers" | "env">) => {
  const programs = Object.values(mcpServers).flatMap((server) => (server.kind === "stdio" ? [server.command] : []));
  const wanted = programs.filter((command) => !(command.includes("/") && !isAbsolute(command)));
  return programsMissingInside(sandbox, env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin", [...new Set(wanted)]);
};

const isProgram = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};

/** Asks an MCP server with a URL for its tools. Resolves to their number, or to the reason why it is unknown. */
export const askMcpServer = async (
  name: string,
  server: Config["mcpServers"][string] & { kind: "http" },
): Promise<number | string> => {
  const { connectTo } = await import("../tool/mcp/connection.ts");
  const signal = new AbortController().signal;
  try {
    const startInteractive = () => Promise.reject(new Error("an MCP server reached by its address has no program"));
    if (Object.values(server.headers).some((value) => secretNamed(value) !== undefined))
      return "not asked: it is sent a secret, which is read when a Task needs it";
    const connection = await connectTo(name, server, { startInteractive }, askedMs, signal);
    const { tools } = await connection.list(signal);
    await connection.close();
    return tools.length;
  } catch (error) {
    return messageOf(error);
  }
};

const askedMs = 5000;

export const browserOf = (config: Config): string | undefined => findBrowser(config.browser, config.env["PATH"] ?? "");

/** The problem in the settings `repositories`, in words for the operator; undefined: there is none. */
export const repositoryProblem = ({ repositories, env }: Config): string | undefined => problemOf(repositories, env);

/** Addresses of repositories whose mirror is still kept although nobody has used it for `repositories.mirrorDays`. */
export const oldMirrors = ({ dataDir, repositories }: Config): string[] =>
  unusedMirrors(dataDir, repositories.mirrorDays, new Date()).map(({ url }) => url);

export const keptWorktrees = ({ dataDir }: Config): Kept[] => removalFailuresIn(dataDir);
