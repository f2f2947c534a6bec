import { z } from "zod";
import { plainText } from "../../process/plain-text.ts";
import { answer, failed, maxOutput, ok, outputPath, truncatedResult } from "../result.ts";
import type { Tool, ToolContext, ToolResult, BackgroundCommand } from "../tool.ts";

const input = z.strictObject({
  action: z.enum(["read", "wait", "kill", "list"]),
  id: z.string().optional(),
  seconds: z.number().min(0).max(600).optional().describe("To wait; read: default 0, wait: 60"),
});

export const process: Tool<z.infer<typeof input>> = {
  name: "process",
  description:
    "Background commands: `read` what one wrote since the last read; `wait` for its end first; `kill` it and all it started; `list`.",
  input,
  effect: "unknown",
  run: (call, context) => answer(context.signal, () => act(call, context)),
};

const act = async ({ action, id, seconds }: z.infer<typeof input>, context: ToolContext): Promise<ToolResult> => {
  const { background, limits, signal } = context;
  if (action === "list") {
    const lines = background
      .list()
      .map((job) => `${stateOf(job)} ${job.command.slice(0, 200).replaceAll("\n", " ⏎ ")}`);
    return ok(lines.length === 0 ? "No background command." : lines.join("\n"));
  }
  if (id === undefined) return failed(`Expected \`id\` for ${action}.`);
  const job = background.find(id);
  if (typeof job === "string") return failed(job);
  const ms = Math.min(seconds ?? (action === "wait" ? 60 : 0), limits.commandMaxSeconds) * 1000;
  switch (action) {
    case "read":
      if (ms > 0) await job.wait("output", ms, signal);
      break;
    case "wait":
      await job.wait("end", ms, signal);
      break;
    case "kill":
      await job.kill();
      break;
  }
  return report(job, context);
};

/** Ended commands that have already been recorded as evidence. */
const proven = new WeakSet<BackgroundCommand>();

/** The first report of a named command's end is evidence. */
const proofOf = async (job: BackgroundCommand, context: ToolContext): Promise<Pick<ToolResult, "evidence">> => {
  const ran = job.ended();
  if (ran?.exitCode == null || proven.has(job) || !context.isNamed(job.command)) return {};
  proven.add(job);
  const output = (await plainText(ran.output)).trimEnd();
  return { evidence: { command: job.command, output, tree: await context.workspace.tree() } };
};

/** The state in one line, then the new output; once the command has ended, also where the whole output can be read. */
export const report = async (
  job: BackgroundCommand,
  context: ToolContext,
  first = stateOf(job),
): Promise<ToolResult> => {
  const text = (await plainText(job.take())).trimEnd();
  const ran = job.ended();
  const shown = truncatedResult(text, context);
  // Short output is already in the conversation, in the results of earlier reads.
  const all = ran !== undefined && ran.output.length > Math.max(text.length + 2, maxOutput) ? ran.output : undefined;
  const lines = [first, text === "" ? "(no new output)" : shown.output];
  if (all !== undefined)
    lines.push(`… all of its output: \`read\` or \`search\` path ${outputPath}${context.callID} …`);
  return {
    ...shown,
    ...(await proofOf(job, context)),
    ...(all === undefined ? {} : { full: all }),
    output: lines.join("\n"),
    ...(ran?.exitCode == null ? {} : { exitCode: ran.exitCode }),
  };
};

const stateOf = (job: BackgroundCommand): string => {
  const seconds = `${job.seconds().toFixed(1)} s`;
  const ran = job.ended();
  if (ran === undefined) return `${job.id} has been running for ${seconds}.`;
  if (job.swept())
    return `${job.id} was stopped after ${seconds}: the service stops background commands when you finish.`;
  switch (ran.ended) {
    case "exit":
      return ran.exitCode === null
        ? `${job.id} was killed by a signal after ${seconds}.`
        : `${job.id} ended with exit code ${ran.exitCode} after ${seconds}.`;
    case "timeout":
      return `${job.id} was stopped at its time limit, after ${seconds}.`;
    case "disk":
      return `${job.id} was stopped after ${seconds}, because the Task uses too much disk space.`;
    case "not-started":
      return `${job.id} could not be started.`;
    case "aborted":
      return `${job.id} was killed after ${seconds}.`;
  }
};
