/** The protocol between the service and its runner. A frame is: type, id of the command, length, bytes. */

export const frames = {
  /** To the runner: start a command (JSON of `Start`); stop listening to it. */
  start: 1,
  drop: 2,
  /**
   * To the runner: open a sandbox (JSON of `Open`); end it with everything in it (its name); kill a command in a
   * sandbox.
   */
  open: 9,
  shut: 10,
  kill: 11,
  /** To the runner: stop all processes of a sandbox where they are; let them continue (its name). */
  hold: 14,
  letGo: 15,
  /** To the runner: a part of the standard input of one of the service's own programs; empty: its end. */
  input: 16,
  /** From the runner: it is ready (id 0). */
  ready: 17,
  /**
   * From the runner: process id, outputs, exit code or the name of the signal, pipes closed, why the command could not
   * be started.
   */
  started: 3,
  stdout: 4,
  stderr: 5,
  exit: 6,
  closed: 7,
  failed: 8,
  /** From the runner: the sandbox ended before the command began. */
  lost: 13,
  /** From the runner, about a sandbox (id 0, JSON of `SandboxNews`): its process has started; it is gone. */
  box: 12,
} as const;

export type Frame = { type: (typeof frames)[keyof typeof frames]; id: number; payload: Buffer };

export type Start = {
  file: string;
  args: string[];
  cwd: string;
  env: Record<string, string>;
  /** Name of the sandbox to run in; `cwd` is then a path inside it. */
  box?: string;
  /** In a sandbox: start new processes for this command alone, when it arrives. */
  fresh?: boolean;
  /** Without a sandbox: see `spawnForTask`. */
  markFile?: string;
  /** Set for one of the service's own programs, which inherits what a child of the service would inherit. */
  own?: Own;
};

export type Own = {
  /** Whether frames with its standard input follow. */
  input: boolean;
  umask: number;
  /** The program continues to its end when the service is gone. */
  undisturbed: boolean;
};

export type Open = {
  box: string;
  file: string;
  args: string[];
  env: Record<string, string>;
  /** Folder for the pipes, as seen outside. */
  folder: string;
  /** Whether the processes for its next command are made in advance while none runs; false by default. */
  ahead?: boolean;
  /** Folder where pipes for later sandboxes are kept; without it none are made in advance. */
  pipes?: string;
  /** The filter of system calls that the command line expects. */
  filter?: string;
  /**
   * The sandbox is ended by the end of its standard input: a signal would kill only the engine's client, which is not
   * the parent of what runs in it.
   */
  byInput?: boolean;
};

export type SandboxNews = { box: string; pid?: number; gone?: true };

const headBytes = 9;

export const frameOf = (type: Frame["type"], id: number, payload: Buffer | string): Buffer => {
  const bytes = typeof payload === "string" ? Buffer.from(payload) : payload;
  const frame = Buffer.allocUnsafe(headBytes + bytes.length);
  frame.writeUInt8(type, 0);
  frame.writeUInt32LE(id, 1);
  frame.writeUInt32LE(bytes.length, 5);
  bytes.copy(frame, headBytes);
  return frame;
};

/** Takes chunks of any size and calls `take` with whole frames. */
export const createReader = (take: (frame: Frame) => void): ((chunk: Buffer) => void) => {
  let rest: Buffer = Buffer.alloc(0);
  return (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    while (rest.length >= headBytes) {
      const end = headBytes + rest.readUInt32LE(5);
      if (rest.length < end) return;
      const frame = {
        type: rest.readUInt8(0) as Frame["type"],
        id: rest.readUInt32LE(1),
        payload: rest.subarray(headBytes, end),
      };
      rest = rest.subarray(end);
      take(frame);
    }
  };
};
