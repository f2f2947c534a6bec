import type { Config } from "../config/config.ts";
import type { Engine } from "../engine/engine.ts";
import { createLocalEngine, type LocalEngineOptions } from "../engine/in-process.ts";
import type { Data } from "../store/open.ts";

/** The engine that the configuration names. The library of the DBOS engine is loaded only when that engine is used. */

const hourMs = 3_600_000;

type Wanted = Pick<Config, "engine" | "databaseURL" | "databaseDirectURL" | "role" | "maxRunning">;

export const engineOf = async (
  { engine, databaseURL, databaseDirectURL = databaseURL, role, maxRunning }: Wanted,
  { store, member, now }: Pick<Data, "store" | "member" | "now">,
  log: LocalEngineOptions["log"],
): Promise<Engine> => {
  // Runs nothing; the other nodes are told of what it makes due.
  if (role === "api") return createLocalEngine({ store, maxRunning: 0, log, now });
  // With several nodes it looks every second, because the hint that another node has made something due may be lost.
  const options = { store, maxRunning, log, now, ...(member === undefined ? {} : { reconcileMs: 1_000 }) };
  if (engine === "local" || databaseDirectURL === undefined || member === undefined) return createLocalEngine(options);
  const { createDbosEngine } = await import("../engine/dbos/engine.ts");
  const living = async () => {
    const since = now().getTime() - hourMs;
    return (await member.nodes()).flatMap(({ name, seenAt }) => (Date.parse(seenAt) > since ? [name] : []));
  };
  return createDbosEngine({ ...options, url: databaseDirectURL, node: member.name, living });
};
