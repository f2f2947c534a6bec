import type { Tracker } from "../process.ts";
import type { RunEngine } from "./engine.ts";

/** Runs an engine's program as one of the service's own: it ends with the service, and the next service finds it. */

const idleMs = 120_000;
const mostBytes = 4 * 1024 * 1024;

export const runThrough =
  (tracker: Tracker): RunEngine =>
  ([file = "", ...args], env) =>
    new Promise((resolve) => {
      const chunks = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
      let bytes = 0;
      const text = (from: keyof typeof chunks) => Buffer.concat(chunks[from]).toString("utf8");
      tracker.start(
        { file, args, cwd: "/", env },
        { idleMs, undisturbed: false },
        {
          output(from, chunk) {
            bytes += chunk.length;
            if (bytes <= mostBytes) chunks[from].push(chunk);
          },
          failed: (message) => resolve({ output: "", error: message }),
          ended(code, signal, killed) {
            const why =
              killed === "idle" ? `it made no progress for ${idleMs / 1000} s` : `it ended with ${code ?? signal}`;
            resolve({ output: text("stdout"), error: code === 0 ? "" : text("stderr").trim() || why });
          },
        },
      );
    });
