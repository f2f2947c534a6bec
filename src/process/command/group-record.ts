import { closeSync, ftruncateSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import { killGroup, pids, statOf } from "./kill.ts";

/** Records live process groups on disk, so that the next service process can end them after a crash. */

const bootID = (): string => {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    return "-";
  }
};

/** The record of one service process: one line per spawn and per death, truncated whenever no group is alive. */
export interface GroupRecord {
  /** File name within the folder. */
  readonly name: string;
  add(pgid: number, taskID: string): void;
  remove(pgid: number): void;
  close(): void;
}

let records = 0;

export const createGroupRecord = (folder: string, log: Log): GroupRecord => {
  const file = `${process.pid}-${statOf("self")?.started ?? Date.now()}-${(records += 1)}`;
  let fd: number | undefined;
  const alive = new Set<number>();
  let bytes = 0;

  const open = (): number => {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const opened = openSync(join(folder, file), "a", 0o600);
    writeSync(opened, `boot ${bootID()}\n`);
    return opened;
  };
  const append = (line: string) => {
    try {
      fd ??= open();
      bytes += writeSync(fd, line);
    } catch (error) {
      // Without a record, the mark in the environment still identifies the processes.
      log.warn({ error: messageOf(error) }, "process group could not be recorded");
    }
  };

  return {
    name: file,
    add(pgid, taskID) {
      alive.add(pgid);
      append(`+ ${pgid} ${statOf(pgid)?.started ?? "-"} ${taskID}\n`);
    },
    remove(pgid) {
      alive.delete(pgid);
      append(`- ${pgid}\n`);
      if (alive.size > 0 || bytes < 64 * 1024 || fd === undefined) return;
      ftruncateSync(fd, 0);
      bytes = 0;
      append(`boot ${bootID()}\n`);
    },
    close() {
      if (fd === undefined) return;
      closeSync(fd);
      fd = undefined;
      if (alive.size === 0) rmSync(join(folder, file), { force: true });
    },
  };
};

type Group = { pgid: number; started: string; taskID: string };

const parse = (text: string): { boot: string; groups: Map<number, Group> } => {
  const groups = new Map<number, Group>();
  let boot = "-";
  // The service died while it wrote a last line without a newline, so its numbers may be cut short: it is ignored.
  for (const line of text.slice(0, text.lastIndexOf("\n") + 1).split("\n")) {
    const [kind, first = "", started = "", taskID = ""] = line.split(" ");
    if (kind === "boot") boot = first;
    else if (kind === "+") groups.set(Number(first), { pgid: Number(first), started, taskID });
    else if (kind === "-") groups.delete(Number(first));
  }
  return { boot, groups };
};

/** Whether the service process that created the record is still alive. */
const ownerLives = (file: string): boolean => {
  const [pid = "", started = ""] = file.split("-");
  return statOf(pid)?.started === started;
};

/**
 * The living members of a recorded group. While any lives, its number is not given to another process, so a leader with
 * a different start time means that the group is long gone.
 */
const members = ({ pgid, started }: Group): number[] => {
  const leader = statOf(pgid);
  if (leader !== undefined && leader.started !== started) return [];
  return pids()
    .filter((pid) => {
      const stat = statOf(pid);
      return stat !== undefined && !stat.zombie && stat.pgid === pgid && stat.session === pgid;
    })
    .map(Number);
};

/**
 * Kills the recorded groups of dead service processes and deletes their records. Resolves to the killed groups, by
 * Task.
 */
export const endRecordedGroups = async (folder: string, own: string, log: Log): Promise<Map<string, number[]>> => {
  const killed = new Map<string, number[]>();
  let files: string[];
  try {
    files = readdirSync(folder);
  } catch {
    return killed;
  }
  for (const file of files) {
    if (file === own || ownerLives(file)) continue;
    const { boot, groups } = parse(readFileSync(join(folder, file), "utf8"));
    if (boot === bootID())
      for (const group of groups.values()) {
        if (members(group).length === 0) continue;
        killGroup(group.pgid);
        killed.set(group.taskID, [...(killed.get(group.taskID) ?? []), group.pgid]);
        const deadline = performance.now() + 2000;
        while (members(group).length > 0 && performance.now() < deadline) await wait(5);
        if (members(group).length > 0) log.error({ pgid: group.pgid }, "process group outlived SIGKILL by two seconds");
      }
    rmSync(join(folder, file), { force: true });
  }
  return killed;
};
