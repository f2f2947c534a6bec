import type { Readable } from "node:stream";

/** Most bytes that one turn of the event loop takes from a pipe. */
const mostAtOnce = 256 * 1024;

/**
 * Reads from a pipe, with turns for other work in between: from a full pipe libuv reads up to 32 times in one turn,
 * which makes two megabytes of a command's output to decode, search for secrets, count and keep.
 */
export const readInTurns = (pipe: Readable | null | undefined, take: (chunk: Buffer) => void): void => {
  let taken = 0;
  const turn = () => {
    taken = 0;
    pipe?.resume();
  };
  // A process that could not be started has no pipe.
  pipe?.on("data", (chunk: Buffer) => {
    if (taken === 0) setImmediate(turn);
    taken += chunk.length;
    if (taken >= mostAtOnce) pipe.pause();
    take(chunk);
  });
};
