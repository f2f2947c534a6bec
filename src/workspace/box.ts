import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, constants, mkdirSync, openSync } from "node:fs";
import { Socket } from "node:net";
import { join } from "node:path";
import type { Open, Start } from "./frames.ts";

/**
 * One open sandbox, kept for a Task's commands because making one costs more than all the rest of a step. Process 1 in
 * it is bash with the script below; it takes jobs from its standard input, starts each in a process group of its own,
 * and says on its standard output how they end. A command's outputs come over named pipes of one of several slots,
 * opened anew for each command, so that their end still means that nobody holds them any more.
 */

/** Commands at once in one sandbox; one more waits. */
const slotCount = 16;
const streams = ["stdout", "stderr", "held"] as const;
/** How long what a command left may hold its pipes before its slot is given up. */
const askMs = 50;

const pipe = (folder: string, slot: number, stream: number) => join(folder, `${slot}.${stream}`);

/** Descriptors that the service was started with would be doors: a folder among them is one out of any sandbox. */
export const closeOthers =
  'for fd in /proc/self/fd/*; do fd=${fd##*/}; [ "$fd" -le 2 ] 2>/dev/null || eval "exec $fd>&-" 2>/dev/null; done';

/**
 * The waiter of a command is a process of its own, for bash cannot read and wait at once. Both, being copies of a bash
 * that cannot be read, cannot be looked into by what they start; what they start has none of their descriptors.
 */
export const innerScript = (io: string, prelude = ""): string => `${closeOthers}
exec 9>&1 >/dev/null 2>&1
umask 022
${prelude}
set -m
echo ready >&9
while IFS=' ' read -r verb a b; do
  case $verb in
    r) IFS= read -r -N "$b" job
       { set -m
         waiter=$BASHPID
         { exec </dev/null 3>'${io}'/$a.2 >'${io}'/$a.0 2>'${io}'/$a.1
           echo "s $a $BASHPID $waiter" >&9
           exec 9>&-
           eval "$job"; } &
         wait $!
         echo "x $a $?" >&9; } & ;;
    k) kill -9 -- "-$a" ;;
    q) kill -9 -1
       echo "q $a" >&9 ;;
    w) if kill -0 "$b"; then echo "w $a 1" >&9; else echo "w $a 0" >&9; fi ;;
  esac
done
`;

export type BoxListener = {
  started(): void;
  output(from: "stdout" | "stderr", chunk: Buffer): boolean;
  exit(code: number | null): void;
  close(): void;
  failed(message: string): void;
};

export interface Box {
  readonly pid: number | undefined;
  start(id: number, start: Start, listener: BoxListener): void;
  kill(id: number): void;
  drop(id: number): void;
  /** The service takes output again. */
  resume(): void;
  end(): void;
}

type Job = {
  id: number;
  start: Start;
  listener: BoxListener;
  slot: number | undefined;
  group: string | undefined;
  waiter: string | undefined;
  readers: Socket[];
  /** Our own ends for writing, which keep the pipes open until the command has them. */
  keepers: number[];
  open: number;
  exited: boolean;
  /** What it left is being ended, and process 1 has not said so yet. */
  sweeping: boolean;
  killed: boolean;
  ask: NodeJS.Timeout | undefined;
};

const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** What the child becomes: nothing but the command, with its own environment. */
const jobOf = ({ file, args, cwd, env }: Start): string => {
  const plain = Object.entries(env).filter(([name]) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name));
  const odd = Object.entries(env).filter(([name]) => !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name));
  const exports = plain.map(([name, value]) => `${name}=${quote(value)}`).join(" ");
  const unset = ["LC_ALL", "OLDPWD"].filter((name) => !(name in env)).join(" ");
  const through = odd.length === 0 ? "" : `env ${odd.map(([name, value]) => quote(`${name}=${value}`)).join(" ")} `;
  return [
    `cd -- ${quote(cwd)} 2>&2 || exit 126`,
    ...(unset === "" ? [] : [`unset ${unset}`]),
    ...(exports === "" ? [] : [`export ${exports}`]),
    `exec ${through}${[file, ...args].map(quote).join(" ")}`,
  ].join("\n");
};

export const openBox = ({ file, args, env, folder }: Open, gone: () => void): Box => {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const names = Array.from({ length: slotCount }, (_, slot) => streams.map((_name, at) => pipe(folder, slot, at)));
  const make = 'n=$1; shift; mkfifo -m 600 -- "${@:1:n}" && shift "$n" && exec "$@"';
  const pipes = names.flat();
  const child: ChildProcess = spawn("bash", ["-c", make, "sandbox", String(pipes.length), ...pipes, file, ...args], {
    detached: true,
    env,
    stdio: ["pipe", "pipe", "pipe"],
  });
  const jobs = new Map<number, Job>();
  const waiting: Job[] = [];
  const free = Array.from({ length: slotCount }, (_, slot) => slot);
  let ready = false;
  let ended = false;
  let errors = "";
  let text = "";

  const say = (line: string) => child.stdin?.write(line);
  const busy = () => [...jobs.values()].some((job) => job.slot !== undefined && !job.exited);

  const finish = (job: Job) => {
    clearTimeout(job.ask);
    for (const fd of job.keepers.splice(0)) closeSync(fd);
    jobs.delete(job.id);
    if (job.slot !== undefined) free.push(job.slot);
    job.listener.close();
    next();
  };
  const settle = (job: Job) => {
    if (job.open === 0 && job.exited && !job.sweeping) finish(job);
  };
  const exited = (job: Job, code: number | null) => {
    if (job.exited) return;
    job.exited = true;
    job.listener.exit(code);
    // Nothing may outlive its command; alone in here, it is all that there is.
    if (busy()) say(`k ${job.group}\n`);
    else {
      job.sweeping = !ended;
      say(`q ${job.slot}\n`);
    }
    settle(job);
  };
  /** The pipes are closed and no exit was told: is there still somebody to tell it? */
  const inquire = (job: Job) => {
    if (job.exited) return;
    if (job.waiter !== undefined) say(`w ${job.slot} ${job.waiter}\n`);
    job.ask = setTimeout(inquire, askMs, job);
  };
  const closed = (job: Job) => {
    job.open -= 1;
    if (job.open > 0) return;
    if (job.exited) settle(job);
    else job.ask = setTimeout(inquire, askMs, job);
  };

  const begin = (job: Job) => {
    const slot = free.shift();
    if (slot === undefined) {
      waiting.push(job);
      return;
    }
    job.slot = slot;
    try {
      for (const [at, name] of streams.entries()) {
        const path = pipe(folder, slot, at);
        const reader = new Socket({
          fd: openSync(path, constants.O_RDONLY | constants.O_NONBLOCK),
          readable: true,
          writable: false,
        });
        job.readers.push(reader);
        job.keepers.push(openSync(path, constants.O_WRONLY | constants.O_NONBLOCK));
        job.open += 1;
        if (name === "held") reader.resume();
        else
          reader.on("data", (chunk: Buffer) => {
            if (!job.listener.output(name, chunk)) reader.pause();
          });
        reader.on("error", () => {});
        reader.once("close", () => closed(job));
      }
    } catch (error) {
      for (const reader of job.readers) reader.removeAllListeners("close").destroy();
      for (const fd of job.keepers.splice(0)) closeSync(fd);
      jobs.delete(job.id);
      job.listener.failed(`The sandbox could not take the command: ${String(error)}`);
      return;
    }
    const script = Buffer.from(jobOf(job.start));
    say(`r ${slot} ${script.length}\n`);
    child.stdin?.write(script);
  };
  const next = () => {
    const job = waiting.shift();
    if (job !== undefined) begin(job);
  };

  const hear = (line: string) => {
    const [verb, slot, first, second] = line.split(" ");
    if (verb === "ready") {
      ready = true;
      for (const job of waiting.splice(0)) begin(job);
      return;
    }
    const job = [...jobs.values()].find((each) => each.slot === Number(slot));
    if (job === undefined) return;
    if (verb === "s") {
      job.group = first;
      job.waiter = second;
      for (const fd of job.keepers.splice(0)) closeSync(fd);
      job.listener.started();
      if (job.killed) say(`k ${job.group}\n`);
    } else if (verb === "x") exited(job, Number(first));
    else if (verb === "w" && first === "0") exited(job, null);
    else if (verb === "q") {
      job.sweeping = false;
      settle(job);
    }
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
  child.once("close", () => lose());
  const lose = () => {
    if (ended) return;
    ended = true;
    const why = errors.trim();
    for (const job of jobs.values()) {
      if (job.slot === undefined) {
        jobs.delete(job.id);
        job.listener.failed(
          `The sandbox ${ready ? "was ended" : "could not be started"}${why === "" ? "" : `: ${why}`}. Nothing was run.`,
        );
        continue;
      }
      job.sweeping = false;
      exited(job, null);
      for (const fd of job.keepers.splice(0)) closeSync(fd);
      for (const reader of job.readers) reader.destroy();
    }
    waiting.length = 0;
    gone();
  };

  return {
    pid: child.pid,
    start(id, start, listener) {
      const job: Job = {
        id,
        start,
        listener,
        slot: undefined,
        group: undefined,
        waiter: undefined,
        readers: [],
        keepers: [],
        open: 0,
        exited: false,
        sweeping: false,
        killed: false,
        ask: undefined,
      };
      jobs.set(id, job);
      if (ended) {
        jobs.delete(id);
        listener.failed(`The sandbox could not be started: ${errors.trim() || "it was ended"}. Nothing was run.`);
      } else if (ready) begin(job);
      else waiting.push(job);
    },
    kill(id) {
      const job = jobs.get(id);
      if (job === undefined) return;
      job.killed = true;
      if (job.group !== undefined) say(`k ${job.group}\n`);
      else if (job.slot === undefined) {
        waiting.splice(waiting.indexOf(job), 1);
        jobs.delete(id);
        listenerEnd(job);
      }
    },
    drop(id) {
      const job = jobs.get(id);
      if (job === undefined) return;
      // Somebody still holds these pipes: the slot is not used again.
      job.slot = undefined;
      job.exited = true;
      job.sweeping = false;
      for (const reader of job.readers) reader.destroy();
    },
    resume() {
      for (const job of jobs.values()) for (const reader of job.readers) reader.resume();
    },
    end() {
      child.stdin?.end();
      child.kill("SIGKILL");
      if (child.pid !== undefined)
        try {
          process.kill(-child.pid, "SIGKILL");
        } catch {}
    },
  };
};

const listenerEnd = ({ listener }: Job): void => {
  listener.exit(null);
  listener.close();
};
