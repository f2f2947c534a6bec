import { execFileSync } from "node:child_process";
import { mkdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { silent } from "../src/log.ts";
import { defaultLimits } from "../src/protocol/limit.ts";
import { createProcesses } from "../src/process/service.ts";
import { selfTest } from "../src/process/sandbox/self-test.ts";
import { processGroupSandbox, bubblewrapSandbox, findProgram, type Sandbox } from "../src/process/sandbox/sandbox.ts";
import { createWorkspaces } from "../src/workspace/service.ts";
import type { Figure } from "./figure.ts";
import { type Round, type Row, rowOf } from "./table.ts";

/** What a Task pays until its first command has run, for a project with installed packages: mounted, and copied. */

const path = process.env["PATH"] ?? "";
const packages = 400;

export const dependencies: Figure = async (bench) => {
  const files = bench.quick ? 10 : 50;
  const folder = join(bench.root, "dependencies");
  const project = join(folder, "project");
  for (let at = 0; at < packages; at += 1) {
    mkdirSync(join(project, `node_modules/p${at}/lib`), { recursive: true });
    for (let file = 0; file < files; file += 1)
      writeFileSync(join(project, `node_modules/p${at}/lib/${file}.js`), `module.exports = ${file};\n`.repeat(20));
  }
  writeFileSync(join(project, ".gitignore"), "node_modules/\n");
  const git = (...args: string[]) =>
    execFileSync("git", ["-c", "user.name=B", "-c", "user.email=b@localhost", ...args], { cwd: project });
  git("init", "-q");
  git("add", "-A");
  git("commit", "-q", "-m", "first");

  const dataDir = join(folder, "data");
  const bwrap = findProgram("bwrap", path);
  const options = { path, home: process.env["HOME"] ?? "/root", paths: [], dataDir };
  const boxed = bwrap === undefined ? undefined : bubblewrapSandbox(options, false, bwrap);
  const works = boxed !== undefined && (await selfTest(boxed, path)).ok;
  let serial = 0;
  /** From the request for a workspace to the end of its first command, for new Tasks of one service. */
  const starter = (sandbox: Sandbox, names: string[]) => {
    const processes = createProcesses({
      folder: join(dataDir, "processes"),
      keepEnv: { PATH: path },
      sandbox,
      log: silent,
    });
    const limits = { ...defaultLimits };
    const given = { names, tier: sandbox.tier };
    const workspaces = createWorkspaces({
      dataDir,
      projectRoots: [],
      processes,
      dependencies: given,
      path,
      limits,
      log: silent,
    });
    const start = async (): Promise<number> => {
      const taskID = `task_${(serial += 1)}`;
      const begun = performance.now();
      const workspace = await workspaces.prepare({
        taskID,
        directory: realpathSync(project),
        isolation: "worktree",
        landing: "commit",
      });
      const signal = new AbortController().signal;
      const run = names.length === 0 ? "true" : "[ -e node_modules/p7/lib/7.js ]";
      const ran = await workspace.run({ run, cwd: workspace.root, timeoutMs: 60_000, keepBytes: 1000, signal });
      if (ran.exitCode !== 0) throw new Error(`Expected the folder, got ${ran.output}`);
      const ms = performance.now() - begun;
      await processes.closeSandboxes(taskID);
      await workspaces.remove(taskID);
      return ms;
    };
    return { start, stop: () => processes.stop() };
  };

  const rows: Row[] = [];
  const measure = async (what: string, sandbox: Sandbox, count: number): Promise<void> => {
    const without = starter(sandbox, []);
    const given = starter(sandbox, ["node_modules"]);
    // The first starts the runner and finds out what this machine can mount.
    await without.start();
    await given.start();
    const rounds: Round[] = [];
    for (let round = 0; round < count; round += 1)
      rounds.push({ floor: await without.start(), service: await given.start() });
    await without.stop();
    await given.stop();
    const note = "until a Task's first command has run; floor: without it";
    rows.push(rowOf(`node_modules of ${packages * files} files ${what}`, "ms", rounds, { note }));
  };
  if (boxed !== undefined && works) await measure("mounted", boxed, bench.quick ? 3 : 20);
  await measure("copied", processGroupSandbox, bench.quick ? 1 : 3);
  rmSync(folder, { recursive: true, force: true });
  return rows;
};
