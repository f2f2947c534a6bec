import { type ChildProcess, spawn } from "node:child_process";
import type { Socket } from "node:net";
import type { Log } from "../../log.ts";
import { compileCacheEnv, entryPoint } from "../../package-root.ts";
import { readInTurns } from "./in-turns.ts";
import { closeOthers } from "./init-script.ts";
import { type SandboxNews, createReader, frameOf, frames, type Open, type Start } from "./frame.ts";

/**
 * Starts commands, and the service's own programs, through the runner: a small process that is started with the first
 * command.
 */

export type Listener = {
  /** undefined: the command runs in a sandbox, where process ids mean nothing outside. */
  started(pid: number | undefined): void;
  output(from: "stdout" | "stderr", chunk: Buffer): void;
  /** The shell has exited. `code` null: by `signal`, or unknown (both null) because the runner itself was ended. */
  exit(code: number | null, signal: NodeJS.Signals | null): void;
  /** All processes that held the command's pipes are gone; the last call. */
  close(): void;
  /** The command could not be started; the last call. */
  failed(message: string): void;
  /** Its sandbox ended before the command began; the last call. */
  lost(): void;
};

export interface RunnerClient {
  /**
   * `drop` stops listening to a command whose pipes stay open; `kill` ends the group of a command in a sandbox; `input`
   * is the complete standard input of one of the service's own programs.
   */
  start(start: Start, listener: Listener): { drop(): void; kill(): void; input(bytes: Uint8Array): void };
  /** Whether the runner is up, so that a start does not have to start it first. */
  isUp(): boolean;
  /** Opens a sandbox; commands may be started in it at once. */
  open(open: Open, hear: (news: SandboxNews) => void): void;
  /** Ends a sandbox with everything in it; its `hear` is called when it is gone. */
  shut(box: string): void;
  /** Stops everything in a sandbox where it is, or lets it continue. */
  hold(box: string, held: boolean): void;
  close(): void;
}

/**
 * When file descriptors run out, the runner does not start and has no streams; its error arrives as an event, and the
 * next command tries again.
 */
type Runner = ChildProcess;

/** A long input is sent in parts, so that other frames can be sent between them. */
const partBytes = 64 * 1024;

const script = entryPoint("process/runner/main");

export const createRunnerClient = (log: Log): RunnerClient => {
  const boxes = new Map<string, (news: SandboxNews) => void>();
  const listeners = new Map<number, Listener>();
  let runner: Runner | undefined;
  /** The runner, once it has reported that it is ready. */
  let ready: Runner | undefined;
  let isClosed = false;
  let serial = 0;

  const begin = (): Runner => {
    // In its own process group, so that Ctrl-C in the service's terminal does not end it before the service has
    // stopped.
    const node = [process.execPath, "--max-semi-space-size=1", script];
    const child = spawn("bash", ["--norc", "-c", `${closeOthers}\nexec "$@"`, "runner", ...node], {
      detached: true,
      env: { NODE_NO_WARNINGS: "1", PATH: "/usr/local/bin:/usr/bin:/bin", ...compileCacheEnv() },
      stdio: ["pipe", "pipe", "ignore"],
    });
    const read = createReader(({ type, id, payload }) => {
      if (type === frames.ready) ready = child;
      else
        try {
          hear(type, id, payload);
        } catch (error) {
          // The frames belong to all commands: an error thrown by one listener must not affect the others.
          log.error({ err: error, type }, "a listener to the command runner failed");
        }
    });
    readInTurns(child.stdout, read);
    child.stdin?.on("error", () => {});
    child.once("error", (error) => lose(child, error.message));
    child.once("close", () => lose(child, "its runner was killed"));
    return child;
  };

  const hear = (type: number, id: number, payload: Buffer): void => {
    if (type === frames.box) {
      const news = JSON.parse(payload.toString("utf8")) as SandboxNews;
      const told = boxes.get(news.box);
      if (news.gone === true) boxes.delete(news.box);
      told?.(news);
      return;
    }
    const listener = listeners.get(id);
    if (listener === undefined) return;
    if (type === frames.started)
      listener.started(payload.length === 0 ? undefined : Number(payload.toString("latin1")));
    else if (type === frames.stdout) listener.output("stdout", payload);
    else if (type === frames.stderr) listener.output("stderr", payload);
    else if (type === frames.exit) {
      const how = payload.toString("latin1");
      if (/^\d+$/.test(how)) listener.exit(Number(how), null);
      else listener.exit(null, how === "" ? null : (how as NodeJS.Signals));
    } else {
      forget(id);
      if (type === frames.failed) listener.failed(payload.toString("utf8"));
      else if (type === frames.lost) listener.lost();
      else listener.close();
    }
  };

  const forget = (id: number): void => {
    listeners.delete(id);
    if (listeners.size === 0) hold(false);
  };

  /** Only a running command makes the runner keep this process alive. */
  const hold = (held: boolean): void => {
    for (const end of [runner, runner?.stdin as Socket | null | undefined, runner?.stdout as Socket | null | undefined])
      if (held) end?.ref();
      else end?.unref();
  };

  /** Fails the commands of a runner that died; their listeners end the process groups. */
  const lose = (lost: Runner, why: string): void => {
    if (runner !== lost) return;
    runner = undefined;
    if (listeners.size > 0) log.error({ commands: listeners.size, why }, "the command runner has exited");
    for (const [box, told] of boxes) told({ box, gone: true });
    boxes.clear();
    const orphans = [...listeners.values()];
    listeners.clear();
    for (const listener of orphans) {
      if (lost.pid === undefined) listener.failed(`Nothing was run: ${why}`);
      else {
        listener.exit(null, null);
        listener.close();
      }
    }
  };

  return {
    start(start, listener) {
      runner ??= begin();
      const id = (serial += 1);
      listeners.set(id, listener);
      hold(true);
      runner.stdin?.write(frameOf(frames.start, id, JSON.stringify(start)));
      const tell = (type: typeof frames.drop | typeof frames.kill) => void runner?.stdin?.write(frameOf(type, id, ""));
      return {
        drop: () => tell(frames.drop),
        kill: () => tell(frames.kill),
        input(bytes) {
          for (let at = 0; at < bytes.length; at += partBytes)
            runner?.stdin?.write(frameOf(frames.input, id, Buffer.from(bytes.subarray(at, at + partBytes))));
          runner?.stdin?.write(frameOf(frames.input, id, ""));
        },
      };
    },
    isUp: () => !isClosed && runner !== undefined && ready === runner,
    open(open, told) {
      runner ??= begin();
      boxes.set(open.box, told);
      runner.stdin?.write(frameOf(frames.open, 0, JSON.stringify(open)));
    },
    shut(box) {
      runner?.stdin?.write(frameOf(frames.shut, 0, box));
    },
    hold(box, held) {
      runner?.stdin?.write(frameOf(held ? frames.hold : frames.letGo, 0, box));
    },
    close() {
      isClosed = true;
      runner?.stdin?.end();
      runner?.unref();
    },
  };
};
