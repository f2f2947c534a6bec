import { spawn } from "node:child_process";
import type { OwnListener, OwnProcess, OwnProgram, Tracker } from "../process.ts";
import type { RunnerClient } from "../runner/client.ts";
import { readInTurns } from "../runner/in-turns.ts";
import type { GroupRecord } from "./group-record.ts";
import { killGroup } from "./kill.ts";
import { watchProgress } from "./progress.ts";

/**
 * Programs of the service's own that work for Tasks, each in a process group of its own, on record like commands. The
 * runner starts them once it is there, because a spawn stops the event loop for as long as the service is large.
 */

export type OwnPrograms = {
  /** `env` identifies the programs of the Task, also to a later service. */
  tracker(taskID: string, env: Readonly<Record<string, string>>): Tracker;
  /** Ends those of the Tasks that `isOf` names, undisturbed ones as well where `all` is set. */
  end(isOf: (taskID: string) => boolean, all: boolean): void;
  /** How many run. */
  count(): number;
  /** Milliseconds without progress of each that runs for the Task. */
  idleMsOf(taskID: string): number[];
};

type Entry = {
  taskID: string;
  /** undefined: it has not started yet. */
  pid: number | undefined;
  undisturbed: boolean;
  idleMs: () => number;
  killed: "idle" | "interrupted" | undefined;
};

/** A longer input costs more on its way through the runner than the spawn does. */
const maxInputBytes = 1024 * 1024;

export const createOwnPrograms = (spawner: RunnerClient, record: GroupRecord): OwnPrograms => {
  const entries = new Set<Entry>();
  const umask = process.umask();

  /**
   * Where the program is given descriptors or much to read, and as long as there is no runner, the service starts it.
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
          // How it ended is unknown where the runner itself is gone; then it may run on.
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

/** Starts a program as a child of this process, in a process group of its own. */
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
    // It may exit before it has read all of its input; its exit code decides.
    child.stdin?.on("error", () => {});
    child.stdin?.end(input);
  }
  return {
    // The whole group: helpers that it started would keep the pipes open.
    kill: () => void (child.pid !== undefined && killGroup(child.pid)),
  };
};
