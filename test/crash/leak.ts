import { spawn } from "node:child_process";
import { openSync } from "node:fs";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import Database from "better-sqlite3";

/** What a service that leaks keeps of each Task that ends: the controls of what looks for such. */

export const leaks = ["heap", "memory", "descriptors", "threads", "processes", "database"] as const;
export type Leak = (typeof leaks)[number];

/** One in so many Tasks leaves a thread and a process. */
const rare = 5;

/**
 * What is kept lives as long as the process: so many KB of the heap and of the database, and outside the heap four
 * times as many. Each call is a Task that ended.
 */
export const leakOf = (kinds: readonly Leak[], kB: number, dataDir: string): (() => void) => {
  const kept: unknown[] = [];
  let ended = 0;
  const opened = kinds.includes("database") ? new Database(join(dataDir, "sortie.db")) : undefined;
  opened?.exec("create table leaked (bytes blob)");
  const insert = opened?.prepare("insert into leaked values (randomblob(?))");
  const keep: Record<Leak, () => void> = {
    // Numbers that are no integers take eight bytes each.
    heap: () => kept.push(Array.from({ length: kB * 125 }, () => Math.random())),
    memory: () => kept.push(Buffer.alloc(kB * 4000, 1)),
    descriptors: () => kept.push(openSync("/dev/null", "r")),
    threads() {
      if (ended % rare === 0) kept.push(new Worker("setInterval(() => {}, 1e6)", { eval: true }));
    },
    processes() {
      // Ends by itself when the service is gone.
      if (ended % rare === 0) kept.push(spawn("cat", { stdio: ["pipe", "ignore", "ignore"] }));
    },
    database: () => insert?.run(kB * 1000),
  };
  return () => {
    ended += 1;
    for (const kind of kinds) keep[kind]();
  };
};
