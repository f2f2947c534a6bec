import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { setImmediate as turnOver, setTimeout as wait } from "node:timers/promises";

/**
 * How a later service process kills the commands of one that died: by a record of live process groups, and by the mark
 * (SERVICE_RUN_ID) that every descendant carries in its environment and, without a sandbox, also as an open file. The
 * record needs no fsync, because a machine that goes down ends the processes too. Without /proc only recorded groups of
 * the running service can be killed.
 */

export { wait };

/** Sends a signal to a process group. Returns false if the group does not exist. */
export const signalGroup = (pgid: number, signal: "SIGKILL" | "SIGSTOP" | "SIGCONT"): boolean => {
  try {
    process.kill(-pgid, signal);
    return true;
  } catch {
    return false;
  }
};

export const killGroup = (pgid: number): boolean => signalGroup(pgid, "SIGKILL");

type Stat = { pgid: number; session: number; started: string; zombie: boolean };

/**
 * Parses /proc/<pid>/stat. The command in parentheses may contain anything, so the line is split at the last
 * parenthesis.
 */
export const statOf = (pid: number | string): Stat | undefined => {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return {
      zombie: fields[0] === "Z",
      pgid: Number(fields[2]),
      session: Number(fields[3]),
      started: fields[19] ?? "",
    };
  } catch {
    return undefined;
  }
};

export const pids = (): string[] => {
  try {
    return readdirSync("/proc").filter((name) => name.charCodeAt(0) >= 0x30 && name.charCodeAt(0) <= 0x39);
  } catch {
    return [];
  }
};

const name = "SERVICE_RUN_ID=";

const nameBytes = Buffer.from(name);

/**
 * The files by which commands without a sandbox are recognised: a command with the mark `runID`/<rest> holds open
 * `folder`/<rest>, which is unlinked. `since`: older processes are not examined, in the kernel's ticks since boot.
 */
export type MarkFiles = { folder: string; runID: string; since: number };

export const markFileOf = ({ folder, runID }: MarkFiles, mark: string): string =>
  `${folder}/${encodeURIComponent(mark.slice(runID.length + 1))}`;

/** The mark of a process by its open files; undefined as for `markOf`. */
export const heldMarkOf = (pid: string, { folder, runID, since }: MarkFiles): string | undefined => {
  if (Number(statOf(pid)?.started ?? 0) < since) return undefined;
  for (const target of openFilesOf(pid)) {
    const [, name] = target.startsWith(`${folder}/`) ? (/\/([^/]+) \(deleted\)$/.exec(target) ?? []) : [];
    if (name !== undefined) return `${runID}/${decodeURIComponent(name)}`;
  }
  return undefined;
};

/** The targets of the process's descriptors; those that are closed during the read are left out. */
const openFilesOf = (pid: string): string[] => {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        return [readlinkSync(`/proc/${pid}/fd/${fd}`)];
      } catch {
        return [];
      }
    });
  } catch {
    return [];
  }
};

/** The mark of a process; undefined if it has none or we may not read it. */
export const markOf = (pid: string): string | undefined => {
  try {
    const environ = readFileSync(`/proc/${pid}/environ`);
    for (let at = environ.indexOf(nameBytes); at !== -1; at = environ.indexOf(nameBytes, at + 1)) {
      if (at !== 0 && environ[at - 1] !== 0) continue;
      const end = environ.indexOf(0, at);
      return environ.toString("utf8", at + nameBytes.length, end === -1 ? environ.length : end);
    }
  } catch {}
  return undefined;
};

/**
 * Sends every process with a matching mark a signal that it survives; a process forked during a pass is found by the
 * next pass. Yields to other work in between.
 */
export const signalMarked = async (fits: (mark: string) => boolean, signal: "SIGSTOP" | "SIGCONT"): Promise<void> => {
  const told = new Set<string>();
  for (let pass = 0; pass < maxPasses; pass += 1) {
    const before = told.size;
    for (const [at, pid] of pids().entries()) {
      if (at % 100 === 99) await turnOver();
      const mark = told.has(pid) ? undefined : markOf(pid);
      if (mark === undefined || !fits(mark)) continue;
      told.add(pid);
      try {
        process.kill(Number(pid), signal);
      } catch {}
    }
    if (told.size === before) return;
  }
};

const maxPasses = 10;

/**
 * Kills every process with a matching mark and waits until none is left; a process forked during a pass is found by the
 * next pass. Gives up after two seconds (a process in uninterruptible sleep). Resolves to the ids of the killed
 * processes.
 */
export const killMarked = async (
  fits: (mark: string) => boolean,
  {
    files,
    onKill = () => undefined,
  }: { files?: MarkFiles | undefined; onKill?: (pid: number, mark: string) => void } = {},
): Promise<number[]> => {
  const killed = new Set<number>();
  const deadline = performance.now() + 2000;
  for (let pause = 1; ; pause = Math.min(pause * 2, 50)) {
    let found = 0;
    for (const [at, pid] of pids().entries()) {
      if (at % 100 === 99) await turnOver();
      const mark = markOf(pid) ?? (files && heldMarkOf(pid, files));
      if (mark === undefined || !fits(mark)) continue;
      found += 1;
      const number = Number(pid);
      try {
        process.kill(number, "SIGKILL");
      } catch {
        continue;
      }
      if (!killed.has(number)) onKill(number, mark);
      killed.add(number);
    }
    if (found === 0 || performance.now() > deadline) return [...killed];
    await wait(pause);
  }
};
