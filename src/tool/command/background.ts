import { createBoundedOutput } from "../../process/command/output.ts";
import type { CommandResult } from "../../process/process.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { BackgroundCommands, BackgroundCommand, ToolCommand } from "../tool.ts";

/**
 * Commands of one run that continue while the agent works. Their ids contain the run's epoch, so that ids of earlier
 * runs are recognised. Nothing is durable: the end of the run ends them.
 */

const unreadBytes = 64 * 1024;

/** How many ended commands are remembered. */
const keptJobs = 20;

/** Milliseconds to wait for more output after the first piece arrives. */
const gatherMs = 150;

export const createBackground = (epoch: number): BackgroundCommands => {
  const jobs: (BackgroundCommand & { sweep(): Promise<void> })[] = [];
  let serial = 0;
  return {
    start(workspace, command, most) {
      if (jobs.filter((job) => job.ended() === undefined).length >= most) return undefined;
      const oldest = jobs.length >= keptJobs ? jobs.findIndex((job) => job.ended() !== undefined) : -1;
      if (oldest >= 0) jobs.splice(oldest, 1);
      const job = createJob(`p${epoch}-${(serial += 1)}`, workspace, command);
      jobs.push(job);
      return job;
    },
    find(id) {
      const job = jobs.find((candidate) => candidate.id === id);
      if (job !== undefined) return job;
      const [, run, number] = /^p(\d{1,15})-(\d{1,9})$/.exec(id) ?? [];
      if (run !== undefined && Number(run) < epoch)
        return `${id} ended when the service restarted or your work was interrupted; start it again if you need it.`;
      if (Number(run) === epoch && Number(number) >= 1 && Number(number) <= serial)
        return `${id} ended a while ago and is forgotten.`;
      const known = jobs.map((one) => one.id).join(", ");
      return `There is no background command ${JSON.stringify(id.slice(0, 40))}; ${known === "" ? "none was started" : `there is ${known}`}.`;
    },
    list: () => jobs,
    async end() {
      await Promise.all(jobs.map((job) => job.sweep()));
    },
  };
};

const createJob = (id: string, workspace: Workspace, command: ToolCommand) => {
  const stop = new AbortController();
  const started = performance.now();
  let unread = createBoundedOutput(unreadBytes);
  let fresh = false;
  let ran: CommandResult | undefined;
  let swept = false;
  const waiting = new Set<() => void>();
  const wake = () => {
    for (const go of waiting) go();
  };
  const gone = workspace
    .run({
      ...command,
      signal: stop.signal,
      onOutput(text) {
        unread.add(Buffer.from(text));
        fresh = true;
        wake();
        command.onOutput?.(text);
      },
    })
    .catch(
      (error: unknown): CommandResult => ({
        exitCode: null,
        output: String(error),
        stdout: "",
        dropped: 0,
        ended: "not-started",
        durationMs: 0,
      }),
    )
    .then((result) => {
      ran = result;
      if (result.ended === "not-started") unread.add(Buffer.from(result.output));
      if (result.ended === "disk") unread.add(Buffer.from(`\n${result.output.slice(result.output.lastIndexOf("["))}`));
      wake();
    });

  const next = (ms: number, signal: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      const end = (settle: () => void) => () => {
        clearTimeout(timer);
        waiting.delete(go);
        signal.removeEventListener("abort", abort);
        settle();
      };
      const go = end(resolve);
      const abort = end(() => reject(signal.reason));
      const timer = setTimeout(go, ms);
      waiting.add(go);
      signal.addEventListener("abort", abort, { once: true });
    });

  const kill = async () => {
    stop.abort();
    await gone;
  };
  return {
    id,
    command: command.written,
    ended: () => ran,
    seconds: () => (ran?.durationMs ?? performance.now() - started) / 1000,
    swept: () => swept,
    take() {
      const text = unread.text();
      unread = createBoundedOutput(unreadBytes);
      fresh = false;
      return text;
    },
    async wait(what: "end" | "output", ms: number, signal: AbortSignal) {
      const ready = () => ran !== undefined || (what === "output" && fresh);
      const until = performance.now() + ms;
      while (!ready() && performance.now() < until) {
        signal.throwIfAborted();
        await next(until - performance.now(), signal);
      }
      const more = () => what === "output" && ran === undefined && fresh;
      const gathered = performance.now() + gatherMs;
      while (more() && performance.now() < gathered) await next(gathered - performance.now(), signal);
    },
    kill,
    async sweep() {
      if (ran === undefined) swept = true;
      await kill();
    },
  };
};
