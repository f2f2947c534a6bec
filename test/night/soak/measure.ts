import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import Database from "better-sqlite3";
import type { Leak } from "../../crash/leak.ts";
import type { ServiceProcess } from "../../crash/process.ts";

/** What a service uses at rest, by the names of what a leak would add to. */
export type Use = Record<Leak, number>;

/** What a day may add: KB of memory and of database, and numbers of the others, which come and go by a few. */
export const bounds: Readonly<Use> = {
  heap: 9_000,
  memory: 60_000,
  descriptors: 8,
  threads: 4,
  processes: 2,
  database: 4_000,
};

/** Waits until nothing more is given back: connections have closed, worktrees are gone, idle threads have ended. */
export const atRest = async (service: ServiceProcess): Promise<number> => {
  let least = await service.heapMB();
  let still = 0;
  for (let look = 0; look < 30 && still < 6; look += 1) {
    await pause(1000);
    const now = await service.heapMB();
    still = now < least - 0.05 ? 0 : still + 1;
    least = Math.min(least, now);
  }
  return least;
};

/**
 * Measures. The database is what it has beyond what its events need, by what each byte of them needed at the first
 * time: indexes, lists, states and deliveries.
 */
export const createMeter = (service: ServiceProcess, dataDir: string): (() => Promise<Use>) => {
  let perKept: number | undefined;
  return async () => {
    const heap = (await atRest(service)) * 1000;
    const pid = String(service.child.pid);
    const { kept, size } = databaseOf(dataDir);
    perKept ??= size / kept;
    return {
      heap,
      memory: fieldOf(pid, "VmRSS"),
      descriptors: readdirSync(join("/proc", pid, "fd")).length,
      threads: fieldOf(pid, "Threads"),
      processes: descendantsOf(pid).length,
      database: (size - perKept * kept) / 1000,
    };
  };
};

const fieldOf = (pid: string, name: string): number =>
  Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(readFileSync(join("/proc", pid, "status"), "utf8"))?.[1]);

const descendantsOf = (pid: string): string[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8")
    .split(" ")
    .flatMap((child) => (child === "" ? [] : [child, ...descendantsOf(child)]));

const databaseOf = (dataDir: string): { kept: number; size: number } => {
  const database = new Database(join(dataDir, "sortie.db"), { readonly: true });
  const kept = database.prepare("select sum(length(data)) from events").pluck().get() as number;
  const pages = database.pragma("page_count", { simple: true }) as number;
  const size = pages * (database.pragma("page_size", { simple: true }) as number);
  database.close();
  return { kept, size };
};
