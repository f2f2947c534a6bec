/** The protocol between the service and its runner. A frame is: type, id of the command, length, bytes. */

export const frames = {
  /** To the runner: start a command (JSON of `Start`); stop listening to it. */
  start: 1,
  drop: 2,
  /** To the runner: open a sandbox (JSON of `Open`); end it with everything in it (its name); kill a command in one. */
  open: 9,
  shut: 10,
  kill: 11,
  /** To the runner: stop all processes of a sandbox where they are; let them go on (its name). */
  hold: 14,
  letGo: 15,
  /** To the runner: a part of the standard input of a program of the service's own; empty: its end. */
  input: 16,
  /** From the runner: it is there (id 0). */
  ready: 17,
  /**
   * From the runner: process id, outputs, exit code or the name of the signal, pipes closed, why it could not be
   * started.
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
  /** In a sandbox: its processes are made for it alone, when it comes. */
  fresh?: boolean;
  /** Without a sandbox: as for `spawnForTask`. */
  markFile?: string;
  /** A program of the service's own, which is like the service in all that a program inherits. */
  own?: Own;
};

export type Own = {
  /** Whether frames with its standard input follow. */
  input: boolean;
  umask: number;
  /** It goes on to its end when the service is gone. */
  undisturbed: boolean;
};

export type Open = {
  box: string;
  file: string;
  args: string[];
  env: Record<string, string>;
  /** Folder for the pipes, as seen outside. */
  folder: string;
  /** Whether the processes of its next command are made while none runs; false by default. */
  ahead?: boolean;
  /** Where pipes for further sandboxes are kept; without it none are made. */
  pipes?: string;
  /** The filter of system calls that the command line expects. */
  filter?: string;
  /** It ends with its standard input: what a signal would end is no parent of what runs in it. */
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
