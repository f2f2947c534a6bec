import { execFileSync } from "node:child_process";
import { mkdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { silent } from "../src/log.ts";
import { defaultLimits } from "../src/protocol/limit.ts";
import { createProcesses } from "../src/process/service.ts";
import { packInto } from "../src/repository/exchange.ts";
import { createGit } from "../src/workspace/git/git.ts";
import { createWorkspaces } from "../src/workspace/service.ts";
import type { Workspace } from "../src/workspace/workspace.ts";
import { type Figure, inTurns } from "./figure.ts";
import { type Row, rowOf } from "./table.ts";

/**
 * What it costs to keep a Task's files for other nodes while its agent works: five of them were changed, one of these is new,
 * 5,000 ignored ones stand beside. The floor is what is done after a command that is evidence: the id of the tree alone.
 */

const path = process.env["PATH"] ?? "";
const ignored = 5000;
const { signal } = new AbortController();

/** A line that no other file has, as in a project. */
const line = (file: number, at: number): string =>
  `const value${file}_${at} = ${(file * 7919 + at * 104_729) % 999_983};`;
const textOf = (file: number): string => Array.from({ length: 40 }, (_, at) => line(file, at)).join("\n");

const timed = async <T>(work: () => Promise<T>): Promise<{ ms: number; value: T }> => {
  const begun = performance.now();
  const value = await work();
  return { ms: performance.now() - begun, value };
};

const projectOf = (folder: string, files: number): string => {
  const project = join(folder, "project");
  for (let file = 0; file < files; file += 1) {
    if (file % 100 === 0) mkdirSync(join(project, `src/d${Math.floor(file / 100)}`), { recursive: true });
    writeFileSync(join(project, `src/d${Math.floor(file / 100)}/f${file}.ts`), textOf(file));
  }
  writeFileSync(join(project, ".gitignore"), "out/\n");
  const git = (...args: string[]) =>
    execFileSync("git", ["-c", "user.name=B", "-c", "user.email=b@localhost", ...args], { cwd: project });
  git("init", "-q");
  git("add", "-A");
  git("commit", "-q", "-m", "first");
  return realpathSync(project);
};

/** The next turn's: other lines of four files, and a new one. */
const change = (workspace: Workspace, turn: number): void => {
  for (let file = 0; file < 4; file += 1)
    writeFileSync(join(workspace.root, `src/d0/f${file}.ts`), `${textOf(file)}\n// ${turn}\n`);
  writeFileSync(join(workspace.root, `src/d0/new.ts`), textOf(1_000_000 + turn));
};

export const checkpoint: Figure = async (bench) => {
  const rows: Row[] = [];
  for (const files of bench.quick ? [2000] : [2000, 50_000]) {
    const folder = join(bench.root, `checkpoint-${files}`);
    const project = projectOf(folder, files);
    const dataDir = join(folder, "data");
    const processes = createProcesses({ folder: join(dataDir, "processes"), keepEnv: { PATH: path }, log: silent });
    const workspaces = createWorkspaces({
      dataDir,
      projectRoots: [],
      processes,
      path,
      limits: defaultLimits,
      log: silent,
    });
    const request = { taskID: "task_1", directory: project, isolation: "worktree", landing: "commit" } as const;
    const workspace = await workspaces.prepare(request);
    workspace.prepareSandbox();
    mkdirSync(join(workspace.root, "out"));
    for (let at = 0; at < ignored; at += 1) writeFileSync(join(workspace.root, `out/${at}.js`), "built");
    const base = workspace.prepared.baseCommit ?? "";
    const objects = createGit(project);
    const packOf = async (commit: string, thin: boolean): Promise<number | undefined> => {
      const file = join(folder, "pack");
      const bytes = await packInto(file, objects, { commits: [commit], without: [base], mostBytes: 1e9, thin }, signal);
      rmSync(file, { force: true });
      return bytes;
    };
    let turn = 0;
    const packs: number[] = [];
    change(workspace, 0);
    const rounds = await inTurns(
      bench.quick ? 3 : 10,
      async () => (await timed(() => workspace.tree())).ms,
      async () => {
        change(workspace, (turn += 1));
        const kept = await timed(async () => {
          const commit = await workspace.keep("What it has", undefined, signal);
          return commit && { commit, pack: await packOf(commit.commit, true) };
        });
        if (kept.value?.pack === undefined) throw new Error("Expected a checkpoint, got none");
        packs.push(kept.value.pack);
        return kept.ms;
      },
    );
    rows.push({ ...rowOf(`checkpoint, ${files.toLocaleString("en")} files`, "ms", rounds), note: "5 changed" });
    const last = await workspace.keep("What it has", undefined, signal);
    const whole = await packOf(last?.commit ?? base, false);
    rows.push({
      figure: `its pack, ${files.toLocaleString("en")} files`,
      unit: "bytes",
      service: packs.at(-1) ?? 0,
      floor: whole ?? 0,
      note: "floor: not thin",
    });
    await processes.stop();
  }
  return rows;
};
