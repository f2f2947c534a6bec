import { hash } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { statOf } from "./kill.ts";

/** Whether a process that left its mark somewhere still lives. A process id alone may be another's by now. */

export type ProcessMark = { pid: number; started: string };

export const thisProcess = (): ProcessMark => ({ pid: process.pid, started: statOf(process.pid)?.started ?? "" });

export const isAlive = ({ pid, started }: ProcessMark): boolean => {
  const stat = statOf(pid);
  if (stat !== undefined) return !stat.zombie && stat.started === started;
  if (process.platform === "linux") return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
};

const partOf = (read: () => string): string => {
  try {
    return read();
  } catch {
    return "";
  }
};

/** Where process ids mean the same: this machine, or this container of it. */
export const processPlace: string = hash(
  "sha256",
  [
    hostname(),
    partOf(() => readFileSync("/etc/machine-id", "utf8")),
    partOf(() => readlinkSync("/proc/self/ns/pid")),
  ].join("\n"),
  "hex",
).slice(0, 16);
