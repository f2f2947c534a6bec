/** Resource limits of a command and its descendants, as shell commands that run before it. */

/** 0 means no limit. */
export type CommandLimits = {
  commandProcesses: number;
  commandFiles: number;
  commandFileBytes: number;
  commandMemoryBytes: number;
};

/** Shell commands that set the limits. A limit above the system's own has no effect. */
export const limitsOf = (limits: CommandLimits): string => {
  const { commandProcesses, commandFiles, commandFileBytes, commandMemoryBytes } = limits;
  const lines = [
    "ulimit -c 0",
    ...(commandProcesses === 0 ? [] : [`ulimit -u ${commandProcesses}`]),
    ...(commandFiles === 0 ? [] : [`ulimit -n ${commandFiles}`]),
    ...(commandFileBytes === 0 ? [] : [`ulimit -f ${Math.ceil(commandFileBytes / 1024)}`]),
    ...(commandMemoryBytes === 0 ? [] : [`ulimit -v ${Math.ceil(commandMemoryBytes / 1024)}`]),
  ];
  return lines.map((line) => `${line} 2>/dev/null || :`).join("\n");
};
