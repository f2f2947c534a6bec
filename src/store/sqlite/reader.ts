import { Worker } from "node:worker_threads";
import type { CompiledQuery } from "kysely";
import type { Log } from "../../log.ts";
import { messageOf } from "../../error.ts";
import { entryPoint, compileCacheEnv } from "../../package-root.ts";
import type { Reader } from "../sql/reader.ts";
import { unreadable } from "../unavailable.ts";

/**
 * Slow reads of SQLite, in a thread with a read-only connection (`reader-thread.ts`), so that none blocks the service.
 * Its checkpoints run there, too, since they wait for the disk. The thread starts with the first job and ends when none
 * has come for a while.
 */

export type ThreadReader = Reader & AsyncDisposable & { checkpoint(): void };

export type Order =
  | { kind: "query"; sql: string; parameters: readonly unknown[] }
  | { kind: "more" }
  | { kind: "checkpoint" }
  /** The rest of this query is not wanted. */
  | { kind: "end" }
  | { kind: "close" };

/** `fatal`: what a checkpoint wrote may not be on the disk. */
export type Reply = { rows: object[]; done: boolean } | { error: string; fatal: boolean };

/** The most jobs that may wait. */
const most = 1000;

const idleMs = 60_000;

type Job = {
  /** undefined: a checkpoint. */
  query: CompiledQuery | undefined;
  rows: object[];
  settle(rows: object[]): void;
  fail(error: Error): void;
  /** The signal aborted: the caller has its answer already. */
  dropped: boolean;
};

export const createReader = ({
  file,
  log,
  broken,
  idle = idleMs,
}: {
  file: string;
  log: Log;
  /** Called when a checkpoint failed in such a way that nothing more may be written. */
  broken: (error: Error) => void;
  idle?: number;
}): ThreadReader => {
  const waiting: Job[] = [];
  let current: Job | undefined;
  let thread: Worker | undefined;
  let resting: NodeJS.Timeout | undefined;
  let closed = false;

  const start = (): Worker => {
    const made = new Worker(entryPoint("store/sqlite/reader-thread"), {
      workerData: file,
      env: compileCacheEnv(),
      resourceLimits: { maxYoungGenerationSizeMb: 8, maxOldGenerationSizeMb: 256 },
    });
    const lose = (error: unknown): void => {
      if (thread !== made) return;
      thread = undefined;
      if (closed) return;
      log.warn({ error: messageOf(error) }, "the thread that reads the database ended; the next read starts a new one");
      const lost = current;
      current = undefined;
      lost?.fail(unreadable(error));
      next();
    };
    made.on("message", hear);
    made.once("error", lose);
    made.once("exit", (code) => lose(new Error(`the thread ended with exit code ${code}`)));
    return made;
  };

  const tell = (order: Order): void => {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
    thread?.postMessage(order);
  };

  const hear = (reply: Reply): void => {
    const job = current;
    if (job === undefined) return;
    if ("rows" in reply && !reply.done && !job.dropped) {
      for (const row of reply.rows) job.rows.push(row);
      return tell({ kind: "more" });
    }
    current = undefined;
    if ("error" in reply) {
      job.fail(unreadable(new Error(reply.error)));
      if (reply.fatal) broken(new Error(reply.error));
    } else if (reply.done) job.settle(job.rows.length === 0 ? reply.rows : [...job.rows, ...reply.rows]);
    else tell({ kind: "end" });
    next();
  };

  const next = (): void => {
    clearTimeout(resting);
    current = waiting.shift();
    if (current === undefined) return rest();
    try {
      thread ??= start();
    } catch (error) {
      // The machine has no more threads for this process; the next read tries again.
      const lost = current;
      current = undefined;
      lost.fail(unreadable(error));
      return next();
    }
    const { query } = current;
    // A checkpoint keeps no process alive: what it would have written is still in the log at the next start.
    if (query === undefined) return tell({ kind: "checkpoint" });
    thread.ref();
    tell({ kind: "query", sql: query.sql, parameters: query.parameters });
  };

  /** Nothing to read: the thread keeps no process alive, and ends after a while. */
  const rest = (): void => {
    thread?.unref();
    resting = setTimeout(() => {
      const done = thread;
      thread = undefined;
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
      done?.postMessage({ kind: "close" } satisfies Order);
    }, idle);
    resting.unref();
  };

  return {
    rows: <R>(query: CompiledQuery<R>, signal?: AbortSignal) =>
      new Promise<R[]>((resolve, reject) => {
        if (signal?.aborted === true) return reject(signal.reason as Error);
        if (closed) return reject(unreadable(new Error("the store is closed")));
        if (waiting.length >= most) return reject(unreadable(new Error(`${most} reads wait already`)));
        const drop = (): void => {
          job.dropped = true;
          const at = waiting.indexOf(job);
          if (at >= 0) waiting.splice(at, 1);
          reject(signal?.reason as Error);
        };
        const over = (): void => signal?.removeEventListener("abort", drop);
        const job: Job = {
          query,
          rows: [],
          settle(rows) {
            over();
            resolve(rows as R[]);
          },
          fail(error) {
            over();
            reject(error);
          },
          dropped: false,
        };
        signal?.addEventListener("abort", drop, { once: true });
        waiting.push(job);
        if (current === undefined) next();
      }),
    /**
     * Requests a checkpoint after the waiting reads, unless one is waiting already. If it fails, a later one makes up
     * for it.
     */
    checkpoint() {
      if (closed || waiting.length >= most || waiting.some(({ query }) => query === undefined)) return;
      const fail = (error: Error) => log.warn({ error: messageOf(error) }, "a checkpoint of the database failed");
      waiting.push({ query: undefined, rows: [], settle: () => {}, fail, dropped: false });
      if (current === undefined) next();
    },
    async [Symbol.asyncDispose]() {
      if (closed) return;
      closed = true;
      clearTimeout(resting);
      const left = [...waiting.splice(0), ...(current === undefined ? [] : [current])];
      for (const job of left.filter(({ query }) => query !== undefined))
        job.fail(unreadable(new Error("the store is closed")));
      // A statement cannot be cut short, but each is bounded.
      await thread?.terminate();
    },
  };
};
