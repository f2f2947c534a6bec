import type { ChildProcess } from "node:child_process";
import { spawnForTask } from "../sandbox/spawn.ts";
import type { Open, Start } from "./frame.ts";
import { commandScript } from "./init-script.ts";
import { makePipes, openPipes, type Pipes, slotCount } from "./pipe.ts";
import { createSpare } from "./spare.ts";

/**
 * One open sandbox, kept for all commands of a Task, because opening one costs more than the rest of a step. Its
 * process 1 is bash with the script of `runner/init-script.ts`: it reads jobs from standard input, starts each in its
 * own process group, and reports on standard output how they end. A command's outputs arrive over named pipes
 * (`runner/pipe.ts`), opened anew for each command, so that their end still means that no process holds them.
 *
 * While nothing runs, processes are kept waiting for the next command (`runner/spare.ts`).
 */

export type SandboxListener = {
  started(): void;
  output(from: "stdout" | "stderr", chunk: Buffer): boolean;
  exit(code: number | null): void;
  close(): void;
  failed(message: string): void;
  /** The sandbox ended before the command began; the command may be tried in another sandbox. */
  lost(): void;
};

export interface OpenSandbox {
  readonly pid: number | undefined;
  start(id: number, start: Start, listener: SandboxListener): void;
  kill(id: number): void;
  drop(id: number): void;
  /** Stops all commands where they are, or lets them continue. */
  hold(held: boolean): void;
  /** The service can take output again. */
  resume(): void;
  end(): void;
}

type Job = {
  id: number;
  script: Buffer;
  fresh: boolean;
  /** The job was given to spare processes, which have not reported its start. */
  given: boolean;
  listener: SandboxListener;
  slot: number | undefined;
  pipes: Pipes | undefined;
  group: string | undefined;
  waiter: string | undefined;
  closed: boolean;
  exited: boolean;
  /** Its leftover processes are being killed, and process 1 has not confirmed that yet. */
  sweeping: boolean;
  killed: boolean;
  ask: NodeJS.Timeout | undefined;
};

export const couldNotStart = (why: string): string => `The sandbox could not be started: ${why}. Nothing was run.`;

/**
 * How long after its pipes closed we wait for a job's exit, in milliseconds, before asking whether its waiter is alive.
 */
const askMs = 50;

/**
 * How long after a job was killed its exit may take, in milliseconds. A command can stop or kill the waiter that
 * reports it, since both run as the same user.
 */
const reportMs = 500;

/** How long a sandbox may take to end by itself after the end of its input, in milliseconds. */
const inputMs = 10_000;

/** `gone` is called when the sandbox has ended; `why`: its error output if it never became ready. */
export const openSandbox = (
  { file, args, env, folder, filter, ahead = false, pipes, byInput = false }: Open,
  gone: (why: string | undefined) => void,
): OpenSandbox => {
  const child: ChildProcess = spawnForTask(
    file,
    args,
    { detached: true, env, stdio: ["pipe", "pipe", "pipe"] },
    { filter },
  );
  const jobs = new Map<number, Job>();
  const waiting: Job[] = [];
  const free: number[] = [];
  /** Slots whose pipes exist or are being made. */
  let slots = 0;
  let making = 0;
  /** Slots whose pipes were still held by a process when we stopped listening. */
  const held: number[] = [];
  let ready = false;
  /** `over`: the sandbox's process is gone; `ended`: its commands have been notified of that. */
  let over = false;
  let ended = false;
  let errors = "";
  let text = "";

  const say = (line: string) => child.stdin?.write(line);
  const spare = createSpare<Job>(folder, say, {
    output: (job, from, chunk) => job.listener.output(from, chunk),
    closed: (job) => closed(job),
  });
  const end = (job: Job) => {
    say(`k ${job.group}\n`);
    setTimeout(() => {
      if (job.exited || ended) return;
      say(`k ${job.waiter}\n`);
      inquire(job);
    }, reportMs);
  };
  /**
   * A killed job that has not reported its start gets the same time to do so: another command may have stopped it, and
   * its group is unknown.
   */
  const endUnreported = (job: Job) => {
    setTimeout(() => {
      if (job.group !== undefined || job.exited || ended) return;
      job.pipes?.release();
      say(`c ${job.slot}\n`);
    }, reportMs);
  };
  const busy = () => [...jobs.values()].some((job) => job.slot !== undefined && !job.exited);

  const shut = () => {
    child.stdin?.end();
    if (byInput) setTimeout(kill, inputMs).unref();
    else kill();
  };
  const kill = () => {
    child.kill("SIGKILL");
    if (child.pid !== undefined)
      try {
        process.kill(-child.pid, "SIGKILL");
      } catch {}
  };

  /** Makes the spare processes for the next command. */
  const prepare = () => {
    if (!ahead || !ready || over || spare.isThere() || jobs.size > 0 || held.length > 0) return;
    const slot = free.shift();
    if (slot === undefined) return;
    try {
      spare.prepare(slot);
    } catch {
      // The next command tries again, and reports the error.
      free.push(slot);
    }
  };
  /** Gives the job to the spare processes. Returns whether they took it. */
  const handOver = (job: Job): boolean => {
    if (job.fresh) spare.dismiss();
    const given = spare.give(job, job.script);
    if (given === undefined) return false;
    Object.assign(job, given, { given: true });
    job.ask = setTimeout(inquire, askMs, job);
    return true;
  };

  const begin = (job: Job) => {
    if (handOver(job)) return;
    const slot = free.shift();
    if (slot === undefined) {
      waiting.push(job);
      if (making < waiting.length) grow();
      return;
    }
    try {
      job.pipes = openPipes(folder, slot, {
        output: (from, chunk) => job.listener.output(from, chunk),
        closed: () => closed(job),
      });
    } catch (error) {
      free.push(slot);
      refuse(job, error);
      return;
    }
    job.slot = slot;
    say(`r ${slot} ${job.script.length}\n`);
    child.stdin?.write(job.script);
  };
  const next = () => {
    const job = waiting.shift();
    if (job !== undefined) begin(job);
  };
  /** Adds a slot, when more commands run at once than ever before. */
  const grow = () => {
    if (slots === slotCount) return;
    const slot = slots;
    slots += 1;
    making += 1;
    makePipes(
      folder,
      slot,
      (problem) => {
        making -= 1;
        if (over) {
          lose();
          return;
        }
        if (problem === undefined) {
          free.push(slot);
          if (ready) next();
          prepare();
          return;
        }
        slots -= 1;
        const job = waiting.shift();
        if (job !== undefined) refuse(job, problem);
      },
      pipes,
    );
  };
  const refuse = (job: Job, error: unknown) => {
    jobs.delete(job.id);
    job.listener.failed(`The sandbox could not take the command: ${String(error)}`);
  };

  /** `alone`: the command has left no process behind. */
  const exited = (job: Job, code: number | null, alone = false) => {
    if (job.exited) return;
    job.exited = true;
    job.listener.exit(code);
    // No process may outlive its command. If no other command runs, everything in the sandbox can be killed.
    if (busy()) say(`k ${job.group}\n`);
    else if (!alone || held.length > 0) {
      job.sweeping = !ended;
      say(`q ${job.slot}\n`);
    }
    settle(job);
  };
  const closed = (job: Job) => {
    if (!jobs.has(job.id)) return;
    job.closed = true;
    if (job.exited) settle(job);
    else job.ask = setTimeout(inquire, askMs, job);
  };
  /** Asks whether the job's waiter is still alive, because no exit was reported, or no start by spare processes. */
  const inquire = (job: Job) => {
    if (job.exited) return;
    clearTimeout(job.ask);
    // Asked even if the waiter ended before it reported its process id: process 1 knows it.
    say(`w ${job.slot} ${job.waiter ?? ""}\n`);
    job.ask = setTimeout(inquire, askMs, job);
  };
  const settle = (job: Job) => {
    if (!job.closed || !job.exited || job.sweeping) return;
    clearTimeout(job.ask);
    job.pipes?.release();
    jobs.delete(job.id);
    if (job.slot !== undefined) free.push(job.slot);
    job.listener.close();
    next();
    if (!job.fresh) prepare();
  };

  /**
   * Whether the job's spare processes ended before it began: it is then tried in another sandbox, unless another
   * command runs in this one.
   */
  const isLost = (job: Job) => job.given && !job.killed && jobs.size === 1;

  const hear = (line: string) => {
    const [verb, slot, first, second] = line.split(" ");
    if (verb === "ready") {
      ready = true;
      for (const job of waiting.splice(0)) begin(job);
      prepare();
      return;
    }
    const news = spare.hear(verb, Number(slot), first);
    // No command is lost by closing the sandbox.
    if (news === "ended") shut();
    if (news === "free") {
      free.push(Number(slot));
      next();
    }
    if (news !== undefined) return;
    // Everything was killed, so no process holds these slots any more.
    if (verb === "q") free.push(...held.splice(0), ...spare.swept());
    const job = [...jobs.values()].find((each) => each.slot === Number(slot));
    if (job === undefined) return;
    if (verb === "s") {
      job.group = first;
      job.waiter = second;
      job.given = false;
      clearTimeout(job.ask);
      job.pipes?.release();
      job.listener.started();
      if (job.killed) end(job);
    } else if (verb === "p") job.waiter = first;
    else if (verb === "x") {
      if (isLost(job)) shut();
      else exited(job, Number(first), second === "alone");
    } else if (verb === "w") {
      // The slot may belong to another command by now.
      if (first !== (job.waiter ?? "")) return;
      if (isLost(job)) shut();
      else exited(job, null);
    } else if (verb === "q") {
      job.sweeping = false;
      settle(job);
    }
  };

  const lose = () => {
    over = true;
    // Pipes that are still being made would end up in a folder that is being removed.
    if (ended || making > 0) return;
    ended = true;
    spare.destroy();
    // The service is notified first, so that a command that is retried gets another sandbox.
    gone(ready || errors.trim() === "" ? undefined : errors.trim());
    for (const job of jobs.values()) {
      // Process 1 reports a job before it starts it: a job that was not reported has not run.
      if (job.group === undefined) {
        jobs.delete(job.id);
        job.pipes?.destroy();
        turnAway(job.listener);
        continue;
      }
      job.sweeping = false;
      exited(job, null);
      job.pipes?.destroy();
    }
    waiting.length = 0;
  };
  const turnAway = (listener: SandboxListener) => {
    if (ready) listener.lost();
    else listener.failed(couldNotStart(errors.trim() || "it was killed"));
  };

  child.stdout?.on("data", (chunk: Buffer) => {
    const lines = (text + chunk.toString("latin1")).split("\n");
    text = lines.pop() ?? "";
    for (const line of lines) hear(line);
  });
  child.stderr?.on("data", (chunk: Buffer) => {
    if (errors.length < 4000) errors += chunk.toString("utf8");
  });
  child.stdin?.on("error", () => {});
  child.once("error", (error) => {
    errors += error.message;
    if (child.pid === undefined) lose();
  });
  child.once("close", lose);
  grow();

  return {
    pid: child.pid,
    start(id, start, listener) {
      const script = Buffer.from(commandScript(start));
      if (script.includes(0)) {
        listener.failed("Expected a command without NUL characters, got one with. Nothing was run.");
        return;
      }
      if (ended) {
        turnAway(listener);
        return;
      }
      const job: Job = {
        id,
        script,
        fresh: start.fresh === true,
        given: false,
        listener,
        slot: undefined,
        pipes: undefined,
        group: undefined,
        waiter: undefined,
        closed: false,
        exited: false,
        sweeping: false,
        killed: false,
        ask: undefined,
      };
      jobs.set(id, job);
      if (ready) begin(job);
      else waiting.push(job);
    },
    kill(id) {
      const job = jobs.get(id);
      if (job === undefined) return;
      job.killed = true;
      if (job.group !== undefined) end(job);
      else if (job.slot === undefined) {
        waiting.splice(waiting.indexOf(job), 1);
        jobs.delete(id);
        job.listener.exit(null);
        job.listener.close();
      } else endUnreported(job);
    },
    drop(id) {
      const job = jobs.get(id);
      if (job === undefined) return;
      if (job.slot !== undefined) held.push(job.slot);
      job.slot = undefined;
      job.exited = true;
      job.sweeping = false;
      job.pipes?.destroy();
    },
    hold(held) {
      if (!ended) say(held ? "h\n" : "g\n");
    },
    resume() {
      for (const { pipes } of jobs.values()) pipes?.resume();
    },
    end: shut,
  };
};
