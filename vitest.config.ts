import { spawnSync } from "node:child_process";
import { configDefaults, defineConfig } from "vitest/config";
import { NightOrder } from "./test/harness/night-order.ts";

/** Milliseconds that it takes to start a program, at its best of some. */
const spawnMs = (): number =>
  Math.min(
    ...Array.from({ length: 10 }, () => {
      const begun = performance.now();
      spawnSync("true");
      return performance.now() - begun;
    }),
  );

/** `npm test` leaves out `test/night`; `npm run test:night` (mode "night") runs everything, and takes its time. */
export default defineConfig(({ mode }) => {
  const night = mode === "night";
  const isQuick = spawnMs() < 4;
  return {
    test: {
      include: ["test/**/*.test.ts"],
      exclude: [...configDefaults.exclude, "test/fixtures/**", ...(night ? [] : ["test/night/**"])],
      // The tests start services, shells and Git: more of them at once only wait for each other.
      globalSetup: ["test/setup.ts"],
      // Every answer of the service is held against docs/openapi.json.
      setupFiles: ["test/harness/usual-memory.ts", "test/harness/answer/setup.ts"],
      // By day without the slow tests.
      runner: "./test/harness/runner.ts",
      ...(night ? { sequence: { sequencer: NightOrder } } : {}),
      pool: "forks",
      // A worker runs one file after the other with the modules it has: loading the service anew for each cost a seventh
      // of the whole run. Modules keep no state; a test that changes the process puts it back.
      isolate: false,
      // Much of the time a test waits for what it started (339 s with three, 315 s with four); where processes are dear,
      // more than there are cores take a third more processor time and wait for each other.
      maxWorkers: isQuick ? 4 : 2,
      // The third is what bin/sortie.js sets, and why is said there.
      // Each program that a worker starts copies its page tables first: a small heap keeps them short (test/setup.ts). A heap
      // that is collected so often would forget code between two uses, which is then compiled again.
      execArgv: [
        "--max-semi-space-size=2",
        "--heap-growing-percent=25",
        "--no-flush-bytecode",
        "--no-wasm-generic-wrapper",
      ],
      maxConcurrency: 3,
      // Nothing runs again, in CI neither: a test that is now red and now green is a fault.
      retry: 0,
      // A real service starts dozens of programs in a test: where each takes three times as long, so does the test.
      testTimeout: night ? 900_000 : isQuick ? 20_000 : 60_000,
      hookTimeout: night ? 120_000 : isQuick ? 20_000 : 60_000,
      teardownTimeout: 5_000,
      // The second that it has by default is too short beside three other workers.
      expect: { poll: { timeout: 10_000 } },
    },
  };
});
