import { spawn } from "node:child_process";
import { closeSync, constants, existsSync, mkdirSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { Socket } from "node:net";
import { join } from "node:path";

/**
 * The named pipes of a sandbox, in slots of three: a command's two outputs, and a pipe that is normally never written;
 * its end shows that the last process that inherited it is gone.
 */

/** How many commands run at once in one sandbox; further commands wait. */
export const slotCount = 16;

/** How many bytes a pipe always takes at once, however many pipes its user has. */
export const mostGiven = 8192;

const streams = ["stdout", "stderr", "held"] as const;

const pathOf = (folder: string, name: number | string, stream: number) => join(folder, `${name}.${stream}`);

/**
 * For how many further slots pipes are made along with those of one slot: a process for each slot would cost more than
 * making them all.
 */
const madeAhead = 7;

/**
 * Pipes not yet used by any sandbox, by the folder given for them; they are in a subfolder that belongs to this
 * process.
 */
type Ahead = { folder: string; sets: number[]; isMaking: boolean };
const aheads = new Map<string, Ahead>();
let serial = 0;

const aheadIn = (folder: string): Ahead => {
  const known = aheads.get(folder);
  if (known !== undefined) return known;
  const ahead: Ahead = { folder: join(folder, String(process.pid)), sets: [], isMaking: false };
  aheads.set(folder, ahead);
  // Left by an earlier process with this id.
  rmSync(ahead.folder, { recursive: true, force: true });
  return ahead;
};

const pathsIn = (folder: string, name: number | string): string[] =>
  streams.map((_name, at) => pathOf(folder, name, at));

/**
 * Makes the pipes of one more slot. Called on demand, because making and removing pipes costs more than opening a
 * sandbox. `store`: a folder on the same file system where pipes made in advance are kept; without it none are made in
 * advance.
 */
export const makePipes = (folder: string, slot: number, made: (problem?: string) => void, store?: string): void => {
  const paths = pathsIn(folder, slot);
  const ahead = store === undefined ? undefined : aheadIn(store);
  const ready = ahead?.sets.pop();
  if (ahead !== undefined && ready !== undefined) {
    if (move(pathsIn(ahead.folder, ready), paths)) {
      process.nextTick(made);
      return;
    }
    // If one set is missing, the whole folder was removed.
    ahead.sets = [];
  }
  const makes = ahead?.isMaking === false && isFolder(ahead.folder) ? ahead : undefined;
  const more = makes === undefined ? [] : Array.from({ length: madeAhead }, () => (serial += 1));
  const all = [...paths, ...more.flatMap((name) => pathsIn(makes?.folder ?? "", name))];
  if (makes !== undefined) makes.isMaking = true;
  const child = spawn("mkfifo", ["-m", "600", "--", ...all], { stdio: "ignore" });
  child.once("error", (error) => {
    if (makes !== undefined) makes.isMaking = false;
    made(error.message);
  });
  child.once("exit", (code) => {
    if (makes !== undefined) makes.isMaking = false;
    if (code === 0) makes?.sets.push(...more);
    made(code === 0 || paths.every((path) => existsSync(path)) ? undefined : `mkfifo ended with ${code} in ${folder}`);
  });
};

/** Creates the folder if it is missing; false: it cannot be created. */
const isFolder = (path: string): boolean => {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    return true;
  } catch {
    return false;
  }
};

/** false: the pipes are missing. */
const move = (from: readonly string[], to: readonly string[]): boolean => {
  try {
    for (const [at, path] of from.entries()) renameSync(path, to[at] ?? "");
    return true;
  } catch {
    for (const path of to) rmSync(path, { force: true });
    return false;
  }
};

/** Removes the pipes that no sandbox has used. */
export const removePipesAhead = (): void => {
  for (const { folder } of aheads.values()) rmSync(folder, { recursive: true, force: true });
  aheads.clear();
};

/** Our ends of one slot's pipes. */
export interface Pipes {
  /** Writes to a command's processes, which were made in advance; at most once, and at most `mostGiven` bytes. */
  give(bytes: Buffer | string): void;
  /** Closes our writing ends, once the command has opened its own; from then on the end of the pipes is noticed. */
  release(): void;
  resume(): void;
  /** Stops listening, even if other processes still hold the pipes. */
  destroy(): void;
}

/**
 * Throws when the pipes cannot be opened. `output`: false pauses until `resume`. `closed`: no process holds the pipes
 * any more; this can happen only after `release`.
 */
export const openPipes = (
  folder: string,
  slot: number,
  hooks: { output(from: "stdout" | "stderr", chunk: Buffer): boolean; closed(): void },
): Pipes => {
  const readers: Socket[] = [];
  /** Our own writing ends, which keep the pipes open until the command has opened them. */
  const keepers: number[] = [];
  /** Read only after `release`: until then any bytes in it are for the command's processes. */
  let held: number | undefined;
  let open = streams.length;
  const listen = (fd: number): Socket => {
    const reader = new Socket({ fd, readable: true, writable: false });
    readers.push(reader);
    reader.on("error", () => {});
    reader.once("close", () => {
      open -= 1;
      if (open === 0) hooks.closed();
    });
    return reader;
  };
  const close = () => {
    for (const fd of keepers.splice(0)) closeSync(fd);
  };
  const release = () => {
    if (held !== undefined) listen(held).resume();
    held = undefined;
    close();
  };
  try {
    for (const [at, name] of streams.entries()) {
      const path = pathOf(folder, slot, at);
      const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
      if (name === "held") held = fd;
      else {
        const reader = listen(fd);
        reader.on("data", (chunk: Buffer) => {
          if (!hooks.output(name, chunk)) reader.pause();
        });
      }
      keepers.push(openSync(path, constants.O_WRONLY | constants.O_NONBLOCK));
    }
  } catch (error) {
    for (const reader of readers) reader.removeAllListeners("close").destroy();
    if (held !== undefined) closeSync(held);
    close();
    throw error;
  }
  return {
    give(bytes) {
      const fd = keepers.at(-1);
      if (fd !== undefined) writeSync(fd, typeof bytes === "string" ? Buffer.from(bytes) : bytes);
    },
    release,
    resume() {
      for (const reader of readers) reader.resume();
    },
    destroy() {
      release();
      for (const reader of readers) reader.destroy();
    },
  };
};
