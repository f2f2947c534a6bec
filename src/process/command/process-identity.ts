import { hash } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { errorCode } from "../../error.ts";
import { statOf } from "./kill.ts";

/** Tells whether a process that left its mark in a file still lives. A process id alone may have been reused by now. */

export type ProcessMark = { pid: number; started: string };

/**
 * undefined: the start time cannot be read now, for example for lack of a file descriptor; a mark without it would look
 * like that of a dead process.
 */
export const thisProcess = (): ProcessMark | undefined => {
  const stat = statOf(process.pid);
  return stat === undefined && process.platform === "linux"
    ? undefined
    : { pid: process.pid, started: stat?.started ?? "" };
};

/** Where only the id can be read, for example for lack of a file descriptor, the id has to suffice. */
export const isAlive = ({ pid, started }: ProcessMark): boolean => {
  const stat = statOf(pid);
  if (stat !== undefined) return !stat.zombie && stat.started === started;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // A mark written by this user's service cannot belong to another user's process.
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

/** Identifies where process ids mean the same: this machine, or this container on it. */
export const processPlace: string = hash(
  "sha256",
  [
    hostname(),
    partOf(() => readFileSync("/etc/machine-id", "utf8")),
    partOf(() => readlinkSync("/proc/self/ns/pid")),
  ].join("\n"),
  "hex",
).slice(0, 16);
