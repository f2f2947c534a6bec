import { type ChildProcess, spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { createReader, type Frame, frameOf, frames, type Start } from "./frames.ts";

/**
 * The process that starts commands, because a spawn costs what its parent holds in memory (docs/decisions/0009). Frames
 * come on standard input and go out on standard output. When the input ends, the service is gone: every process group
 * is ended, then this process.
 */

const children = new Map<number, ChildProcess>();
/** Outputs that wait for the service to take what was sent. */
const paused = new Set<Readable>();

const send = (type: Frame["type"], id: number, payload: Buffer | string = ""): boolean =>
  process.stdout.write(frameOf(type, id, payload));

const start = (id: number, { file, args, cwd, env }: Start): void => {
  let child: ChildProcess;
  try {
    // The fourth pipe is written by nobody. It closes when the last process that inherited it is gone, whatever became
    // of its output and its group: the cheap evidence that something stayed behind.
    child = spawn(file, args, { cwd, env, detached: true, stdio: ["ignore", "pipe", "pipe", "pipe"] });
  } catch (error) {
    send(frames.failed, id, String(error));
    return;
  }
  const { pid } = child;
  if (pid === undefined) {
    child.once("error", (error) => send(frames.failed, id, error.message));
    return;
  }
  children.set(id, child);
  send(frames.started, id, String(pid));
  const pass = (stream: Readable | null, type: Frame["type"]) =>
    stream?.on("data", (chunk: Buffer) => {
      if (send(type, id, chunk)) return;
      stream.pause();
      paused.add(stream);
    });
  pass(child.stdout, frames.stdout);
  pass(child.stderr, frames.stderr);
  (child.stdio[3] as Readable).resume();
  child.on("error", () => {});
  child.once("exit", (code) => send(frames.exit, id, code === null ? "" : String(code)));
  child.once("close", () => {
    children.delete(id);
    send(frames.closed, id);
  });
};

process.stdout.on("drain", () => {
  for (const stream of paused) stream.resume();
  paused.clear();
});
process.stdout.on("error", () => {});

const read = createReader(({ type, id, payload }) => {
  if (type === frames.start) start(id, JSON.parse(payload.toString("utf8")) as Start);
  else if (type === frames.drop) for (const stream of children.get(id)?.stdio ?? []) stream?.destroy();
});
process.stdin.on("data", read);
process.stdin.once("close", () => {
  for (const { pid } of children.values())
    try {
      if (pid !== undefined) process.kill(-pid, "SIGKILL");
    } catch {}
  process.exit(0);
});
