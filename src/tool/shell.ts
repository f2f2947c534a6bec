import { join } from "node:path";
import { z } from "zod";
import { answer, failed, fit, type Tool } from "./tool.ts";

const input = z.strictObject({
  command: z.string().min(1).max(65_536).describe("Run by bash"),
  timeoutSeconds: z.number().int().min(1).optional().describe("Default and maximum are the service's"),
  cwd: z.string().optional().describe("Folder, relative to the project's root; default: the root"),
});

export const shell: Tool<z.infer<typeof input>> = {
  name: "shell",
  description:
    "Runs a command with bash in the project: builds, tests, linters, scripts. Standard input is empty. " +
    "Returns the exit code, the time, and standard output and error together (head and tail when long). It returns when the shell exits, " +
    "and ends everything that the command started, so nothing can go on in the background. Prefer `read`, `search`, `edit` and `git` for what they do.",
  input,
  effect: "unknown",
  run: ({ command, timeoutSeconds, cwd = "" }, context) =>
    answer(context.signal, async () => {
      const { workspace, limits, signal } = context;
      // Refuses a folder that is not there, is no folder, or lies outside.
      await workspace.files.list(cwd, { limit: 1 });
      const seconds = Math.min(timeoutSeconds ?? limits.commandSeconds, limits.commandMaxSeconds);
      const ran = await workspace.run({
        run: command,
        cwd: cwd.startsWith("/") ? cwd : join(workspace.root, cwd),
        timeoutMs: seconds * 1000,
        keepBytes: limits.commandOutputBytes,
        signal,
        onOutput: (text) => context.onOutput(text),
      });
      signal.throwIfAborted();
      const text = fit(ran.output.trimEnd(), "send the output to a file and read it in parts");
      const after = `after ${(ran.durationMs / 1000).toFixed(1)} s`;
      const report = (first: string) => (text === "" ? `${first}\n(no output)` : `${first}\n${text}`);
      switch (ran.ended) {
        case "exit":
          // null: a signal that was not ours ended it.
          return ran.exitCode === null
            ? failed(report(`Ended by a signal ${after}.`))
            : {
                outcome: ran.exitCode === 0 ? "ok" : "error",
                output: report(`Exit code ${ran.exitCode} ${after}.`),
                exitCode: ran.exitCode,
              };
        case "timeout":
          return failed(report(`Timed out after ${seconds} s: the command and everything it started were ended.`));
        case "not-started":
          return failed(report("The command could not be started."));
        case "aborted":
          return failed(report(`Aborted ${after}.`));
      }
    }),
};
