import type { Readable, Writable } from "node:stream";
import type { SandboxPlace } from "./sandbox/place.ts";

/** The port: `Command`, `CommandResult`, `InteractiveCommand`, `Processes`; types only. */

export type Command = {
  /** Run by `bash -c`. */
  run: string;
  cwd: string;
  /** Added to the allow-listed environment. */
  env?: Record<string, string>;
  timeoutMs: number;
  /** Bytes of output kept, head and tail together. */
  keepBytes: number;
  signal: AbortSignal;
  onOutput?: (text: string) => void;
  /** Instead of what the sandbox has. */
  network?: boolean;
  /** In a sandbox of this name beside the Task's own, which ends with the last of its commands. */
  apart?: string;
};

export type CommandResult = {
  /** null when a signal ended it. */
  exitCode: number | null;
  /** Standard output and error as they came; head and tail when longer than `keepBytes`. */
  output: string;
  /** Standard output alone, for checks that match it; bounded likewise. */
  stdout: string;
  /** Bytes not kept. */
  dropped: number;
  ended: "exit" | "timeout" | "aborted" | "not-started";
  durationMs: number;
};

export interface Processes {
  /** Resolves when the shell has exited and nothing it started is left; never rejects for what the command does. */
  run(taskID: string, command: Command, place?: SandboxPlace): Promise<CommandResult>;
  /** A program in `root` that is talked with, until it ends or is ended. */
  startInteractive(
    taskID: string,
    root: string,
    talk: InteractiveCommand,
    place?: SandboxPlace,
  ): Promise<InteractiveProcess>;
  /** Makes a Task's sandbox before its first command, which then need not wait for it. */
  prepareSandbox(taskID: string, place: SandboxPlace): void;
  /** A path of this machine as a Task's commands see it. */
  pathInSandbox(place: SandboxPlace, path: string): string;
  /** Gives up what is kept open for a Task whose run ends. */
  closeSandboxes(taskID: string): Promise<void>;
  /** Ends every process of a Task, those that left their group too; the ids of what was still alive. */
  killAll(taskID: string): Promise<number[]>;
  /** At start, before anything runs: ends what an earlier service process left; by Task, the ids that were ended. */
  endLeftovers(): Promise<Map<string, number[]>>;
  /** Ends everything that runs now: the service stops. */
  stop(): Promise<void>;
}

export type InteractiveCommand = {
  /** Run by `bash -c`. */
  run: string;
  /** Added to the allow-listed environment. */
  env: Readonly<Record<string, string>>;
  /** Its HOME; undefined: a folder of the Task's own, kept until the Task is deleted; "passing": one that goes with it. */
  home: string | undefined;
  /** Whether it may use the network, whatever the Task's commands may. */
  network: boolean;
  signal: AbortSignal;
};

export type InteractiveProcess = {
  stdin: Writable;
  stdout: Readable;
  /** The end of what it wrote to standard error. */
  stderr(): string;
  /** The folder it works in, as it sees it. */
  root: string;
  kill(): void;
  /** Resolves when nothing of it is left. */
  gone: Promise<void>;
};
