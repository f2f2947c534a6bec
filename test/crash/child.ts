import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { flushCompileCache } from "node:module";
import { loadConfig } from "../../src/config.ts";
import { createLog, silent } from "../../src/log.ts";
import { createService } from "../../src/service.ts";

/**
 * A service process that kills itself (SIGKILL) right after it committed the event of a given version, if one is
 * given. Prints its URL on one line when it listens, and on SIGUSR2 `heap` with the megabytes that are still in use
 * after a collection.
 */
const killAt = Number(process.env["TEST_KILL_AT"] ?? 0);
const service = await createService(
  loadConfig({ port: 0 }),
  process.env["TEST_LOG"] === undefined ? silent : createLog("debug"),
  (events) => {
    if (events.some(({ version }) => version === killAt)) process.kill(process.pid, "SIGKILL");
  },
);
process.on("SIGTERM", () => void service.close().then(() => process.exit(0)));
process.on("SIGUSR2", () => {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
  process.stdout.write(`heap ${process.memoryUsage().heapUsed / 1e6}\n`);
});
process.stdout.write(`${service.url}\n`);
// Most of them do not live to write it at their end.
flushCompileCache();
