import { isMarkedAsUntransferable, parentPort, Worker } from "node:worker_threads";
import { errorCode, messageOf } from "./error.ts";
import { entryPoint, compileCacheEnv } from "./package-root.ts";

/**
 * Runs work that could hold up the service in a thread: bounded in time and memory, and ended when its caller gives up.
 * Few threads are kept; the first one starts with the first job, and idle ones end, so that an idle service has none.
 */

/**
 * A pure function, or one that only uses the file system, with the name by which a thread finds it. Input and output
 * are copied as `structuredClone` does; bytes in the output are transferred instead.
 */
export type Job<I = never, O = unknown> = { readonly name: string; readonly run: (input: I) => O };

export type ThreadOptions = {
  /** Ends the job, and rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Counted from when the job begins. Default: 30 s. */
  timeoutMs?: number;
  /** Bytes of the input that are transferred where possible, instead of copied: the caller cannot use them any more. */
  give?: readonly Uint8Array[];
};

/** A job took more time or memory than it may. The message says which, for a model or a caller. */
export class ThreadLimit extends Error {
  constructor(message: string) {
    super(message);
    this.name = "ThreadLimit";
  }
}

/** Two, so that a long job does not keep a short one waiting. */
const mostThreads = 2;
const idleMs = 5_000;
const defaultTimeoutMs = 30_000;
/** MiB. Bytes (typed arrays) do not count. */
const heap = { maxOldGenerationSizeMb: 1024, maxYoungGenerationSizeMb: 64 };

type Order = { name: string; input: unknown };
type Answer = { value: unknown } | { error: string; code: string | undefined };
type Waiting = { begin(thread: Thread): void; fail(error: unknown): void };
/** `hear` gets the thread's answer; undefined: its worker has ended. */
type Thread = { worker: Worker; hear: ((answer: Answer | undefined, error?: Error) => void) | undefined };

const idle: { thread: Thread; timer: NodeJS.Timeout }[] = [];
const queue: Waiting[] = [];
let running = 0;

/** Runs a job. Rejects with `ThreadLimit`, with the signal's reason, or with the error of the job. */
export const inThread = <I, O>(job: Job<I, O>, input: I, options: ThreadOptions = {}): Promise<O> =>
  new Promise((resolve, reject) => {
    const { signal, timeoutMs = defaultTimeoutMs, give = [] } = options;
    if (signal?.aborted === true) return reject(signal.reason as Error);
    const leave = () => {
      queue.splice(queue.indexOf(waiting), 1);
      reject(signal?.reason as Error);
    };
    const waiting: Waiting = {
      fail(error) {
        signal?.removeEventListener("abort", leave);
        reject(error);
      },
      begin(thread) {
        signal?.removeEventListener("abort", leave);
        const settle = (how: () => void, reusable: boolean) => {
          clearTimeout(timer);
          signal?.removeEventListener("abort", stop);
          thread.hear = undefined;
          release(thread, reusable);
          how();
        };
        const stop = () => settle(() => reject(signal?.reason as Error), false);
        const late = () =>
          settle(() => reject(new ThreadLimit(`This took longer than ${timeoutMs / 1000} s and was stopped`)), false);
        const timer = setTimeout(late, timeoutMs);
        signal?.addEventListener("abort", stop, { once: true });
        thread.hear = (answer, error) => {
          if (answer === undefined) settle(() => reject(limitOf(error)), false);
          else if ("value" in answer) settle(() => resolve(answer.value as O), true);
          else settle(() => reject(Object.assign(new Error(answer.error), { code: answer.code })), true);
        };
        const order: Order = { name: job.name, input };
        try {
          thread.worker.postMessage(order, [...new Set(give.flatMap(buffersIn))]);
        } catch (error) {
          settle(() => reject(error), true);
        }
      },
    };
    signal?.addEventListener("abort", leave, { once: true });
    queue.push(waiting);
    next();
  });

const limitOf = (error: Error | undefined): Error => {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  if (code === "ERR_WORKER_OUT_OF_MEMORY")
    return new ThreadLimit(`This used more than ${heap.maxOldGenerationSizeMb} MiB of memory and was stopped`);
  return error ?? new Error("A thread of the service ended before its answer");
};

const next = (): void => {
  while (queue.length > 0 && running < mostThreads) {
    const waiting = queue.shift();
    const kept = idle.pop();
    clearTimeout(kept?.timer);
    let thread: Thread;
    try {
      thread = kept?.thread ?? start();
    } catch (error) {
      // The machine has no more threads for this process; the next job tries again.
      waiting?.fail(error);
      continue;
    }
    running += 1;
    thread.worker.ref();
    waiting?.begin(thread);
  }
};

const release = (thread: Thread, reusable: boolean): void => {
  running -= 1;
  if (reusable) {
    thread.worker.unref();
    const timer = setTimeout(() => {
      forget(thread);
      void thread.worker.terminate();
    }, idleMs);
    idle.push({ thread, timer: timer.unref() });
  } else void thread.worker.terminate();
  // Deferred, so that whoever waits for the promise that settles now goes first.
  queueMicrotask(next);
};

const forget = (thread: Thread): void => {
  const at = idle.findIndex((each) => each.thread === thread);
  if (at >= 0) clearTimeout(idle.splice(at, 1)[0]?.timer);
};

const start = (): Thread => {
  const worker = new Worker(entryPoint("service/thread"), {
    env: compileCacheEnv(),
    resourceLimits: heap,
    name: "sortie",
  });
  const thread: Thread = { worker, hear: undefined };
  worker.on("message", (answer: Answer) => thread.hear?.(answer));
  worker.on("error", (error: Error) => thread.hear?.(undefined, error));
  worker.on("exit", () => {
    thread.hear?.(undefined);
    forget(thread);
  });
  return thread;
};

/** Called in the thread, with all jobs. */
export const serveJobs = (jobs: readonly Job[]): void => {
  const known = new Map(jobs.map((job) => [job.name, job.run as (input: unknown) => unknown]));
  parentPort?.on("message", ({ name, input }: Order) => {
    const answer = answerOf(known.get(name), name, input);
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- the port of a thread has no origin
    parentPort?.postMessage(answer, "value" in answer ? [...new Set(buffersIn(answer.value))] : []);
  });
};

const answerOf = (run: ((input: unknown) => unknown) | undefined, name: string, input: unknown): Answer => {
  if (run === undefined) return { error: `Expected a job of service/thread.ts, got ${name}`, code: undefined };
  try {
    return { value: run(input) };
  } catch (error) {
    return { error: messageOf(error), code: errorCode(error) };
  }
};

/** The memory of the bytes in a value, if it may be transferred: small arrays share theirs with others. */
const buffersIn = (value: unknown): ArrayBuffer[] => {
  if (value instanceof Uint8Array)
    return value.buffer instanceof ArrayBuffer && !isMarkedAsUntransferable(value.buffer) ? [value.buffer] : [];
  if (typeof value !== "object" || value === null) return [];
  return Object.values(value).flatMap(buffersIn);
};

/** Restores the methods that bytes lose on their way to another thread; the memory is the same. */
export const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
