import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { silent } from "../src/log.ts";
import type { SandboxPlace } from "../src/process/sandbox/place.ts";
import { createProcesses } from "../src/process/service.ts";
import { selfTest } from "../src/process/sandbox/self-test.ts";
import {
  processGroupSandbox,
  bubblewrapSandbox,
  findProgram,
  namespaceSandbox,
  type Sandbox,
} from "../src/process/sandbox/sandbox.ts";
import type { Figure } from "./figure.ts";
import { median, type Round, type Row, rowOf } from "./table.ts";

/** What a command costs in each tier against a bare spawn, from a small process and from a large one. */

const path = process.env["PATH"] ?? "";
const signal = new AbortController().signal;

/** From here, whatever this process holds in memory by then. */
const bareSpawn = (cwd: string): Promise<void> =>
  new Promise((resolve) => {
    const child = spawn("bash", ["-c", "true"], { cwd, detached: true, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [child.stdout, child.stderr]) stream.resume();
    child.once("close", () => resolve());
  });

const timed = async (run: () => Promise<unknown>): Promise<number> => {
  const begun = performance.now();
  await run();
  return performance.now() - begun;
};

const sandboxes = async (dataDir: string): Promise<Sandbox[]> => {
  const bwrap = findProgram("bwrap", path);
  const options = { path, home: process.env["HOME"] ?? "/root", paths: [], dataDir };
  const candidates = [
    ...(bwrap === undefined ? [] : [bubblewrapSandbox(options, false, bwrap)]),
    ...(findProgram("unshare", path) === undefined ? [] : [namespaceSandbox(path, true)]),
  ];
  const works = await Promise.all(candidates.map((sandbox) => selfTest(sandbox, path)));
  return [...candidates.filter((_sandbox, at) => works[at]?.ok === true), processGroupSandbox];
};

export const sandbox: Figure = async (bench) => {
  const folder = join(bench.root, "sandbox");
  const tree = join(folder, "tree");
  mkdirSync(tree, { recursive: true });
  const place: SandboxPlace = { tree, at: tree, under: () => [], over: () => [] };
  const command = { run: "true", cwd: tree, timeoutMs: 60_000, keepBytes: 1000, signal };
  const found = await sandboxes(join(folder, "data"));
  const tiers = found.map((each) => ({
    each,
    processes: createProcesses({
      folder: join(folder, "data", each.name),
      keepEnv: { PATH: path },
      sandbox: each,
      log: silent,
    }),
  }));
  const rows: Row[] = [];
  const measure = async (label: string, count: number): Promise<void> => {
    const rounds = tiers.map((): Round[] => []);
    for (let round = 0; round < count; round += 1)
      for (const [at, { processes }] of tiers.entries()) {
        const floor = await timed(() => bareSpawn(tree));
        rounds[at]?.push({ floor, service: await timed(() => processes.run("task_bench", command, place)) });
      }
    for (const [at, { each }] of tiers.entries())
      rows.push(
        rowOf(
          `a command in tier ${each.tier}${label}`,
          "ms",
          rounds[at] ?? [],
          each.tier === 1 ? { goal: { kind: "overFloor", value: 1 } } : {},
        ),
      );
  };
  const opens: number[] = [];
  for (const { each, processes } of tiers) {
    // The first starts the runner, too.
    await processes.run("task_other", command, place);
    const first = await timed(() => processes.run("task_bench", command, place));
    if (each.tier === 1) opens.push(first);
  }
  await measure("", bench.quick ? 30 : 300);
  if (opens.length > 0)
    rows.push({
      figure: "a Task's first command in tier 1",
      unit: "ms",
      service: median(opens),
      note: "opens its sandbox",
    });
  // Touched, so that it counts.
  const ballast = Buffer.alloc(bench.quick ? 256 * 1024 ** 2 : 1024 ** 3, 1);
  await measure(`, parent of ${ballast.length / 1024 ** 2} MB`, bench.quick ? 10 : 60);
  for (const { processes } of tiers) await processes.stop();
  return rows;
};
