import { hash } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { errorCode } from "../../error.ts";
import { statOf } from "./kill.ts";

/** Whether a process that left its mark somewhere still lives. A process id alone may be another's by now. */

export type ProcessMark = { pid: number; started: string };

/** undefined: it cannot be read now, as without a descriptor, and a mark without it would be that of a dead process. */
export const thisProcess = (): ProcessMark | undefined => {
  const stat = statOf(process.pid);
  return stat === undefined && process.platform === "linux"
    ? undefined
    : { pid: process.pid, started: stat?.started ?? "" };
};

/** Where there is no more to read than the id, as without a descriptor, it has to do. */
export const isAlive = ({ pid, started }: ProcessMark): boolean => {
  const stat = statOf(pid);
  if (stat !== undefined) return !stat.zombie && stat.started === started;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // What a service of this user's wrote has no process of another's.
    return errorCode(error) === "EPERM" && process.platform !== "linux";
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
