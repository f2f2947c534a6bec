import { type ChildProcess, spawn, type SpawnOptions } from "node:child_process";
import { closeSync, constants, openSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";

/** Starts the programs of Tasks: sandboxes, and commands that run without one. */

/** The descriptor at which a sandbox's command line expects its filter of system calls. */
export const filterDescriptor = 3;

const scoreFile = "/proc/self/oom_score_adj";
/**
 * How far a command's score for being killed when memory runs out is above the service's; the kernel's scale ends at
 * 1000.
 */
const sooner = 500;
const highest = 1000;

/** Higher than the descriptors that daemons close one by one. */
const markDescriptor = 4;

/**
 * An additional descriptor for the program: `filter` as its `filterDescriptor`, or `markFile` to recognise it by,
 * created and unlinked.
 */
export type Descriptor = { filter?: string | undefined; markFile?: string | undefined };

/**
 * Like `spawn`. When memory runs out, the program and its descendants are killed before the service. Throws if the
 * filter's file is missing; without a mark file the program starts all the same.
 */
export const spawnForTask = (
  file: string,
  args: readonly string[],
  { stdio, ...options }: Omit<SpawnOptions, "stdio"> & { stdio: ("ignore" | "pipe")[] },
  { filter, markFile }: Descriptor = {},
): ChildProcess => {
  const descriptor =
    filter !== undefined ? openSync(filter, "r") : markFile !== undefined ? openMark(markFile) : undefined;
  const all: (number | "ignore" | "pipe")[] = [...stdio];
  if (descriptor !== undefined) {
    const at = filter === undefined ? markDescriptor : filterDescriptor;
    while (all.length < at) all.push("ignore");
    all[at] = descriptor;
  }
  try {
    return expendable(() => spawn(file, args, { ...options, stdio: all }));
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
};

/** undefined: the file cannot be created. */
const openMark = (path: string): number | undefined => {
  try {
    const descriptor = openSync(path, constants.O_RDONLY | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
    unlinkSync(path);
    return descriptor;
  } catch {
    return undefined;
  }
};

/**
 * Processes that `start` starts inherit a raised score; this process restores its own afterwards. Both are possible
 * without privileges, and at no moment does the new process have the lower score.
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

/** undefined: the system has no such score. */
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
