import { loadConfig } from "../../src/config.ts";
import { createLog, silent } from "../../src/log.ts";
import { createService } from "../../src/service.ts";

/**
 * A service process that kills itself (SIGKILL) right after it committed the event of a given version, if one is
 * given. Prints its URL on one line when it listens.
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
process.stdout.write(`${service.url}\n`);
