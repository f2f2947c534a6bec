import type { Clock } from "../../src/clock.ts";
import { loadConfig } from "../../src/config/config.ts";
import { createLog, type Log, silent } from "../../src/log.ts";
import { createService, type Service } from "../../src/service/service.ts";

/** A real service on a real port over a data folder of the test's. */

export type TestService = AsyncDisposable & Service & { dataDir: string };

/** Starts a service with an empty environment but for PATH and what is given. */
export const startService = async (
  dataDir: string,
  env: Record<string, string> = {},
  clock?: Clock,
  log: Log = process.env["TEST_LOG"] === undefined ? silent : createLog("debug"),
): Promise<TestService> => {
  const config = loadConfig({ port: 0, dataDir }, { PATH: process.env["PATH"] ?? "", HOME: dataDir, ...env });
  const service = await createService(config, log, undefined, clock);
  return { ...service, dataDir, [Symbol.asyncDispose]: () => service.close() };
};
