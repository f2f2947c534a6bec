import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporary, until } from "../harness/project.ts";

/** What runs under npm, and what a fault that is not handled does to the process. */

const root = fileURLToPath(new URL("../..", import.meta.url));

const alive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

type Started = { pid: number; url: string; said: () => string; exited: () => number | null | undefined };

const begin = async (folder: string, file: string, args: string[], env: NodeJS.ProcessEnv = {}): Promise<Started> => {
  const child = spawn(file, args, {
    cwd: root,
    env: { PATH: process.env["PATH"], HOME: folder, SERVICE_DATA_DIR: join(folder, "data"), SERVICE_PORT: "0", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  let exited: number | null | undefined;
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said += String(chunk)));
  child.once("exit", (code) => (exited = code));
  const url = await until(
    () => Promise.resolve(/listening on (\S+)/.exec(said)?.[1]),
    (found) => found !== undefined || exited !== undefined,
  );
  if (url === undefined) throw new Error(`Expected the service to listen, got: ${said}`);
  return { pid: child.pid ?? 0, url, said: () => said, exited: () => exited };
};

const serviceBelow = async (parent: number): Promise<number> => {
  const { execFileSync } = await import("node:child_process");
  const rows = execFileSync("ps", ["-eo", "pid=,ppid=,args="], { encoding: "utf8" }).split("\n");
  const row = rows.map((line) => line.trim().split(/\s+/)).find(([, ppid]) => Number(ppid) === parent);
  return Number(row?.[0] ?? 0);
};

test.each(["SIGTERM", "SIGINT", "SIGKILL"] as const)("npm start: %s for npm ends the service, too", async (signal) => {
  using folder = temporary();
  // As `npm start` runs it, without the build before it.
  const { pid } = await begin(folder.path, "npm", ["start", "--ignore-scripts"]);
  const service = await serviceBelow(pid);
  expect(alive(service)).toBe(true);
  process.kill(pid, signal);
  await until(
    () => Promise.resolve(alive(service)),
    (lives) => !lives,
  );
});

const stray =
  "data:text/javascript,process.on('SIGUSR2',()=>{Promise.reject(new Error('stray'))}).on('SIGALRM',()=>{throw new Error('thrown')})";

test("a rejection that nobody handled is logged with its stack and counted, and the service goes on, unhealthy; an exception ends it with 1", async () => {
  using folder = temporary();
  const service = await begin(folder.path, process.execPath, ["--import", stray, "bin/sortie.js", "serve"]);
  const health = async () =>
    (await (await fetch(`${service.url}/health`)).json()) as { healthy: boolean; faults: number };
  expect(await health()).toMatchObject({ healthy: true, faults: 0 });
  process.kill(service.pid, "SIGUSR2");
  expect(await until(health, ({ faults }) => faults > 0)).toMatchObject({ healthy: false, faults: 1 });
  // It is counted before the line has come through the pipe.
  await until(
    () => Promise.resolve(service.said()),
    (said) => /stray.*unhandled error/s.test(said),
  );
  // The control: what was thrown and nobody caught ends it.
  process.kill(service.pid, "SIGALRM");
  await until(
    () => Promise.resolve(service.exited()),
    (code) => code === 1,
  );
});

test("control: such a rejection ends a process that does not look after it", async () => {
  const child = spawn(process.execPath, ["-e", "Promise.reject(new Error('stray')); setTimeout(() => {}, 60000)"]);
  const code = await new Promise((resolve) => child.once("exit", resolve));
  expect(code).toBe(1);
});
