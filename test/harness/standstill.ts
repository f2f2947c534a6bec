import { execFileSync } from "node:child_process";
import { relative } from "node:path";
import type { Vitest } from "vitest/node";

/**
 * Ends a run in which no test has ended for this long, and says what it stood at. The time limits of tests do not reach
 * a worker that is blocked itself (a loop, a program that it waits for synchronously): such a run would stand for ever.
 */
export const endAtStandstill = (vitest: Vitest, afterMs: number): Disposable => {
  let ended = -1;
  let since = Date.now();
  const timer = setInterval(() => {
    const now = countEnded(vitest);
    if (now !== ended) since = Date.now();
    ended = now;
    if (Date.now() - since < afterMs) return;
    process.stderr.write(standing(vitest, afterMs));
    process.exit(1);
  }, 5_000);
  return { [Symbol.dispose]: () => clearInterval(timer) };
};

const countEnded = ({ state }: Vitest): number =>
  state.getFiles().length +
  state
    .getTestModules()
    .flatMap((module) => [...module.children.allTests()])
    .filter((test) => test.result().state !== "pending").length;

/** The files that have not ended with their open tests, and what their workers have started. */
const standing = ({ state, config }: Vitest, afterMs: number): string => {
  const files = state
    .getTestModules()
    .filter((module) => ["queued", "pending"].includes(module.state()))
    .map((module) => {
      const open = [...module.children.allTests()].filter((test) => test.result().state === "pending");
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
  return `\n${processes}\n!!! No test has ended for ${afterMs / 1000} s. These files have not:\n${files.join("\n")}\n\n`;
};
