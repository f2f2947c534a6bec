import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { clock } from "./worker.ts";

/** Processes that listen: the compiled service as operators start it, and what it is compared with. */

export type Listener = AsyncDisposable & {
  url: string;
  child: ChildProcess;
  /** From the start of the process to its first answer of 200, in ms. */
  coldMs: number;
  kill(signal: NodeJS.Signals): Promise<void>;
};

const root = fileURLToPath(new URL("..", import.meta.url));

export type ServiceOptions = {
  dataDir: string;
  baseURL: string;
  env?: Record<string, string>;
  nodeArgs?: string[];
  /** More of config.jsonc. */
  config?: object;
  /** The checkout whose service it is; this one by default. */
  checkout?: string;
};

export const startService = ({
  dataDir,
  baseURL,
  env = {},
  nodeArgs = [],
  config: more = {},
  checkout = root,
}: ServiceOptions): Promise<Listener> => {
  mkdirSync(dataDir, { recursive: true });
  const config = join(dataDir, "config.jsonc");
  const providers = { mock: { kind: "openai-compatible", baseURL, apiKey: "none" } };
  writeFileSync(config, JSON.stringify({ model: "mock/large", providers, ...more }));
  return startListener([...nodeArgs, join(checkout, "bin/sortie.js"), "serve"], `${dataDir}.log`, "/health", {
    HOME: dataDir,
    SERVICE_DATA_DIR: dataDir,
    SERVICE_CONFIG: config,
    SERVICE_PORT: "0",
    ...env,
  });
};

const hello = `
  const text = JSON.stringify({ hello: "world", id: "task_01", status: "running", at: "2026-01-01T00:00:00.000Z" });
  const server = require("node:http").createServer((incoming, outgoing) => {
    outgoing.writeHead(200, { "content-type": "application/json", "content-length": text.length }).end(text);
  });
  server.listen(0, "127.0.0.1", () => console.log("http://127.0.0.1:" + server.address().port));
`;

/** The smallest server that Node can be. */
export const startHello = (folder: string): Promise<Listener> =>
  startListener(["-e", hello], join(folder, "hello.log"), "/", {});

const startListener = async (
  args: string[],
  logFile: string,
  path: string,
  env: Record<string, string>,
): Promise<Listener> => {
  const log = openSync(logFile, "w");
  const begun = clock();
  const child = spawn(process.execPath, args, {
    env: { PATH: process.env["PATH"] ?? "", NODE_NO_WARNINGS: "1", ...env },
    stdio: ["ignore", "pipe", log],
  });
  closeSync(log);
  const gone = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const kill = async (signal: NodeJS.Signals) => {
    child.kill(signal);
    await gone;
  };
  const url = await new Promise<string>((resolve, reject) => {
    let text = "";
    child.stdout?.on("data", (chunk: Buffer) => {
      text += chunk.toString();
      const [found] = /http:\/\/127\.0\.0\.1:\d+/.exec(text) ?? [];
      if (found !== undefined) resolve(found);
    });
    child.once("exit", () => reject(new Error(`It ended before it listened: ${text}${readFileSync(logFile, "utf8")}`)));
  });
  const { status } = await fetch(`${url}${path}`);
  const coldMs = clock() - begun;
  if (status !== 200) throw new Error(`Expected 200 from ${url}${path}, got ${status}`);
  return {
    url,
    child,
    coldMs,
    kill,
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) await kill("SIGKILL");
    },
  };
};

/** Resident memory of a process, MB. */
export const residentMB = (pid: number | undefined): number => {
  const [, kB = "0"] = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return (Number(kB) * 1024) / 1e6;
};

/** Processor time of a process so far, of all its threads; the kernel counts in steps of 10 ms. */
export const processorMs = (pid: number | undefined): number => {
  const text = readFileSync(`/proc/${pid}/stat`, "latin1");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return 10 * (Number(fields[11]) + Number(fields[12]));
};
