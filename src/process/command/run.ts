import { StringDecoder } from "node:string_decoder";
import type { Log } from "../../log.ts";
import type { Start } from "../runner/frame.ts";
import { killGroup, killMarked, type MarkFiles, wait } from "./kill.ts";
import { watchProgress } from "./progress.ts";
import type { GroupRecord } from "./group-record.ts";
import type { Command, CommandResult } from "../process.ts";
import type { RunnerClient } from "../runner/client.ts";
import { createBoundedOutput } from "./output.ts";
import { startTimeout, type Timeout } from "./timeout.ts";

/** Runs one command, from its start until all of its processes are gone. */

/** A command that runs now. `pid`: its process group, undefined in a sandbox; `mark`: its SERVICE_RUN_ID. */
export type LiveCommand = {
  taskID: string;
  /** The name of its separate sandbox, if it has one. */
  apart: string | undefined;
  mark: string;
  pid: number | undefined;
  /** Ends a command in a sandbox, where process ids mean nothing outside. */
  kill: (() => void) | undefined;
  stop: () => void;
  /** The command continues while others are held. */
  unheld: boolean;
  /** Its processes are held or continue: its time limits are suspended meanwhile. */
  hold: (held: boolean) => void;
  gone: Promise<unknown>;
  /** Milliseconds without progress; undefined unless progress is watched. */
  idleMs: (() => number) | undefined;
};

export type Request = {
  taskID: string;
  mark: string;
  command: Command;
  /** What to start and where, or why that is impossible. Called again if the sandbox ended before the command began. */
  start: () => Start | string;
};

export type RunContext = {
  spawner: RunnerClient;
  record: GroupRecord;
  live: Set<LiveCommand>;
  /** How to recognise the processes of commands that run without a sandbox; undefined with one. */
  files: MarkFiles | undefined;
  log: Log;
};

/**
 * How long, in milliseconds, processes may hold the pipes after their group was killed, before the search for those
 * that left it begins.
 */
const drainMs = 25;
/**
 * The same, if nothing else runs in the sandbox: process 1 then kills everything left there, though late on a busy
 * machine.
 */
const sweptMs = 250;
/** How long, in milliseconds, the pipes may stay open after that search, before we stop listening. */
const lastDrainMs = 500;

export const runCommand = ({ taskID, mark, command, start }: Request, around: RunContext): Promise<CommandResult> => {
  const { spawner, record, live, files, log } = around;
  const begun = performance.now();
  const output = createBoundedOutput(command.keepBytes);
  const stdout = createBoundedOutput(command.keepBytes);
  const decoders = { stdout: new StringDecoder("utf8"), stderr: new StringDecoder("utf8") };
  let ended: CommandResult["ended"] = "exit";
  let exitCode: number | null = null;
  let idle = false;
  let timeout: Timeout | undefined;
  let saidErrors = false;
  let fault: { error: unknown } | undefined;
  const result = (): CommandResult => {
    const text = output.text();
    return {
      exitCode: ended === "exit" ? exitCode : null,
      output: text,
      // Computed on demand: for a mebibyte of binary output it takes 15 ms.
      get stdout() {
        return saidErrors ? stdout.text() : text;
      },
      dropped: output.dropped(),
      ended,
      ...(idle ? { idle: true as const } : {}),
      durationMs: performance.now() - begun,
      ...(timeout === undefined || timeout.heldMs() === 0 ? {} : { heldMs: timeout.heldMs() }),
    };
  };
  if (command.signal.aborted) {
    ended = "aborted";
    return Promise.resolve(result());
  }
  const first = start();
  if (typeof first === "string") {
    ended = "not-started";
    output.add(Buffer.from(first));
    return Promise.resolve(result());
  }

  const entry: LiveCommand = {
    taskID,
    apart: command.apart,
    mark,
    pid: undefined,
    kill: undefined,
    stop: () => stop("aborted"),
    unheld: command.unheld === true,
    hold(held) {
      timeout?.hold(held);
      watch?.hold(held);
    },
    gone: Promise.resolve(),
    idleMs: undefined,
  };
  const watch =
    command.idleMs === undefined
      ? undefined
      : watchProgress({ mark }, command.idleMs, () => {
          idle = true;
          stop("timeout");
        });
  entry.idleMs = watch?.idleMs;
  const stop = (why: CommandResult["ended"]) => {
    if (ended === "exit") ended = why;
    // A command that has not started yet is ended as soon as it has.
    if (entry.pid !== undefined) killGroup(entry.pid);
    entry.kill?.();
  };
  timeout = startTimeout(command.timeoutMs, () => stop("timeout"));
  const abort = () => stop("aborted");
  command.signal.addEventListener("abort", abort, { once: true });
  live.add(entry);

  /** An error thrown by a listener of the output ends the command, and rejects the call that runs it. */
  const pass = (from: "stdout" | "stderr", chunk: Buffer) => {
    if (fault !== undefined) return;
    try {
      if (from === "stdout") command.onStdout?.(chunk);
      else command.onStderr?.(chunk);
      command.onOutput?.(decoders[from].write(chunk));
    } catch (error) {
      fault = { error };
      stop("aborted");
    }
  };

  const gone = new Promise<CommandResult>((resolve, reject) => {
    let drain: NodeJS.Timeout | undefined;
    const isOpen = () => live.has(entry);
    const isSwept = () =>
      entry.pid === undefined &&
      ![...live].some((each) => each !== entry && each.taskID === taskID && each.apart === command.apart);
    const finish = () => {
      watch?.[Symbol.dispose]();
      timeout?.clear();
      clearTimeout(drain);
      command.signal.removeEventListener("abort", abort);
      live.delete(entry);
      if (entry.pid !== undefined) record.remove(entry.pid);
      if (fault === undefined) resolve(result());
      else reject(fault.error);
    };
    const fail = (why: string) => {
      ended = "not-started";
      output.add(Buffer.from(why));
      finish();
    };
    const begin = (what: Start, again: boolean) => {
      // Repeated while a pipe is open: a process in the middle of an exec briefly has no readable mark.
      const search = async () => {
        const deadline = performance.now() + lastDrainMs;
        while (isOpen()) {
          const left = await killMarked((found) => found === mark, { files });
          if (left.length > 0) log.info({ taskID, pids: left }, "processes that had left their group were killed");
          if (performance.now() > deadline) child.drop();
          await wait(10);
        }
      };
      const child = spawner.start(what, {
        started(pid) {
          if (pid === undefined) return;
          entry.pid = pid;
          record.add(pid, taskID);
          if (ended !== "exit") killGroup(pid);
        },
        output(from, chunk) {
          output.add(chunk);
          if (from === "stdout") stdout.add(chunk);
          else saidErrors = true;
          pass(from, chunk);
        },
        exit(code) {
          exitCode = code;
          timeout?.clear();
          command.signal.removeEventListener("abort", abort);
          if (entry.pid !== undefined) killGroup(entry.pid);
          drain = setTimeout(() => void search(), isSwept() ? sweptMs : drainMs);
        },
        close: finish,
        failed: fail,
        lost() {
          const fresh = again ? "The sandbox was stopped. Nothing was run." : start();
          if (ended !== "exit") finish();
          else if (typeof fresh === "string") fail(fresh);
          else begin(fresh, true);
        },
      });
      if (what.box !== undefined) entry.kill = () => child.kill();
    };
    begin(first, false);
  });
  entry.gone = gone.catch(() => {});
  return gone;
};
