import { spawn } from "node:child_process";
import type { OwnListener, OwnProcess, OwnProgram, Tracker } from "../process.ts";
import type { RunnerClient } from "../runner/client.ts";
import { readInTurns } from "../runner/in-turns.ts";
import type { GroupRecord } from "./group-record.ts";
import { killGroup } from "./kill.ts";
import { watchProgress } from "./progress.ts";

/**
 * The service's own programs that work for Tasks, each in its own process group, recorded like commands. The runner
 * starts them once it is up, because a spawn blocks the event loop in proportion to the service's memory.
 */

export type OwnPrograms = {
  /** `env` identifies the Task's programs, also to a later service. */
  tracker(taskID: string, env: Readonly<Record<string, string>>): Tracker;
  /** Kills the programs of the Tasks that `isOf` selects; with `all`, undisturbed ones as well. */
  end(isOf: (taskID: string) => boolean, all: boolean): void;
  /** The number of running programs. */
  count(): number;
  /** Milliseconds without progress, for each program that runs for the Task. */
  idleMsOf(taskID: string): number[];
};

type Entry = {
  taskID: string;
  /** undefined: the program has not started yet. */
  pid: number | undefined;
  undisturbed: boolean;
  idleMs: () => number;
  killed: "idle" | "interrupted" | undefined;
};

/** A longer input costs more to pass through the runner than the spawn does. */
const maxInputBytes = 1024 * 1024;

export const createOwnPrograms = (spawner: RunnerClient, record: GroupRecord): OwnPrograms => {
  const entries = new Set<Entry>();
  const umask = process.umask();

  /**
   * The service starts the program itself if the program gets a descriptor or a long input, and as long as there is no
   * runner.
   */
  const start = (program: OwnProgram, undisturbed: boolean, listener: OwnListener): void => {
    const input = typeof program.input === "string" ? Buffer.from(program.input) : program.input;
    if (!spawner.isUp() || typeof input === "number" || (input?.length ?? 0) > maxInputBytes) {
      startHere(program, listener);
      return;
    }
    const { file, args, cwd, env } = program;
    let pid: number | undefined;
    let end: [code: number | null, signal: NodeJS.Signals | null] = [null, null];
    const child = spawner.start(
      { file, args: [...args], cwd, env, own: { input: input !== undefined, umask, undisturbed } },
      {
        started(id) {
          pid = id;
          if (id !== undefined) listener.started(id);
        },
        output: (from, chunk) => listener.output(from, chunk),
        exit: (...how) => (end = how),
        close() {
          // If the runner itself is gone, how the program ended is unknown, and it may still run.
          if (end[0] === null && end[1] === null && pid !== undefined) killGroup(pid);
          listener.ended(...end);
        },
        failed: (message) => listener.failed(message),
        lost: () => listener.failed("Nothing was run."),
      },
    );
    if (input !== undefined) child.input(input);
  };

  const kill = (entry: Entry, why: "idle" | "interrupted"): void => {
    entry.killed ??= why;
    if (entry.pid !== undefined) killGroup(entry.pid);
  };

  return {
    tracker: (taskID, env) => ({
      start(program, { idleMs, undisturbed }, listener) {
        const entry: Entry = { taskID, pid: undefined, undisturbed, idleMs: () => 0, killed: undefined };
        let watch: Disposable | undefined;
        let isStopped = false;
        entries.add(entry);
        const over = () => {
          if (!entries.delete(entry)) return;
          watch?.[Symbol.dispose]();
          if (entry.pid !== undefined) record.remove(entry.pid);
        };
        start({ ...program, env: { ...program.env, ...env } }, undisturbed, {
          started(pid) {
            entry.pid = pid;
            record.add(pid, taskID);
            const watching = watchProgress({ group: () => pid }, idleMs, () => kill(entry, "idle"));
            entry.idleMs = watching.idleMs;
            watch = watching;
            if (isStopped || entry.killed !== undefined) killGroup(pid);
          },
          output: (from, chunk) => listener.output(from, chunk),
          failed(message) {
            over();
            listener.failed(message);
          },
          ended(code, signal) {
            over();
            listener.ended(code, signal, entry.killed);
          },
        });
        return {
          kill() {
            isStopped = true;
            if (entry.pid !== undefined) killGroup(entry.pid);
          },
        };
      },
    }),
    end(isOf, all) {
      for (const entry of entries) if (isOf(entry.taskID) && (all || !entry.undisturbed)) kill(entry, "interrupted");
    },
    count: () => entries.size,
    idleMsOf: (taskID) => [...entries].filter((entry) => entry.taskID === taskID).map(({ idleMs }) => idleMs()),
  };
};

/** Starts a program as a child of this process, in its own process group. */
export const startHere = ({ file, args, cwd, env, input }: OwnProgram, listener: OwnListener): OwnProcess => {
  const child = spawn(file, args, {
    cwd,
    env,
    detached: true,
    stdio: [input === undefined ? "ignore" : typeof input === "number" ? input : "pipe", "pipe", "pipe"],
  });
  readInTurns(child.stdout, (chunk) => listener.output("stdout", chunk));
  readInTurns(child.stderr, (chunk) => listener.output("stderr", chunk));
  child.once("error", (error) => listener.failed(error.message));
  child.once("close", (code, signal) => listener.ended(code, signal));
  if (child.pid !== undefined) listener.started(child.pid);
  if (input !== undefined && typeof input !== "number") {
    // The program may exit before it has read all of its input; its exit code decides.
    child.stdin?.on("error", () => {});
    child.stdin?.end(input);
  }
  return {
    // The whole group: helpers that the program started would keep the pipes open.
    kill: () => void (child.pid !== undefined && killGroup(child.pid)),
  };
};
