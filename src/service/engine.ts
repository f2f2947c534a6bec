import type { Config } from "../config/config.ts";
import type { Engine } from "../engine/engine.ts";
import { createLocalEngine, type LocalEngineOptions } from "../engine/in-process.ts";
import type { Data } from "../store/open.ts";

/** The engine that the configuration names. The one that needs a library is loaded only then. */

const hourMs = 3_600_000;

type Wanted = Pick<Config, "engine" | "databaseURL" | "databaseDirectURL" | "role" | "maxRunning">;

export const engineOf = async (
  { engine, databaseURL, databaseDirectURL = databaseURL, role, maxRunning }: Wanted,
  { store, member, now }: Pick<Data, "store" | "member" | "now">,
  log: LocalEngineOptions["log"],
): Promise<Engine> => {
  // It runs nothing; what it makes due is told to the others.
  if (role === "api") return createLocalEngine({ store, maxRunning: 0, log, now });
  // What another node makes due is heard of at once, or found by looking.
  const options = { store, maxRunning, log, now, ...(member === undefined ? {} : { reconcileMs: 1_000 }) };
  if (engine === "local" || databaseDirectURL === undefined || member === undefined) return createLocalEngine(options);
  const { createDbosEngine } = await import("../engine/dbos/engine.ts");
  const living = async () => {
    const since = now().getTime() - hourMs;
    return (await member.nodes()).flatMap(({ name, seenAt }) => (Date.parse(seenAt) > since ? [name] : []));
  };
  return createDbosEngine({ ...options, url: databaseDirectURL, node: member.name, living });
};
