import { readFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { ServerResponse } from "node:http";
import { runInNewContext } from "node:vm";
import { flushCompileCache } from "node:module";
import { createClock } from "../../src/clock.ts";
import type { Leak } from "./leak.ts";
import { watchPoints } from "./whole/points.ts";

/**
 * A service process that kills itself (SIGKILL) right after it committed the event of a given version, if one is given.
 * Prints its URL on one line when it listens, and on SIGUSR2 `heap` with the megabytes that are still in use after a
 * collection. With TEST_KILL_ANSWER it ends itself before the answer to a request for that path. After SIGHUP each Task
 * that ends leaves what TEST_LEAK names, so large. At SIGALRM an hour passes by its clock; with TEST_CLOCK, a file,
 * that many milliseconds have passed from the start on, and it is read again then.
 */
// Before the service takes hold of the functions that are watched.
const atPoints = await watchPoints({
  kill: process.env["TEST_KILL_POINT"],
  quiet: process.env["TEST_QUIET"],
  list: process.env["TEST_POINTS"],
  root: process.env["TEST_ROOT"],
});
const built = new URL("../../dist/index.js", import.meta.url).href;
const { createLog, createService, loadConfig, silent } = (await import(built)) as typeof import("../../src/index.ts");
const killAt = Number(process.env["TEST_KILL_AT"] ?? 0);
/** The same by place in the whole log (`120`), or by type and count (`task.ended:2`). */
const killOn = process.env["TEST_KILL_ON"] ?? "";
const [killType = "", killCount = "1"] = killOn.split(":");
let seen = 0;
const killAnswer = process.env["TEST_KILL_ANSWER"];
if (killAnswer !== undefined) {
  const end = Reflect.get(ServerResponse.prototype, "end") as (...sent: unknown[]) => ServerResponse;
  ServerResponse.prototype.end = function (this: ServerResponse, ...sent: unknown[]) {
    if (this.req.url === killAnswer) process.kill(process.pid, "SIGKILL");
    return Reflect.apply(end, this, sent);
  };
}
let leak: (() => void) | undefined;
const startToLeak = async (): Promise<void> => {
  const { leakOf } = await import("./leak.ts");
  const { TEST_LEAK: kinds = "heap", TEST_LEAK_KB: kB = "9", SERVICE_DATA_DIR: dataDir = "" } = process.env;
  leak = leakOf(kinds.split(",") as Leak[], Number(kB), dataDir);
};
process.on("SIGHUP", () => void startToLeak());
const clock = createClock();
const clockFile = process.env["TEST_CLOCK"];
const skippedInFile = (): number | undefined =>
  clockFile === undefined ? undefined : Number(readFileSync(clockFile, "utf8"));
let skipped = skippedInFile() ?? 0;
process.on("SIGALRM", () => (skipped = skippedInFile() ?? skipped + 3_600_000));
const service = await createService(
  loadConfig({ port: 0 }),
  process.env["TEST_LOG"] === undefined ? silent : createLog("debug"),
  (events) => {
    atPoints(Math.max(...events.map(({ position }) => position)));
    if (events.some(({ version }) => version === killAt)) process.kill(process.pid, "SIGKILL");
    for (const { type } of events) if (type === "task.settled") leak?.();
    if (killOn === "") return;
    seen += events.filter(({ type }) => type === killType).length;
    const there = /^\d+$/.test(killOn)
      ? events.some(({ position }) => position >= Number(killOn))
      : seen >= Number(killCount);
    if (there) process.kill(process.pid, "SIGKILL");
  },
  () => new Date(clock().getTime() + skipped),
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
