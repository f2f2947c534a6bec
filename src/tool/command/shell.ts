import { join } from "node:path";
import { z } from "zod";
import { plainText } from "../../process/plain-text.ts";
import type { CommandResult } from "../../process/process.ts";
import { isOpenSlice } from "../../domain/state/task.ts";
import { report } from "./process.ts";
import { answer, counted, failed, truncatedResult } from "../result.ts";
import type { Tool, ToolContext, ToolResult } from "../tool.ts";

const input = z.strictObject({
  command: z.string().min(1).max(65_536),
  cwd: z.string().optional().describe("Default: the root"),
  timeoutSeconds: z.number().int().min(1).max(1_000_000).optional(),
  background: z.boolean().optional(),
  proves: z
    .string()
    .optional()
    .describe("Slice that this run is evidence for; `request`: the whole. The project's own commands always are"),
});

export const shell: Tool<z.infer<typeof input>> = {
  name: "shell",
  description:
    "Runs a command. A pipe fails if any part of it does (`pipefail`), `a; b` if `b` does. " +
    "What it started is killed when it exits; for a server or a long job set `background`: you get an id for `process`, and it runs until you finish. " +
    "Prefer your other tools for what they do.",
  input,
  effect: "unknown",
  run: (call, context) =>
    answer(context.signal, () => {
      const proves = provenBy(call, context);
      if (typeof proves === "object" && "refused" in proves) return Promise.resolve(failed(proves.refused));
      return call.background === true ? start(call, context) : run(call, context, proves);
    }),
};

/**
 * What a run would be evidence for: one slice, everything that its agent works on, or nothing. `proves`: the agent
 * named it.
 */
type Proves = { for: { sliceID?: string; proves?: true }; note: string } | undefined;

const provenBy = (
  { command, proves, background }: z.infer<typeof input>,
  context: ToolContext,
): Proves | { refused: string } => {
  if (proves !== undefined && background === true)
    return { refused: "Expected `proves` with a command that you wait for, not in the background. Nothing was run." };
  if (proves === undefined) return context.isNamed(command) ? { for: {}, note: "" } : undefined;
  const whole = { for: { proves: true }, note: "" } as const;
  if (proves === "request") return whole;
  const { slices, sessions } = context.state();
  const own = sessions.find(({ sessionID }) => sessionID === context.sessionID)?.sliceIDs ?? [];
  const open = slices.filter((slice) => isOpenSlice(slice) && (own.length === 0 || own.includes(slice.sliceID)));
  const named =
    open.find(({ sliceID }) => sliceID === proves) ?? open.find(({ contract }) => isTitle(contract, proves));
  if (named !== undefined) return { for: { sliceID: named.sliceID, proves: true }, note: "" };
  const known = open.map(({ sliceID, contract }) => `${sliceID} "${contract.title}"`).join(", ");
  const note = `\n\n[No open slice of yours is called ${JSON.stringify(proves)}, so this counts for all that you work on. Yours: ${known || "none"}.]`;
  return { ...whole, note };
};

const isTitle = ({ title }: { title: string }, words: string): boolean =>
  title.trim().toLowerCase() === words.trim().toLowerCase();

/** Milliseconds to wait for the first output of a background command. */
const firstMs = 1000;

const commandOf = async (
  { command, cwd = "" }: z.infer<typeof input>,
  { workspace, limits, ...context }: ToolContext,
  seconds: number,
) => {
  // Refuses a folder that does not exist, is not a folder, or lies outside.
  await workspace.files.expectFolder(cwd);
  return {
    // `set` is on the command's first line, so that bash counts lines as the model does.
    run: `set -o pipefail; ${command}`,
    written: command,
    cwd: cwd.startsWith("/") ? cwd : join(workspace.root, cwd),
    // The maximum delay of a timer.
    timeoutMs: Math.min(seconds * 1000, 2 ** 31 - 1),
    keepBytes: limits.commandOutputBytes,
    onOutput: (text: string) => context.onOutput(text),
  };
};

const start = async (call: z.infer<typeof input>, context: ToolContext): Promise<ToolResult> => {
  const { workspace, limits, background, signal } = context;
  const cap = limits.minutes * 60;
  const command = await commandOf(call, context, Math.min(call.timeoutSeconds ?? cap, cap));
  const job = background.start(workspace, command, limits.backgroundCommands);
  if (job === undefined)
    return failed(
      `Expected at most ${counted(limits.backgroundCommands, "background command")} at a time; \`process\` lists and kills them.`,
    );
  await job.wait("output", firstMs, signal);
  return job.ended() === undefined
    ? report(job, context, `Runs in the background as ${job.id}.`)
    : report(job, context);
};

/**
 * Removes folders of the tree from the PATH, in case the service was started with one on it: the operator's command
 * must not resolve to a program that agents can change.
 */
const pathOutside =
  'sortie_path=; IFS=:; for sortie_folder in $PATH; do case $sortie_folder/ in "$PWD"/*) ;; /*) sortie_path=$sortie_path:$sortie_folder ;; esac; done; unset IFS; PATH=${sortie_path#:}; unset sortie_path sortie_folder';

const run = async (call: z.infer<typeof input>, context: ToolContext, proves: Proves): Promise<ToolResult> => {
  const { workspace, limits, signal } = context;
  const seconds = Math.min(call.timeoutSeconds ?? limits.commandSeconds, limits.commandMaxSeconds);
  // A command with secrets runs in a sandbox of its own, because other processes in the Task's sandbox could read its
  // variables.
  const secrets = call.cwd === undefined || call.cwd === "" ? context.secretsFor(call.command) : undefined;
  const command = await commandOf(call, context, seconds);
  const alone =
    secrets === undefined ? {} : { env: { ...secrets }, apart: "secrets", run: `${pathOutside}; ${command.run}` };
  const ran = await workspace.run({ ...command, ...alone, signal });
  signal.throwIfAborted();
  const text = (await plainText(ran.output)).trimEnd();
  const note = heldNote(ran);
  const after = `after ${(ran.durationMs / 1000).toFixed(1)} s`;
  const shown = truncatedResult(text, context);
  const evidence =
    proves === undefined || ran.exitCode === null
      ? {}
      : { evidence: { ...proves.for, command: call.command, output: text, tree: await workspace.tree() } };
  const result = (first: string): ToolResult => ({
    ...shown,
    ...evidence,
    outcome: ran.ended === "exit" && ran.exitCode === 0 ? "ok" : "error",
    output: `${first}\n${text === "" ? "(no output)" : shown.output}${note}${proves?.note ?? ""}`,
    ...(ran.exitCode === null ? {} : { exitCode: ran.exitCode }),
  });
  switch (ran.ended) {
    case "exit":
      // null: the command was ended by a signal that the service did not send.
      return result(
        ran.exitCode === null ? `Ended by a signal ${after}.` : `Exit code ${ran.exitCode} ${after}.${cutNote(ran)}`,
      );
    case "timeout":
      return result(`Timed out after ${seconds} s: the command and everything it started were killed.`);
    case "disk":
      return result(`Stopped ${after}, because the Task uses too much disk space.`);
    case "not-started":
      return result("The command could not be started.");
    case "aborted":
      return result(`Aborted ${after}.`);
  }
};

/** 141 is 128 and SIGPIPE: the part of the pipe that was cut off did not fail. */
const cutNote = ({ exitCode }: CommandResult): string =>
  exitCode === 141 ? " 141: the next part of a pipe, such as `head`, ended before it had read everything." : "";

/** Tells the model that a command was held: whatever depends on time may have failed for this reason alone. */
const heldNote = ({ heldMs = 0 }: CommandResult): string =>
  heldMs < 1
    ? ""
    : `\n\n[The service was short of disk space and held this command for ${(heldMs / 1000).toFixed(1)} s of that time.]`;
