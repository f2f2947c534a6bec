import { closeOthers } from "./init-script.ts";

/** Resource limits of a command and its descendants, as shell commands that run before it. */

/** 0 means no limit. */
export type CommandLimits = {
  commandProcesses: number;
  commandFiles: number;
  commandFileBytes: number;
  commandMemoryBytes: number;
};

/**
 * Limits that the runner itself can have too, set once before anything runs. A limit above the system's own is left
 * out.
 */
export const limitsOf = ({ commandProcesses, commandFiles, commandFileBytes }: CommandLimits): string =>
  [
    closeOthers,
    "ulimit -c 0",
    ...(commandProcesses === 0 ? [] : [`ulimit -u ${commandProcesses}`]),
    ...(commandFiles === 0 ? [] : [`ulimit -n ${commandFiles}`]),
    ...(commandFileBytes === 0 ? [] : [`ulimit -f ${Math.ceil(commandFileBytes / 1024)}`]),
  ]
    .map((line) => (line === closeOthers ? line : `${line} 2>/dev/null || :`))
    .join("\n");

export const memoryOf = (bytes: number): string => (bytes === 0 ? "" : `ulimit -v ${Math.ceil(bytes / 1024)}`);
