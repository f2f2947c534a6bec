import type { Readable, Writable } from "node:stream";
import type { Network } from "./network/allow-list.ts";
import type { Image } from "./sandbox/image-root.ts";
import type { SandboxPlace } from "./sandbox/place.ts";

/**
 * The port of the process room: runs the commands of Tasks in the sandbox that the service chose at its start.
 *
 * Each command runs in its own process group, which is recorded from spawn to death, and carries a mark in its
 * environment; any process that it leaves behind is killed with it. After a crash of the service nothing survives in
 * tiers 1 and 2; in tier 3 the next service calls `endLeftovers`.
 */
export interface Processes {
  /** How commands are isolated: see `sandbox/sandbox.ts`. */
  readonly tier: 1 | 2 | 3;
  /** Whether the kernel refuses commands to set the set-user-ID and set-group-ID bits of files. */
  readonly refusesSetID: boolean;

  /**
   * Runs a command. Resolves once its shell has exited and every process it started is gone, also after a timeout or
   * an abort. Never rejects because of the command: see `CommandResult.ended`. With a sandbox, `place` is required.
   */
  run(taskID: string, command: Command, place?: SandboxPlace): Promise<CommandResult>;

  /**
   * Starts a program to exchange messages with, in the folder `root` and in a separate sandbox. It runs until it exits,
   * is killed, or its signal aborts. Without `place` its sandbox shows only `root`.
   */
  startInteractive(
    taskID: string,
    root: string,
    talk: InteractiveCommand,
    place?: SandboxPlace,
  ): Promise<InteractiveProcess>;

  /** Whether this machine can restrict commands to this network access. */
  canLimit(network: Network): Promise<boolean>;

  /** Why commands must not read this path; undefined: they may. */
  refusesPath(path: string): string | undefined;

  /**
   * Sets the environment for the commands of a Task and its forks until the result is disposed; undefined: the default.
   * Of several that are not disposed, the last one counts.
   */
  setEnvironment(taskID: string, environment: TaskEnvironment | undefined): Disposable;

  /** Starts to open a Task's sandbox ahead of its first command, to save that command the wait. Never throws. */
  prepareSandbox(taskID: string, place: SandboxPlace): void;

  /** A path of this machine as the Task's commands see it; unchanged if it is not one of the Task's files. */
  pathInSandbox(place: SandboxPlace, path: string): string;

  /**
   * The path at which commands find one of the service's own programs; undefined if this service has no program of that
   * name.
   */
  program(name: string): string | undefined;

  /**
   * Whether a program of this name is on the PATH of a Task's commands, as far as can be told from this machine or
   * their image.
   */
  finds(taskID: string, name: string): boolean;

  /**
   * The files of an image that an engine on this machine has; unpacks them if that has not been done yet. Rejects with
   * the reason and its remedy.
   */
  openImage(reference: string): Promise<Image>;

  /**
   * Stops all processes of all Tasks where they are, and starts no new ones; `false` lets them continue. A held command
   * can be ended like any other. The service's own processes are not held. Resolves when every process has been
   * signalled.
   */
  hold(held: boolean): Promise<void>;

  /** The HOME of the Task's interactive programs, whether the folder exists or not. */
  homeOf(taskID: string): string;

  /** Closes a Task's sandboxes at the end of its run, with everything in them. */
  closeSandboxes(taskID: string): Promise<void>;

  /** Starts the service's own programs for a Task, outside its commands, and records them as the Task's. */
  track(taskID: string): Tracker;

  /**
   * Kills everything that runs for a Task now, commands and the service's own processes, and leaves its sandboxes open.
   * For a run that was cancelled; callers that wait for a command get its end as an abort.
   */
  interrupt(taskID: string): void;

  /** Whether any process of the Task has made no progress for seconds, so that it does not use the machine. */
  isStalled(taskID: string): boolean;

  /**
   * Ends every process of a Task, including those that left their group, and closes its sandboxes. Resolves to the ids
   * of the processes that were still alive.
   */
  killAll(taskID: string): Promise<number[]>;

  /**
   * Kills whatever an earlier service process of this data folder left running; call it at start-up, before any
   * command. Resolves to the ids of the killed processes, by Task.
   */
  endLeftovers(): Promise<Map<string, number[]>>;

  /** Ends everything that runs, because the service stops. Waits at most five seconds for commands. */
  stop(): Promise<void>;
}

export type TaskEnvironment = {
  /** Added to the allow-listed environment. */
  variables: Readonly<Record<string, string>>;
  /** The network access of commands; undefined: the service's default. Interactive programs have their own setting. */
  network: Network | undefined;
  /** Further folders and files of this machine that they can read. */
  paths: readonly string[];
  /** The image that commands run in instead of this machine's system. Interactive programs still use this machine's. */
  image?: Image | undefined;
};

export type Tracker = {
  /**
   * Starts a program in its own process group. `idleMs`: the program is killed when it makes no progress for that long.
   * `undisturbed`: neither `interrupt` nor the end of the service kills it, because it writes files that are not the
   * service's.
   */
  start(
    program: OwnProgram,
    options: { idleMs: number; undisturbed: boolean },
    listener: Pick<OwnListener, "output" | "failed"> & {
      /** As `OwnListener.ended`; `killed`: why the service killed it; undefined: the service did not. */
      ended(code: number | null, signal: NodeJS.Signals | null, killed: "idle" | "interrupted" | undefined): void;
    },
  ): OwnProcess;
};

/** One of the service's own programs; it gets exactly this environment. */
export type OwnProgram = {
  file: string;
  args: readonly string[];
  cwd: string;
  env: Record<string, string>;
  /** Its standard input; a number: the descriptor of an open file. */
  input?: string | Uint8Array | number | undefined;
};

export type OwnListener = {
  started(pid: number): void;
  output(from: "stdout" | "stderr", chunk: Buffer): void;
  /** The program could not be started; the last call. */
  failed(message: string): void;
  /**
   * The program and all processes that held its pipes are gone; the last call. `code` null: ended by `signal`, or
   * unknown if both are null.
   */
  ended(code: number | null, signal: NodeJS.Signals | null): void;
};

export type OwnProcess = {
  /** Kills the program and its process group; its end is reported like any other. */
  kill(): void;
};

export type Command = {
  /** Run by `bash -c`. */
  run: string;
  /** Absolute, on this machine. */
  cwd: string;
  /** Added to the allow-listed environment. */
  env?: Record<string, string>;
  timeoutMs: number;
  /** Bytes of output to keep, head and tail together. */
  keepBytes: number;
  signal: AbortSignal;
  /** Called with each piece of output, including those that are not kept. */
  onOutput?: (text: string) => void;
  /** Called with standard output as bytes, as it arrives and complete: `keepBytes` does not apply. */
  onStdout?: (chunk: Buffer) => void;
  /** The same for standard error. */
  onStderr?: (chunk: Buffer) => void;
  /** Ends the command when none of its processes has used the processor or moved a byte for this many milliseconds. */
  idleMs?: number;
  /** Overrides the network access of the Task's commands. */
  network?: Network;
  /** Runs in a separate sandbox of this name, next to the Task's own. It is closed when the last command in it ends. */
  apart?: string;
  /** Runs even while commands are held: a command of the service, on files that no run of a Task works on. */
  unheld?: boolean;
  /**
   * Starts a new shell for this command, as for every command that decides something; otherwise a shell made in advance
   * may be used.
   */
  fresh?: boolean;
  /** A program of the service: this machine's program runs, whatever image the Task's commands run in. */
  own?: boolean;
};

export type CommandResult = {
  /** null unless `ended` is "exit", and also when a signal ended the command. */
  exitCode: number | null;
  /** Standard output and error interleaved; only head and tail when longer than `keepBytes`. */
  output: string;
  /** Standard output alone, for checks that match it; truncated likewise. */
  stdout: string;
  /** Bytes of `output` that were not kept. */
  dropped: number;
  /**
   * "not-started": nothing was run; `output` says why. "disk": the command was ended because its Task uses more disk
   * space than it may; `output` says more.
   */
  ended: "exit" | "timeout" | "aborted" | "not-started" | "disk";
  /** Whether a "timeout" was for lack of progress (`Command.idleMs`). */
  idle?: true;
  durationMs: number;
  /**
   * The part of `durationMs` for which the command was held, see `hold`; absent: 0. It does not count towards the time
   * limit.
   */
  heldMs?: number;
};

export type InteractiveCommand = {
  /** Run by `bash -c`. */
  run: string;
  /** Added to the allow-listed environment. */
  env: Readonly<Record<string, string>>;
  /**
   * The program's HOME. undefined: a folder of the Task that is kept until the Task is deleted. "passing": a temporary
   * folder, removed when the program ends.
   */
  home: string | undefined;
  /**
   * The program's network access, independent of that of the Task's commands. Rejects if this machine cannot enforce a
   * list.
   */
  network: Network;
  signal: AbortSignal;
};

export type InteractiveProcess = {
  stdin: Writable;
  stdout: Readable;
  /** About the last 8 KiB of the program's standard error. */
  stderr(): string;
  /** Its working folder, as the program itself sees it. */
  root: string;
  /** Kills the program and its process group. */
  kill(): void;
  /** Resolves when every process of the program is gone. */
  gone: Promise<void>;
};
