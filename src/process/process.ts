import type { Readable, Writable } from "node:stream";
import type { Network } from "./network/allow-list.ts";
import type { Image } from "./sandbox/image-root.ts";
import type { SandboxPlace } from "./sandbox/place.ts";

/**
 * The port of the process room: runs the commands of Tasks in the sandbox that the service found at its start.
 *
 * Each command runs in its own process group, which is on record from spawn to death, and carries a mark in its
 * environment; whatever it left behind is ended with it. After a crash of the service nothing survives in tiers 1 and
 * 2; in tier 3 the next service calls `endLeftovers`.
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
   * Starts a program to exchange messages with, in the folder `root` and in a separate sandbox. It runs until it
   * exits, is killed, or its signal aborts. Without `place` its sandbox shows `root` alone.
   */
  startInteractive(
    taskID: string,
    root: string,
    talk: InteractiveCommand,
    place?: SandboxPlace,
  ): Promise<InteractiveProcess>;

  /** Whether commands can be kept to this on this machine. */
  canLimit(network: Network): Promise<boolean>;

  /** Why commands are not to read this path; undefined: they may. */
  refusesPath(path: string): string | undefined;

  /**
   * What the commands of a Task and its forks get until the result is disposed; undefined: what all get. Of several
   * that are not disposed, the last one counts.
   */
  setEnvironment(taskID: string, environment: TaskEnvironment | undefined): Disposable;

  /** Starts to open a Task's sandbox ahead of its first command, to save that command the wait. Never throws. */
  prepareSandbox(taskID: string, place: SandboxPlace): void;

  /** A path of this machine as the Task's commands see it; unchanged if it is not one of the Task's files. */
  pathInSandbox(place: SandboxPlace, path: string): string;

  /** Where commands find a program of the service's own; undefined if this service was given none of that name. */
  program(name: string): string | undefined;

  /**
   * Whether a program of this name is on the PATH of a Task's commands, as far as this machine or their image tells.
   */
  finds(taskID: string, name: string): boolean;

  /**
   * The files of an image that an engine of this machine has, made available where they are not yet. Rejects with the
   * reason and its remedy.
   */
  openImage(reference: string): Promise<Image>;

  /**
   * Stops all processes of all Tasks where they are, and starts no further ones; false lets them go on. A held command
   * can be ended like any other. Processes of the service's own are not held. Resolves when every process was told.
   */
  hold(held: boolean): Promise<void>;

  /** The folder that is the home of the Task's interactive programs, whether it exists or not. */
  homeOf(taskID: string): string;

  /** Closes the sandboxes of a Task whose run ends, with everything in them. */
  closeSandboxes(taskID: string): Promise<void>;

  /** Starts programs of the service's own, beside the commands, that are on record as the Task's. */
  track(taskID: string): Tracker;

  /**
   * Kills what runs for a Task now, commands and the service's own processes, and leaves its sandboxes open. For a run
   * that was cancelled; who waits for them gets their end as an abort.
   */
  interrupt(taskID: string): void;

  /** Whether something that runs for the Task has made no progress for seconds: it needs none of the machine. */
  isStalled(taskID: string): boolean;

  /**
   * Ends every process of a Task, including those that left their group, and closes its sandboxes. Resolves to the ids
   * of the processes that were still alive.
   */
  killAll(taskID: string): Promise<number[]>;

  /**
   * Ends what an earlier service process of this data folder left running; call it at the start, before any command.
   * Resolves to the ids of the ended processes, by Task.
   */
  endLeftovers(): Promise<Map<string, number[]>>;

  /** Ends everything that runs, because the service stops. Waits at most five seconds for commands. */
  stop(): Promise<void>;
}

export type TaskEnvironment = {
  /** Added to the allow-listed environment. */
  variables: Readonly<Record<string, string>>;
  /** What commands may reach; undefined: as the service has it. Interactive programs have their own. */
  network: Network | undefined;
  /** Further folders and files of this machine that they can read. */
  paths: readonly string[];
  /** The system that commands have instead of this machine's. Programs to exchange messages with are this machine's. */
  image?: Image | undefined;
};

export type Tracker = {
  /**
   * Starts a program in a process group of its own. `idleMs`: it is ended when it makes no progress for so long.
   * `undisturbed`: `interrupt` leaves it, and the end of the service too, because what it writes is not the service's.
   */
  start(
    program: OwnProgram,
    options: { idleMs: number; undisturbed: boolean },
    listener: Pick<OwnListener, "output" | "failed"> & {
      /** As `OwnListener.ended`; `killed`: why the service ended it; undefined: it did not. */
      ended(code: number | null, signal: NodeJS.Signals | null, killed: "idle" | "interrupted" | undefined): void;
    },
  ): OwnProcess;
};

/** A program of the service's own; it has exactly this environment. */
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
  /** It could not be started; the last call. */
  failed(message: string): void;
  /** It is gone, and what held its pipes; the last call. `code` null: by `signal`, or unknown where both are null. */
  ended(code: number | null, signal: NodeJS.Signals | null): void;
};

export type OwnProcess = {
  /** Ends it with its group; its end is told as any other. */
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
  /** Called with each piece of output, also those that are not kept. */
  onOutput?: (text: string) => void;
  /** Standard output as bytes while it comes, whole: `keepBytes` does not bound it. */
  onStdout?: (chunk: Buffer) => void;
  /** Standard error likewise. */
  onStderr?: (chunk: Buffer) => void;
  /** Ends it when none of its processes has used the processor or moved a byte for so many milliseconds. */
  idleMs?: number;
  /** Instead of what the Task's commands may reach. */
  network?: Network;
  /** Runs in a separate sandbox of this name, next to the Task's own. It is closed when its last command ends. */
  apart?: string;
  /** It is begun and goes on while commands are held: the service's own, over files that no run of a Task works on. */
  unheld?: boolean;
  /** Its shell is started for it when it comes, as for whatever decides; else one may have been made ready before. */
  fresh?: boolean;
  /** A program of the service's own: it is this machine's, in whatever image the Task's commands run. */
  own?: boolean;
};

export type CommandResult = {
  /** null unless `ended` is "exit", and when a signal ended the command. */
  exitCode: number | null;
  /** Standard output and error interleaved; only head and tail when longer than `keepBytes`. */
  output: string;
  /** Standard output alone, for checks that match it; bounded likewise. */
  stdout: string;
  /** Bytes of `output` that were not kept. */
  dropped: number;
  /**
   * "not-started": nothing was run; `output` says why. "disk": it was ended because its Task has outgrown its space on
   * the disk; `output` says more.
   */
  ended: "exit" | "timeout" | "aborted" | "not-started" | "disk";
  /** Whether "timeout" is for want of progress (`Command.idleMs`). */
  idle?: true;
  durationMs: number;
  /** Milliseconds of these for which it was held, see `hold`; absent: 0. They do not count for its time limit. */
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
   * What the program may reach, whatever the Task's commands may. Rejects where this machine cannot keep it to a list.
   */
  network: Network;
  signal: AbortSignal;
};

export type InteractiveProcess = {
  stdin: Writable;
  stdout: Readable;
  /** The last 8 KiB or so of what it wrote to standard error. */
  stderr(): string;
  /** Its working folder, as the program itself sees it. */
  root: string;
  /** Kills it and its process group. */
  kill(): void;
  /** Resolves when every process of it is gone. */
  gone: Promise<void>;
};
