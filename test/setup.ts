import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import type { TestProject } from "vitest/node";
import { leanMemory } from "./harness/lean-memory.ts";
import { slowTests } from "./harness/runner.ts";
import { endAtStandstill } from "./harness/standstill.ts";

/**
 * Around the whole run: a folder for what all tests use (test/harness/built.ts), and one loud line that says what did
 * not run for want of PostgreSQL (test/harness/postgres.ts), a sandbox or a browser. At the end the slowest tests,
 * whatever the reporters are.
 */
export default function setup({ vitest }: TestProject): () => void {
  const folder = mkdtempSync(join(tmpdir(), "sortie-skips-"));
  const file = join(folder, "skips");
  process.env["TEST_SKIPS"] = file;
  // Half of a start is compiling, and the tests start hundreds of processes.
  process.env["NODE_COMPILE_CACHE"] = join(folder, "compiled");
  // For the workers alone: test/harness/usual-memory.ts takes it away from what they start.
  for (const [name, value] of Object.entries(leanMemory)) process.env[name] = value;
  // A third of `git init` is copying fourteen samples of hooks, and the tests make hundreds of repositories.
  const template = join(folder, "template");
  for (const name of ["hooks", "info"]) mkdirSync(join(template, name), { recursive: true });
  process.env["GIT_TEMPLATE_DIR"] = template;
  // Most projects of the tests are alike: each kind is made once and copied (test/harness/project.ts).
  const projects = join(folder, "projects");
  mkdirSync(projects);
  process.env["TEST_PROJECTS"] = projects;
  if (isWholeDay()) process.env["TEST_PART"] ??= "day";
  const standstill = endAtStandstill(vitest, 2 * vitest.config.testTimeout + 200_000);
  return () => {
    standstill[Symbol.dispose]();
    const lines = existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
    const tiers = existsSync(`${file}-tiers`) ? readFileSync(`${file}-tiers`, "utf8").trim().split("\n") : [];
    const blind = existsSync(`${file}-browser`) ? readFileSync(`${file}-browser`, "utf8").trim().split("\n") : [];
    rmSync(folder, { recursive: true, force: true });
    process.stdout.write(slowest(vitest));
    if (process.env["TEST_PART"] === "day")
      process.stdout.write(`
${slowTests.size} slow tests were left to npm run test:slow (test/slow.json).

`);
    for (const tier of new Set(tiers))
      process.stderr.write(
        `\n!!! TESTS SKIPPED: sandbox tier ${tier} does not work here (bubblewrap 0.8, util-linux).\n\n`,
      );
    const unseen = blind.reduce((sum, line) => sum + Number(line), 0);
    if (unseen > 0)
      process.stderr.write(
        `\n!!! ${unseen} TESTS SKIPPED: no Chromium on PATH (Debian: apt-get install chromium).\n\n`,
      );
    const count = lines.reduce((sum, line) => sum + Number(line.split(" ")[0]), 0);
    const where = lines[0]?.replace(/^\d+ /, "");
    if (count > 0)
      process.stderr.write(
        `\n!!! ${count} TESTS SKIPPED: no PostgreSQL answers at ${where}. Set SERVICE_TEST_DATABASE_URL.\n\n`,
      );
  };
}

/** The whole suite by day: no file, test or change is named. */
const isWholeDay = (): boolean =>
  process.env["MODE"] !== "night" &&
  !process.argv
    .slice(2)
    .some((word) => (word.startsWith("-") ? /^(?:-t|--changed|--test)/.test(word) : word !== "run"));

/** The ten slowest tests; nothing to say where hardly more than ten ran. */
const slowest = ({ state, config }: TestProject["vitest"]): string => {
  const tests = state
    .getTestModules()
    .flatMap((module) =>
      [...module.children.allTests()].map((test) => ({
        seconds: (test.diagnostic()?.duration ?? 0) / 1000,
        name: `${relative(config.root, module.moduleId)} > ${test.fullName}`,
      })),
    )
    .toSorted((a, b) => b.seconds - a.seconds);
  if (tests.length < 20) return "";
  const lines = tests.slice(0, 10).map(({ seconds, name }) => `${seconds.toFixed(1).padStart(7)} s  ${name}\n`);
  return `\nThe ten slowest tests:\n${lines.join("")}`;
};
