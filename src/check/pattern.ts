import { Worker } from "node:worker_threads";
import { messageOf } from "../error.ts";

export const searchMs = 2000;

/**
 * Whether a caller's regular expression matches a text. Some expressions backtrack practically forever and would block
 * the whole service, so it runs in a thread that can be terminated. Resolves to a string when there is no answer within
 * the time; it says why.
 */
export const matchesPattern = (pattern: string, text: string, timeoutMs = searchMs): Promise<boolean | string> =>
  new Promise((resolve) => {
    const worker = new Worker(thread, {
      eval: true,
      workerData: { pattern, text },
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: 64 },
    });
    const end = (answer: boolean | string) => {
      clearTimeout(timer);
      resolve(answer);
      void worker.terminate();
    };
    const timer = setTimeout(end, timeoutMs, `took longer than ${timeoutMs / 1000} s to search for`);
    worker.once("message", (found: boolean) => end(found));
    worker.once("error", (error: unknown) => end(`could not be searched (${messageOf(error)}) for`));
  });

const thread = `
const { parentPort, workerData } = require("node:worker_threads");
parentPort.postMessage(new RegExp(workerData.pattern, "m").test(workerData.text));
`;
