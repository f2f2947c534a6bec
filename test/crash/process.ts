import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { built, compileCache } from "../harness/built.ts";
import { untilRoom } from "../harness/postgres.ts";
import { until } from "../harness/project.ts";

/** The service as a process of its own, to be killed. */
export type ServiceProcess = AsyncDisposable & {
  url: string;
  child: ChildProcess;
  /** Resolves when the process is gone. */
  gone: Promise<void>;
  kill(signal: NodeJS.Signals): Promise<void>;
  /** What is still in use after a collection. */
  heapMB(): Promise<number>;
};

const script = fileURLToPath(new URL("./child.ts", import.meta.url));

await built();

export const startProcess = async (env: Record<string, string>): Promise<ServiceProcess> => {
  await untilRoom(env);
  // A sixth of a start is collecting young objects in a space that begins at one megabyte.
  const child = spawn(process.execPath, ["--min-semi-space-size=8", script], {
    env: {
      PATH: process.env["PATH"] ?? "",
      NODE_NO_WARNINGS: "1",
      ...(process.env["TEST_LOG"] === undefined ? {} : { TEST_LOG: process.env["TEST_LOG"] }),
      ...compileCache,
      ...env,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let errors = "";
  child.stderr.on("data", (chunk: Buffer) => {
    errors += chunk.toString();
    if (process.env["TEST_LOG"] !== undefined) process.stderr.write(chunk);
  });
  const gone = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const url = await new Promise<string>((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (chunk: Buffer) => {
      text += chunk.toString();
      if (text.includes("\n")) resolve(text.split("\n")[0] ?? "");
    });
    child.once("exit", (code, signal) => reject(new Error(`The service ended with ${code ?? signal}: ${errors}`)));
  });
  const kill = async (signal: NodeJS.Signals) => {
    child.kill(signal);
    await gone;
  };
  return {
    url,
    child,
    gone,
    kill,
    heapMB: () =>
      new Promise((resolve, reject) => {
        child.once("exit", reject);
        child.stdout.once("data", (chunk: Buffer) => {
          child.off("exit", reject);
          resolve(Number(/^heap ([\d.]+)$/m.exec(chunk.toString())?.[1]));
        });
        child.kill("SIGUSR2");
      }),
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) await kill("SIGKILL");
    },
  };
};

/** Ids of living processes that a service over this data folder started. */
export const processesOf = (dataDir: string): number[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/environ`, "utf8").includes(`SERVICE_RUN_ID=${dataDir}`);
      } catch {
        return false;
      }
    })
    .map(Number);

/** A Task's sandbox is closed right after its end is on record; on a busy machine that takes a moment. */
export const nothingLeft = async (dataDir: string): Promise<void> => {
  await until(
    () => Promise.resolve(processesOf(dataDir)),
    (left) => left.length === 0,
    3_000,
  );
};
