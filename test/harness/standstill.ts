import { execFileSync } from "node:child_process";
import { relative } from "node:path";
import type { TestCase, Vitest } from "vitest/node";

/**
 * Ends a run in which no test has ended for this long, and says what it stood at. The time limits of tests do not reach
 * a worker that is blocked itself (a loop, a program that it waits for synchronously): such a run would stand for ever.
 * A test that may take longer has its own time first.
 */
export const endAtStandstill = (vitest: Vitest, afterMs: number): Disposable => {
  let ended = -1;
  let since = Date.now();
  const timer = setInterval(() => {
    const now = countEnded(vitest);
    if (now !== ended) since = Date.now();
    ended = now;
    const stoodMs = Date.now() - since;
    if (stoodMs < afterMs || stoodMs < longestOpenMs(vitest)) return;
    process.stderr.write(standing(vitest, stoodMs));
    process.exit(1);
  }, 5_000);
  return { [Symbol.dispose]: () => clearInterval(timer) };
};

const testsOf = ({ state }: Pick<Vitest, "state">): TestCase[] =>
  state.getTestModules().flatMap((module) => [...module.children.allTests()]);

const isOpen = (test: TestCase): boolean => test.result().state === "pending";

const countEnded = (vitest: Vitest): number =>
  vitest.state.getFiles().length + testsOf(vitest).filter((test) => !isOpen(test)).length;

/** The longest time limit of a test that has begun, or is still to begin. */
const longestOpenMs = (vitest: Vitest): number =>
  Math.max(
    0,
    ...testsOf(vitest)
      .filter(isOpen)
      .map(({ options }) => options.timeout ?? 0),
  );

/** The files that have not ended with their open tests, and what their workers have started. */
const standing = ({ state, config }: Vitest, stoodMs: number): string => {
  const files = state
    .getTestModules()
    .filter((module) => ["queued", "pending"].includes(module.state()))
    .map((module) => {
      const open = [...module.children.allTests()].filter(isOpen);
      return [relative(config.root, module.moduleId), ...open.map((test) => `  ${test.fullName}`)].join("\n");
    });
  const processes = execFileSync(
    "ps",
    ["--ppid", "2", "-p", "2", "--deselect", "--forest", "-o", "pid,ppid,stat,etimes,wchan:20,args"],
    {
      encoding: "utf8",
      timeout: 10_000,
    },
  );
  return `\n${processes}\n!!! No test has ended for ${Math.round(stoodMs / 1000)} s. These files have not:\n${files.join("\n")}\n\n`;
};
