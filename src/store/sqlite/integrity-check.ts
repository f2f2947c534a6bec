import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import Database from "better-sqlite3";
import { messageOf } from "../../error.ts";

/**
 * The process of `integrity.ts`: writes "ok" or what is wrong with the file that it is given. The check runs in a thread,
 * so that the process sees the end of its input and is gone with whoever started it.
 */

const check = (file: string): string => {
  try {
    const database = new Database(file, { readonly: true });
    try {
      return String(database.pragma("quick_check(1)", { simple: true }));
    } finally {
      database.close();
    }
  } catch (error) {
    return messageOf(error);
  }
};

if (isMainThread) {
  process.stdin.on("end", () => process.kill(process.pid, "SIGKILL")).resume();
  new Worker(new URL(import.meta.url), { workerData: process.argv[2] }).once("message", (found: string) =>
    process.stdout.write(found, () => process.exit(0)),
  );
} else {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- the port of a thread has no origin
  parentPort?.postMessage(check(String(workerData)));
}
