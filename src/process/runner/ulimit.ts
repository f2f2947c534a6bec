import { closeOthers } from "./init-script.ts";

/** What a command and what it starts may use at most, as shell commands that run before it. */

/** 0: none. */
export type CommandLimits = {
  commandProcesses: number;
  commandFiles: number;
  commandFileBytes: number;
  commandMemoryBytes: number;
};

/** Those that a process of ours can have too, before anything runs; a limit above the system's own is left out. */
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
