import { spawn } from "node:child_process";
import { closeSync, constants, openSync } from "node:fs";
import { Socket } from "node:net";
import { join } from "node:path";

/**
 * The named pipes of a sandbox, in slots of three: a command's two outputs, and one that is never written; its end
 * shows that the last process that inherited it is gone.
 */

/** How many commands run at once in one sandbox; further ones wait. */
export const slotCount = 16;
const streams = ["stdout", "stderr", "held"] as const;

const pathOf = (folder: string, slot: number, stream: number) => join(folder, `${slot}.${stream}`);

/**
 * Makes the pipes of one more slot. Called on demand, because making and removing pipes costs more than opening a
 * sandbox.
 */
export const makePipes = (folder: string, slot: number, made: (problem?: string) => void): void => {
  const paths = streams.map((_name, at) => pathOf(folder, slot, at));
  const child = spawn("mkfifo", ["-m", "600", "--", ...paths], { stdio: "ignore" });
  child.once("error", (error) => made(error.message));
  child.once("exit", (code) => made(code === 0 ? undefined : `mkfifo ended with ${code} in ${folder}`));
};

/** Our ends of one slot's pipes. */
export interface Pipes {
  /** Closes our writing ends, once the command has opened its own. */
  release(): void;
  resume(): void;
  /** Stops listening, even if other processes still hold the pipes. */
  destroy(): void;
}

/**
 * Throws when the pipes cannot be opened. `output`: false pauses until `resume`. `closed`: no process holds the pipes
 * any more.
 */
export const openPipes = (
  folder: string,
  slot: number,
  hooks: { output(from: "stdout" | "stderr", chunk: Buffer): boolean; closed(): void },
): Pipes => {
  const readers: Socket[] = [];
  /** Our own writing ends, which keep the pipes open until the command has opened them. */
  const keepers: number[] = [];
  const release = () => {
    for (const fd of keepers.splice(0)) closeSync(fd);
  };
  let open = 0;
  try {
    for (const [at, name] of streams.entries()) {
      const path = pathOf(folder, slot, at);
      const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
      const reader = new Socket({ fd, readable: true, writable: false });
      readers.push(reader);
      keepers.push(openSync(path, constants.O_WRONLY | constants.O_NONBLOCK));
      open += 1;
      if (name === "held") reader.resume();
      else
        reader.on("data", (chunk: Buffer) => {
          if (!hooks.output(name, chunk)) reader.pause();
        });
      reader.on("error", () => {});
      reader.once("close", () => {
        open -= 1;
        if (open === 0) hooks.closed();
      });
    }
  } catch (error) {
    for (const reader of readers) reader.removeAllListeners("close").destroy();
    release();
    throw error;
  }
  return {
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
