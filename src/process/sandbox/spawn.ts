import { type ChildProcess, spawn, type SpawnOptions } from "node:child_process";
import { closeSync, constants, openSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";

/** Starts the programs of Tasks: sandboxes, and commands that run without one. */

/** Where a sandbox's command line expects its filter of system calls. */
export const filterDescriptor = 3;

const scoreFile = "/proc/self/oom_score_adj";
/** How much sooner than the service its commands are ended where memory runs out; the kernel's scale ends at 1000. */
const sooner = 500;
const highest = 1000;

/** Beyond those that daemons close one by one. */
const markDescriptor = 4;

/**
 * One more descriptor of the program: `filter` as its `filterDescriptor`; `markFile` to know it by, made and unlinked.
 */
export type Descriptor = { filter?: string | undefined; markFile?: string | undefined };

/**
 * Like `spawn`. The program and what it starts are ended before the service where memory runs out. Throws where the
 * filter is not there; without a mark file it goes on.
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

/** undefined: it cannot be made. */
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
