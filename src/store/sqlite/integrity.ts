import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import Database from "better-sqlite3";
import { messageOf } from "../../error.ts";

/** SQLite's own check of a whole file, in a thread, so that the service keeps answering. */

type Task = { quickCheck: string };

/** What is wrong with the file; undefined if nothing. */
export const quickCheck = (file: string): Promise<string | undefined> =>
  new Promise((resolve, reject) => {
    const data: Task = { quickCheck: file };
    const worker = new Worker(new URL(import.meta.url), { workerData: data });
    worker.once("message", (damage: string | null) => resolve(damage ?? undefined));
    worker.once("error", reject);
    worker.once("exit", (code) => reject(new Error(`The check of ${file} ended with exit code ${code}`)));
  });

const read = (file: string): string | null => {
  try {
    const database = new Database(file, { readonly: true });
    try {
      const found = database.pragma("quick_check(1)", { simple: true });
      return found === "ok" ? null : String(found);
    } finally {
      database.close();
    }
  } catch (error) {
    return messageOf(error);
  }
};

const isTask = (data: unknown): data is Task => typeof data === "object" && data !== null && "quickCheck" in data;
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- the port of a thread has no origin
if (!isMainThread && isTask(workerData)) parentPort?.postMessage(read(workerData.quickCheck));
