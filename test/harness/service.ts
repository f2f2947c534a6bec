import type { Clock } from "../../src/clock.ts";
import { loadConfig } from "../../src/config/config.ts";
import { createLog, type Log, silent } from "../../src/log.ts";
import { type Trial, tryNow } from "../../src/process/sandbox/tier.ts";
import { sandboxOf } from "../../src/service/machine.ts";
import { createService, type Service } from "../../src/service/service.ts";
import { untilRoom } from "./postgres.ts";

/** A real service on a real port over a data folder of the test's. */

export type TestService = AsyncDisposable & Service & { dataDir: string };

/** Starts a service with an empty environment but for PATH and what is given. */
export const startService = async (
  dataDir: string,
  env: Record<string, string> = {},
  clock?: Clock,
  log: Log = process.env["TEST_LOG"] === undefined ? silent : createLog("debug"),
): Promise<TestService> => {
  await untilRoom(env);
  const config = loadConfig({ port: 0, dataDir }, { PATH: process.env["PATH"] ?? "", HOME: dataDir, ...env });
  const service = await createService(config, log, undefined, clock, () => sandboxOf(config, triedOnce(dataDir)));
  return { ...service, dataDir, [Symbol.asyncDispose]: () => service.close() };
};

const passed = new Map<string, ReturnType<Trial>>();

/**
 * Of sandboxes that are opened by the same command line but for the data folder, the first is tried: trying one takes a
 * third of the processor time of a start.
 */
const triedOnce =
  (dataDir: string): Trial =>
  async (bwrap, sandbox, path) => {
    const place = { tree: "/", at: "/", under: () => [], over: () => [] };
    const argv = sandbox.wrap?.({ place, folder: "/", cwd: "/", command: () => [] });
    const key = JSON.stringify([path, argv]).replaceAll(dataDir, "");
    const known = passed.get(key);
    if (known !== undefined) return known;
    const result = tryNow(bwrap, sandbox, path);
    const [, { ok, unfiltered }] = await result;
    if (ok && unfiltered === undefined) passed.set(key, result);
    return result;
  };
