import { randomUUID } from "node:crypto";
import { join } from "node:path";
import type { Clock } from "../../clock.ts";
import type { Config } from "../../config/config.ts";
import type { Recorded } from "../../domain/event.ts";
import { guardLog, type Log } from "../../log.ts";
import { version } from "../../package-root.ts";
import type { Sandbox } from "../../process/sandbox/sandbox.ts";
import { createProcesses } from "../../process/service.ts";
import { createSecrets } from "../../redact.ts";
import { openData } from "../../store/open.ts";
import { redactStore } from "../../store/redacted-store.ts";
import { onCommit } from "../../webhook/service.ts";
import { removeTree } from "../../workspace/file/remove-tree.ts";
import { checkConfig } from "../config-check.ts";
import { secretsOf, secretsOfServer } from "../secret.ts";

/**
 * What the other rooms build on: log, data folder, sandbox and processes. Ends the processes that an earlier run left.
 */

export type Machine = Awaited<ReturnType<typeof openMachine>>;

export const openMachine = async (
  config: Config,
  openLog: Log,
  clock: Clock,
  findSandbox: (config: Config) => Promise<Sandbox>,
  scope: AsyncDisposableStack,
) => {
  const { dataDir, limits } = config;
  const allowed = checkConfig(config);
  const secrets = createSecrets(secretsOf(config));
  for (const [name, server] of Object.entries(config.mcpServers)) secrets.learn(`mcp-${name}`, secretsOfServer(server));
  const log = guardLog(openLog, secrets);
  // Trying the sandbox mostly means waiting for other processes, so the data is opened meanwhile.
  let trying: Promise<Sandbox> | undefined;
  const data = scope.use(
    await openData({ ...config, version, removeTree }, log, clock, () => {
      trying = findSandbox(config);
      trying.catch(() => {});
    }),
  );
  /** Receives the events of each commit; replaced by `onCommit` before anything is committed. */
  let heard = (_events: readonly Recorded[]): void => {};
  const store = onCommit(redactStore(data.store, secrets), (events) => heard(events));
  const sandbox = await (trying ?? findSandbox(config));
  const processes = createProcesses({
    folder: join(dataDir, "processes"),
    runID: dataDir,
    keepEnv: config.env,
    sandbox,
    envNames: config.sandbox.env,
    images: config.sandbox.containers ? { removeTree } : undefined,
    limits,
    full: (error) => data.disk.report(error),
    log,
  });
  scope.defer(() => processes.stop());
  scope.use(data.disk.onPause((pauses) => processes.hold(pauses)));
  const reaped = await processes.endLeftovers();
  for (const [task, pids] of reaped) log.warn({ task, pids }, "ended processes that an earlier run left");
  return {
    config,
    /** The targets that webhooks may have. */
    allowed,
    secrets,
    log,
    data,
    store,
    now: data.now,
    /** Identifies this start of the service. */
    worker: `${data.instance}/${randomUUID()}`,
    sandbox,
    processes,
    /** Calls `hear` with the events of each commit from now on. */
    onCommit: (hear: typeof heard): void => {
      heard = hear;
    },
  };
};
