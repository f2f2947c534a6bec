import type { Config } from "../config/config.ts";
import { StartError } from "../error.ts";
import { createIntake, type IntakeDeps } from "../forge/intake.ts";
import { listenForForges } from "../forge/listen.ts";
import { type EventEntry, parseEvents } from "../forge/settings.ts";
import { parseAddress } from "../repository/address.ts";

/** The configured entries for events of forges; empty when no port is set for them. */
export const eventsOf = (config: Config, { network }: { network: boolean }): EventEntry[] => {
  const { configPath, repositories, forgePort, env, web, sandbox } = config;
  if (forgePort === undefined) return [];
  if (repositories.events.length === 0)
    throw new StartError(78, `${configPath}: SERVICE_FORGE_PORT is set: expected repositories.events, got none.`);
  const entries = parseEvents(repositories.events, env, { network, env: sandbox.env, web: web.fetch });
  if (typeof entries === "string") throw new StartError(78, `${configPath}: repositories.${entries}.`);
  return entries;
};

/** The page's address in the first entry that matches a repository. */
export const pageOf = (entries: readonly EventEntry[], url: string): string | undefined =>
  entries.find(({ pattern }) => pattern.matches(parseAddress(url)))?.page;

/** Listens for events of forges on the configured port; undefined: no port is set. */
export const openForgeListener = async (
  { host, forgePort }: Config,
  entries: readonly EventEntry[],
  deps: IntakeDeps,
): Promise<(AsyncDisposable & { port: number }) | undefined> => {
  if (forgePort === undefined) return undefined;
  const forges = await listenForForges({ entries, take: createIntake(deps), log: deps.log }, { host, port: forgePort });
  deps.log.info({ port: forges.port }, "listening for events of forges");
  return { port: forges.port, [Symbol.asyncDispose]: () => forges.close() };
};
