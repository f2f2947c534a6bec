import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import Database from "better-sqlite3";
import { messageOf } from "../../error.ts";

/**
 * The process of `integrity.ts`. It writes "ok" or what is wrong with the given file, or else why that could not be
 * found out, and then ends with exit code 1. The check runs in a thread, so that the process notices the end of its
 * input, and ends together with the service that started it.
 */

type Found = { text: string; code: 0 | 1 };

const check = (file: string): Found => {
  try {
    const database = new Database(file, { readonly: true });
    try {
      return { text: String(database.pragma("quick_check(1)", { simple: true })), code: 0 };
    } finally {
      database.close();
    }
  } catch (error) {
    // Damage is a finding; a file that could not be opened or read says nothing about it.
    const damaged = error instanceof Database.SqliteError && /CORRUPT|NOTADB/.test(error.code);
    return { text: messageOf(error), code: damaged ? 0 : 1 };
  }
};

if (isMainThread) {
  process.stdin.on("end", () => process.kill(process.pid, "SIGKILL")).resume();
  new Worker(new URL(import.meta.url), { workerData: process.argv[2] }).once("message", ({ text, code }: Found) =>
    process.stdout.write(text, () => process.exit(code)),
  );
} else {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- the port of a thread has no origin
  parentPort?.postMessage(check(String(workerData)));
}
