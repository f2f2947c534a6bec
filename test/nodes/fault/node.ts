import { type ChildProcess, spawn } from "node:child_process";
import { appendFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { PostgresProxy } from "../../harness/double/postgres-proxy.ts";
import type { SmallDisk } from "../../harness/small-disk.ts";
import { untilRoom } from "../../harness/postgres.ts";
import { until } from "../../harness/project.ts";

/**
 * One node of three: `sortie serve` as operators start it, with a way of its own to the database and a clock that can
 * be set.
 */
export type FaultNode = AsyncDisposable & {
  name: string;
  dataDir: string;
  proxy: PostgresProxy;
  disk: SmallDisk | undefined;
  /** Where it listens; undefined while it is not there. */
  url(): string | undefined;
  start(): Promise<void>;
  /** Resolves once the process is gone. */
  end(signal: "SIGKILL" | "SIGTERM"): Promise<void>;
  signal(signal: NodeJS.Signals): void;
  /** Sets its clock so many milliseconds ahead. */
  setClock(ahead: number): void;
  /** What it said when it ended without being told to. */
  deaths: string[];
};

const script = fileURLToPath(new URL("../../../bin/sortie.js", import.meta.url));
const preload = (name: string) => ["--import", new URL(name, import.meta.url).href];

export const makeNode = (options: {
  name: string;
  dataDir: string;
  proxy: PostgresProxy;
  disk: SmallDisk | undefined;
  env: Record<string, string>;
  fenced: boolean;
}): FaultNode => {
  const { name, dataDir, proxy, disk, env, fenced } = options;
  const clockFile = `${env["SERVICE_CONFIG"]}.clock`;
  writeFileSync(clockFile, "0");
  let child: ChildProcess | undefined;
  let url: string | undefined;
  let told = false;
  const deaths: string[] = [];
  const isThere = () => child !== undefined && child.exitCode === null && child.signalCode === null;
  const node: FaultNode = {
    name,
    dataDir,
    proxy,
    disk,
    deaths,
    url: () => url,
    async start() {
      told = false;
      await untilRoom(env);
      const preloads = [...preload("./shift-clock.ts"), ...(fenced ? [] : preload("./no-fence.ts"))];
      const started = spawn(process.execPath, [...preloads, script, "serve"], {
        env: { PATH: process.env["PATH"] ?? "", NODE_NO_WARNINGS: "1", TEST_CLOCK_FILE: clockFile, ...env },
        stdio: ["ignore", "pipe", "pipe"],
      });
      child = started;
      let said = "";
      let errors = "";
      started.stdout.on("data", (chunk: Buffer) => (said += String(chunk)));
      started.stderr.on("data", (chunk: Buffer) => {
        errors = (errors + String(chunk)).slice(-4000);
        if (process.env["TEST_LOG"] !== undefined) appendFileSync(`${process.env["TEST_LOG"]}.${name}`, chunk);
      });
      started.once("exit", (code, signal) => {
        url = undefined;
        if (!told) deaths.push(`${name} ended with ${code ?? signal}: ${errors}`);
      });
      await until(
        () => Promise.resolve(/listening on (\S+)/.exec(said)?.[1]),
        (found) => found !== undefined || !isThere(),
        60_000,
      );
      if (!isThere()) return;
      url = /listening on (\S+)/.exec(said)?.[1];
    },
    async end(signal) {
      told = true;
      url = undefined;
      const ending = child;
      if (ending === undefined || !isThere()) return;
      const gone = new Promise((resolve) => ending.once("exit", resolve));
      ending.kill(signal);
      await gone;
    },
    signal: (signal) => void child?.kill(signal),
    setClock(ahead) {
      writeFileSync(clockFile, String(ahead));
      if (isThere()) child?.kill("SIGUSR1");
    },
    async [Symbol.asyncDispose]() {
      if (isThere()) child?.kill("SIGCONT");
      await node.end("SIGKILL");
    },
  };
  return node;
};
