import { basename } from "node:path";
import type { Config } from "../../config/config.ts";
import { bad, type Finding, note, ok } from "../terminal/finding.ts";
import { line } from "../terminal/format.ts";

/**
 * The checks of `sortie doctor` on MCP servers: missing programs, and addresses that do not answer. No server is
 * started.
 */

/** `lists`: why programs cannot be restricted to a list of hosts; undefined: they can. */
export const checkMcpServers = async (
  config: Config,
  programs: ReadonlySet<string> | undefined,
  unseen: readonly string[],
  lists: string | undefined,
): Promise<Finding[]> => {
  if (Object.keys(config.mcpServers).length === 0) return [];
  const { askMcpServer, mcpServersOn } = await import("../../service/machine.ts");
  return Promise.all(
    mcpServersOn(config, programs).map(async ({ name, problem }): Promise<Finding> => {
      const label = `MCP ${name}`;
      if (problem !== null)
        return bad(label, problem, "Install it where the service runs, or correct mcpServers in config.jsonc.");
      const server = config.mcpServers[name];
      if (server?.kind !== "http") return installed(label, server, unseen, lists);
      const answer = await askMcpServer(name, server);
      return typeof answer === "number"
        ? ok(label, `${server.url} answers with ${answer} ${answer === 1 ? "tool" : "tools"}`)
        : note(label, `${server.url}: ${line(answer, 300)}`, "Until then, Tasks run without its tools.");
    }),
  );
};

/** The finding for a program that is installed, with anything that may keep it from working inside the sandbox. */
const installed = (
  label: string,
  server: Program | undefined,
  unseen: readonly string[],
  lists: string | undefined,
): Finding => {
  const { command = "", args = [], network = false } = server ?? {};
  if (typeof network === "object" && lists !== undefined)
    return bad(
      label,
      `${command} cannot be kept to a list of hosts here: ${lists}`,
      'Give it "none" or "all" as its `network` in config.jsonc. Until then, Tasks run without its tools.',
    );
  if (unseen.includes(command))
    return note(
      label,
      `${command} is installed, and commands cannot read it`,
      "Add its folder to `sandbox.paths` in config.jsonc. Until then, Tasks run without its tools.",
    );
  if (network === false && fetches(command, args))
    return note(
      label,
      `${command} fetches packages, and has no network here`,
      "Install the package and name its program, or list the registry's hosts in `network`.",
    );
  return ok(label, `${command}, installed`);
};

type Program = Config["mcpServers"][string] & { kind: "stdio" };

/** Programs that fetch a package and run it: undefined means always, a list means only with these first words. */
const fetchers: Record<string, readonly string[] | undefined> = {
  npx: undefined,
  pnpx: undefined,
  bunx: undefined,
  uvx: undefined,
  npm: ["exec", "x"],
  pnpm: ["dlx"],
  yarn: ["dlx"],
  bun: ["x"],
  pipx: ["run"],
};

const fetches = (command: string, args: readonly string[]): boolean => {
  const name = basename(command);
  return Object.hasOwn(fetchers, name) && (fetchers[name]?.includes(args[0] ?? "") ?? true);
};
