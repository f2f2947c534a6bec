import { configDefaults, defineConfig } from "vitest/config";

/** `npm test` leaves out `test/night`; `npm run test:night` (mode "night") runs everything, and takes its time. */
export default defineConfig(({ mode }) => {
  const night = mode === "night";
  return {
    test: {
      include: ["test/**/*.test.ts"],
      exclude: [...configDefaults.exclude, "test/fixtures/**", ...(night ? [] : ["test/night/**"])],
      // The tests start services, shells and Git: more of them at once only wait for each other.
      globalSetup: ["test/setup.ts"],
      // Every answer of the service is held against docs/openapi.json.
      setupFiles: ["test/harness/usual-memory.ts", "test/harness/answer/setup.ts"],
      // By day a tenth of the slow tests.
      runner: "./test/harness/runner.ts",
      pool: "forks",
      // A worker runs one file after the other with the modules it has: loading the service anew for each cost a seventh
      // of the whole run. Modules keep no state; a test that changes the process puts it back.
      isolate: false,
      // More than cores, as a test often waits for what it started; a fourth costs a fifth more processor time where processes are dear.
      maxWorkers: 3,
      // Each program that a worker starts copies its page tables first: a small heap keeps them short (test/setup.ts).
      execArgv: ["--max-semi-space-size=2", "--heap-growing-percent=25"],
      maxConcurrency: 3,
      // Nothing runs again, in CI neither: a test that is now red and now green is a fault.
      retry: 0,
      testTimeout: night ? 900_000 : 20_000,
      hookTimeout: night ? 120_000 : 20_000,
      teardownTimeout: 5_000,
    },
  };
});
