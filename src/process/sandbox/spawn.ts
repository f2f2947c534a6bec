import { type ChildProcess, spawn, type SpawnOptions } from "node:child_process";
import { closeSync, openSync, readFileSync, writeFileSync } from "node:fs";

/** Starts the programs of Tasks: sandboxes, and commands that run without one. */

/** Where a sandbox's command line expects its filter of system calls. */
export const filterDescriptor = 3;

const scoreFile = "/proc/self/oom_score_adj";
/** How much sooner than the service its commands are ended where memory runs out; the kernel's scale ends at 1000. */
const sooner = 500;
const highest = 1000;

/**
 * Like `spawn`. The program and what it starts are ended before the service where memory runs out. `filter`: a file to
 * open as its `filterDescriptor`; throws if that is not there.
 */
export const spawnForTask = (
  file: string,
  args: readonly string[],
  { stdio, ...options }: Omit<SpawnOptions, "stdio"> & { stdio: ("ignore" | "pipe")[] },
  filter?: string,
): ChildProcess => {
  const descriptor = filter === undefined ? undefined : openSync(filter, "r");
  try {
    const all = descriptor === undefined ? stdio : [...stdio, descriptor];
    return expendable(() => spawn(file, args, { ...options, stdio: all }));
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
};

/**
 * What `start` starts inherits a raised score; this process has its own again afterwards. Both are possible without
 * privileges, and there is no moment in which the new process has the lower one.
 */
const expendable = <T>(start: () => T): T => {
  const own = ownScore();
  if (own === undefined || !setScore(Math.min(highest, own + sooner))) return start();
  try {
    return start();
  } finally {
    setScore(own);
  }
};

/** undefined where the system keeps no such score. */
const ownScore = (): number | undefined => {
  try {
    return Number(readFileSync(scoreFile, "latin1"));
  } catch {
    return undefined;
  }
};

const setScore = (score: number): boolean => {
  try {
    writeFileSync(scoreFile, String(score));
    return true;
  } catch {
    return false;
  }
};
