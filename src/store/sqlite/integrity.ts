import { spawn } from "node:child_process";
import { once } from "node:events";
import { constants, setPriority } from "node:os";
import { text } from "node:stream/consumers";
import { entryPoint } from "../../package-root.ts";

/**
 * SQLite's own check of a whole file, in a process of its own: it takes minutes for a large file and cannot be cut
 * short within a process, so a stop of the service would wait for it. The process has the lowest priority on the
 * machine.
 */

/**
 * What is wrong with the file; undefined: nothing, or the signal aborted first, which ends the process. Rejects if it
 * could not be found out, for example for lack of descriptors: that says nothing about the file.
 */
export const quickCheck = async (file: string, signal: AbortSignal): Promise<string | undefined> => {
  // The process ends itself when its input ends: together with the service, however that ends.
  const child = spawn(process.execPath, [entryPoint("store/sqlite/integrity-check"), file], {
    env: { NODE_NO_WARNINGS: "1" },
    stdio: ["pipe", "pipe", "ignore"],
  });
  // Without descriptors there is neither a process nor its streams.
  if (child.pid === undefined) throw await once(child, "error").then(([error]) => error as Error);
  const end = () => void child.kill("SIGKILL");
  signal.addEventListener("abort", end, { once: true });
  child.stdin.on("error", () => {});
  try {
    const closed = once(child, "close");
    giveWay(child.pid);
    if (signal.aborted) end();
    const [found] = await Promise.all([text(child.stdout), closed]);
    if (signal.aborted) return undefined;
    const [code, ended] = [child.exitCode, child.signalCode];
    if (code !== 0) throw new Error(`The check of ${file} ended with ${found || (ended ?? `exit code ${code}`)}`);
    return found === "ok" ? undefined : found;
  } finally {
    signal.removeEventListener("abort", end);
  }
};

const giveWay = (pid: number): void => {
  try {
    setPriority(pid, constants.priority.PRIORITY_LOW);
  } catch {
    // The process has ended already.
  }
};
