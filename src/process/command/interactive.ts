import type { ChildProcess } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import type { InteractiveProcess } from "../process.ts";
import { type Descriptor, spawnForTask } from "../sandbox/spawn.ts";
import { killGroup, wait } from "./kill.ts";
import type { Lifeline } from "./lifeline.ts";

/** A command that the service exchanges messages with over standard input and output, for as long as it lives. */

const stderrBytes = 8 * 1024;

/** How long a program may take to end by itself after its line is cut, in milliseconds. */
const cutMs = 10_000;

/** How long its pipes may stay open after all of its processes are gone, in milliseconds. */
const lastDrainMs = 500;

type Streamed = ChildProcess & { stdin: Writable; stdout: Readable; stderr: Readable };

/** When too many files are open, a process that did not start has no streams either. */
const hasStreams = (child: ChildProcess): child is Streamed => Boolean(child.stdin && child.stdout && child.stderr);

/**
 * Starts the command in its own process group. `line`: what ends the program where killing the process group would kill
 * only the engine's client. `ended` is called once the group is gone.
 */
export const startInteractive = (
  start: {
    file: string;
    args: string[];
    cwd: string;
    env: Record<string, string>;
    line?: Lifeline | undefined;
  } & Descriptor,
  root: string,
  signal: AbortSignal,
  hooks: { started(pid: number): void; ended(pid: number | undefined): Promise<void> },
): InteractiveProcess => {
  const { file, args, cwd, env, filter, markFile, line } = start;
  const child = spawnForTask(
    file,
    args,
    { cwd, env, detached: true, stdio: ["pipe", "pipe", "pipe"] },
    { filter, markFile },
  );
  if (!hasStreams(child)) {
    // The error event says nothing beyond the error thrown below.
    child.once("error", () => {});
    throw new Error(`Expected ${file} to start, got no descriptors for its input and output`);
  }
  const { pid } = child;
  if (pid !== undefined) hooks.started(pid);
  const end = () => {
    if (pid !== undefined) killGroup(pid);
  };
  const kill = () => {
    if (line === undefined) end();
    else {
      line.cut();
      setTimeout(end, cutMs).unref();
    }
  };
  signal.addEventListener("abort", kill, { once: true });
  let tail = "";
  child.stderr.on("data", (chunk: Buffer) => {
    tail = `${tail}${chunk.toString("utf8")}`.slice(-stderrBytes);
  });
  // A broken pipe is noticed by the end of the program's output.
  child.stdin.on("error", () => {});
  const { promise: gone, resolve } = Promise.withResolvers<void>();
  const { promise: closed, resolve: close } = Promise.withResolvers<void>();
  child.once("close", close);
  const ended = () => {
    signal.removeEventListener("abort", kill);
    void hooks
      .ended(pid)
      .then(() => Promise.race([closed, wait(lastDrainMs)]))
      .finally(resolve);
  };
  child.once("error", (error) => {
    tail = `${tail}${error.message}`;
    if (pid === undefined) ended();
  });
  child.once("exit", () => {
    line?.cut();
    end();
    ended();
  });
  if (signal.aborted) kill();
  return { stdin: child.stdin, stdout: child.stdout, stderr: () => tail, root, kill, gone };
};
