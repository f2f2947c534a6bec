import { type ChildProcess, spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { spawnForTask } from "../sandbox/spawn.ts";
import { removePipesAhead } from "./pipe.ts";
import { couldNotStart, type OpenSandbox, openSandbox } from "./sandbox.ts";
import {
  type SandboxNews,
  createReader,
  type Frame,
  frameOf,
  frames,
  type Open,
  type Own,
  type Start,
} from "./frame.ts";

/**
 * The runner: the process that starts commands, because a spawn costs in proportion to its parent's memory
 * (docs/decisions/0009). Commands run without a sandbox, or in one that the runner keeps open. Frames arrive on
 * standard input and leave on standard output. When the input ends, the service is gone: all process groups and
 * sandboxes are killed, then the runner itself exits; only programs that write a user's repository may finish first.
 */

const children = new Map<number, ChildProcess>();
const boxes = new Map<string, OpenSandbox>();
/** Why the newest sandboxes that never became ready ended: a command for one of them may arrive after its end. */
const stillborn = new Map<string, string>();
const maxStillborn = 64;
/** The sandbox of each command that runs in one. */
const boxed = new Map<number, OpenSandbox>();
/** The service's own programs that continue to their end when the service is gone. */
const undisturbed = new Set<number>();
/** Outputs that are paused until the service has read the data sent so far. */
const paused = new Set<Readable>();

/** How long undisturbed programs may take once the service is gone, in milliseconds. */
const patienceMs = 30_000;
/** Whether the service is gone. */
let isAlone = false;

const send = (type: Frame["type"], id: number, payload: Buffer | string = ""): boolean =>
  process.stdout.write(frameOf(type, id, payload));

const tell = (news: SandboxNews) => send(frames.box, 0, JSON.stringify(news));

const open = (request: Open): void => {
  const name = request.box;
  let box: OpenSandbox | undefined;
  const gone = (why: string | undefined) => {
    if (boxes.get(name) === box) boxes.delete(name);
    if (why !== undefined) stillborn.set(name, why);
    if (stillborn.size > maxStillborn) stillborn.delete(stillborn.keys().next().value ?? "");
    tell({ box: name, gone: true });
  };
  try {
    box = openSandbox(request, gone);
  } catch (error) {
    gone(String(error));
    return;
  }
  boxes.set(name, box);
  if (box.pid !== undefined) tell({ box: name, pid: box.pid });
};

const startIn = (name: string, id: number, request: Start): void => {
  const box = boxes.get(name);
  if (box === undefined) {
    const why = stillborn.get(name);
    if (why === undefined) send(frames.lost, id);
    else send(frames.failed, id, couldNotStart(why));
    return;
  }
  boxed.set(id, box);
  box.start(id, request, {
    started: () => send(frames.started, id),
    output: (from, chunk) => send(from === "stdout" ? frames.stdout : frames.stderr, id, chunk),
    exit: (code) => send(frames.exit, id, code === null ? "" : String(code)),
    close() {
      boxed.delete(id);
      send(frames.closed, id);
    },
    failed(message) {
      boxed.delete(id);
      send(frames.failed, id, message);
    },
    lost() {
      boxed.delete(id);
      send(frames.lost, id);
    },
  });
};

const start = (id: number, request: Start): void => {
  let child: ChildProcess;
  try {
    child = request.own === undefined ? spawnCommand(request) : spawnOwn(request, request.own);
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
  if (request.own?.undisturbed === true) undisturbed.add(id);
  // The program may exit before it has read all of its input; its exit code decides.
  child.stdin?.on("error", () => {});
  send(frames.started, id, String(pid));
  const pass = (stream: Readable | null, type: Frame["type"]) =>
    stream?.on("data", (chunk: Buffer) => {
      if (send(type, id, chunk) || isAlone) return;
      stream.pause();
      paused.add(stream);
    });
  pass(child.stdout, frames.stdout);
  pass(child.stderr, frames.stderr);
  (child.stdio[3] as Readable | undefined)?.resume();
  child.on("error", () => {});
  child.once("exit", (code, signal) => send(frames.exit, id, String(code ?? signal ?? "")));
  child.once("close", () => {
    children.delete(id);
    undisturbed.delete(id);
    send(frames.closed, id);
    if (isAlone && undisturbed.size === 0) process.exit(0);
  });
};

const spawnCommand = ({ file, args, cwd, env, markFile }: Start): ChildProcess => {
  // No process writes to the fourth pipe. It closes when the last process that inherited it is gone, regardless of the
  // command's output and group: a cheap way to know whether any process was left behind.
  const stdio = ["ignore", "pipe", "pipe", "pipe"] as const;
  return spawnForTask(file, args, { cwd, env, detached: true, stdio: [...stdio] }, { markFile });
};

const spawnOwn = ({ file, args, cwd, env }: Start, { input, umask }: Own): ChildProcess => {
  const before = process.umask(umask);
  try {
    return spawn(file, args, { cwd, env, detached: true, stdio: [input ? "pipe" : "ignore", "pipe", "pipe"] });
  } finally {
    process.umask(before);
  }
};

const takeInput = (id: number, payload: Buffer): void => {
  const stdin = children.get(id)?.stdin;
  if (payload.length === 0) stdin?.end();
  else stdin?.write(payload);
};

process.umask(0o022);
process.stdout.on("drain", () => {
  for (const stream of paused) stream.resume();
  paused.clear();
  for (const box of boxes.values()) box.resume();
});
process.stdout.on("error", () => {});

const read = createReader(({ type, id, payload }) => {
  if (type === frames.start) {
    const request = JSON.parse(payload.toString("utf8")) as Start;
    if (request.box === undefined) start(id, request);
    else startIn(request.box, id, request);
  } else if (type === frames.open) open(JSON.parse(payload.toString("utf8")) as Open);
  else if (type === frames.shut) boxes.get(payload.toString("utf8"))?.end();
  else if (type === frames.hold) boxes.get(payload.toString("utf8"))?.hold(true);
  else if (type === frames.letGo) boxes.get(payload.toString("utf8"))?.hold(false);
  else if (type === frames.input) takeInput(id, payload);
  else if (type === frames.kill) boxed.get(id)?.kill(id);
  else if (type === frames.drop) {
    boxed.get(id)?.drop(id);
    for (const stream of children.get(id)?.stdio ?? []) stream?.destroy();
  }
});
process.stdin.on("data", read);
process.once("exit", removePipesAhead);
process.stdin.once("close", () => {
  isAlone = true;
  for (const box of boxes.values()) box.end();
  for (const [id, { pid }] of children)
    try {
      if (pid !== undefined && !undisturbed.has(id)) process.kill(-pid, "SIGKILL");
    } catch {}
  for (const stream of paused) stream.resume();
  if (undisturbed.size === 0) process.exit(0);
  setTimeout(() => process.exit(0), patienceMs);
});
send(frames.ready, 0);
