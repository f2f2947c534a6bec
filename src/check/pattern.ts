import { Worker } from "node:worker_threads";
import { messageOf } from "../error.ts";

export const searchMs = 2000;

/**
 * Whether a caller's regular expression is found in a text, within a time: some take longer than anybody lives, and
 * would stop the whole service. So it is tried in a thread that can be ended. A string says why there is no answer.
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
