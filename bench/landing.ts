import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { silent } from "../src/log.ts";
import { defaultLimits } from "../src/protocol/limit.ts";
import { createProcesses } from "../src/process/service.ts";
import type { Workspaces } from "../src/workspace/workspace.ts";
import { createWorkspaces } from "../src/workspace/service.ts";
import { git, makeProject } from "../test/harness/project.ts";
import { type Bench, type Figure, inTurns } from "./figure.ts";
import { type Row, rowOf } from "./table.ts";

/**
 * What a Task's worktree costs to make, and its result to land, in a large repository: clean, and with uncommitted
 * edits of the user's, of which some are in the files that the Task changes. The floor is git's own `worktree add`, and
 * its `merge --ff-only` of the same change in a clean clone. A worktree of 50,000 files takes seconds to make and to
 * remove: each serves both figures, and both repositories serve both cases.
 */

const pathOf = (index: number) => `src/${index % 500}/file-${index}.txt`;
const text = (index: number) => Array.from({ length: 20 }, (_, line) => `Line ${line} of ${index}.\n`).join("");

const timed = async <T>(work: () => Promise<T> | T): Promise<{ ms: number; value: T }> => {
  const begun = performance.now();
  const value = await work();
  return { ms: performance.now() - begun, value };
};

type Cost = { prepare: number; land: number };

let serial = 0;

/** Ten files, the last line of each. */
const changed = (before: string): string =>
  before.replace(/(Line 19.*?)( Round \d+\.)?\n$/, `$1 Round ${(serial += 1)}.\n`);
const ten = Array.from({ length: 10 }, (_, index) => pathOf(index));

/** Git's own way: a worktree that is made once, for git takes longest for that, and a merge for each call. */
const createFloor = async (clone: string, beside: string): Promise<() => Promise<Cost>> => {
  const prepare = await timed(() => git(clone, "worktree", "add", "-q", "-b", "task", beside));
  return async () => {
    for (const path of ten) writeFileSync(join(beside, path), changed(`${git(beside, "show", `HEAD:${path}`)}\n`));
    git(beside, "commit", "-q", "-am", "work");
    const land = await timed(() => git(clone, "merge", "-q", "--ff-only", "task"));
    return { prepare: prepare.ms, land: land.ms };
  };
};

const ownRound = async (workspaces: Workspaces, taskID: string, directory: string, dirty: boolean): Promise<Cost> => {
  const prepare = await timed(() =>
    workspaces.prepare({ taskID, directory, isolation: "worktree", landing: "commit" }),
  );
  let workspace = prepare.value;
  for (const path of ten)
    await workspace.files.write(path, changed((await workspace.files.read(path, 10_000)).bytes.toString()));
  let commit = await workspace.commit("work");
  if (commit === undefined) throw new Error("Expected a change");
  let base = workspace.prepared.baseCommit ?? "";
  const land = await timed(async () => {
    if (commit === undefined) return;
    if (dirty) {
      const rebased = await workspaces.rebase(workspace, commit, "work");
      if (!rebased.ok) throw new Error(`Expected to stand alone, got ${rebased.paths.join(", ")}`);
      base = rebased.baseCommit;
      commit = { ...commit, commit: rebased.commit, tree: rebased.tree, parent: base };
      const { snapshot: _, ...bare } = workspace.prepared;
      const moved = { ...bare, baseCommit: base, baseTree: rebased.baseTree };
      workspace = await workspaces.open(taskID, moved, commit.commit);
    }
    const plan = await workspaces.plan(workspace, commit, base);
    if ("reason" in plan) throw new Error(`Expected to land, got ${JSON.stringify(plan)}`);
    const landed = await workspaces.land(workspace, plan);
    if (!landed.ok) throw new Error(landed.reason);
  });
  await workspaces.remove(taskID);
  return { prepare: prepare.ms, land: land.ms };
};

/** Lines of the user's in front of twenty files, five of which the Task changes at their end, and fifty new files. */
const edit = (project: string): void => {
  for (let index = 5; index < 25; index += 1) {
    const path = pathOf(index);
    writeFileSync(join(project, path), `Mine.\n${git(project, "show", `HEAD:${path}`)}\n`);
  }
  for (let index = 0; index < 50; index += 1) writeFileSync(join(project, `new-${index}.txt`), text(index));
};

const measure = async (bench: Bench, what: string, own: () => Promise<Cost>, floor: () => Promise<Cost>) => {
  const rounds = await inTurns(bench.quick ? 1 : 3, floor, own);
  const of = (name: keyof Cost) => rounds.map((round) => ({ service: round.service[name], floor: round.floor[name] }));
  return [
    rowOf(`a worktree: ${what}`, "ms", of("prepare"), { note: "floor: git worktree add, once" }),
    rowOf(`a landing: ${what}`, "ms", of("land"), { note: "floor: git merge --ff-only" }),
  ];
};

export const landing: Figure = async (bench) => {
  const count = bench.quick ? 500 : 50_000;
  const files = Object.fromEntries(Array.from({ length: count }, (_, index) => [pathOf(index), text(index)]));
  const project = makeProject(join(bench.root, "projects", "landing"), files);
  const clone = join(bench.root, "projects", "landing-floor");
  git(bench.root, "clone", "-q", project, clone);

  const dataDir = join(bench.root, "landing");
  const processes = createProcesses({ folder: join(dataDir, "processes"), keepEnv: process.env, log: silent });
  await using scope = new AsyncDisposableStack();
  scope.defer(() => processes.stop());
  const workspaces = createWorkspaces({ dataDir, projectRoots: [], processes, limits: defaultLimits, log: silent });

  const floor = await createFloor(clone, join(bench.root, "landing-beside"));
  await ownRound(workspaces, bench.id("task"), project, false);
  const rows: Row[] = [];
  for (const dirty of [false, true]) {
    const own = () => {
      // The user's edits of the files that landed are as before.
      if (dirty) edit(project);
      return ownRound(workspaces, bench.id("task"), project, dirty);
    };
    const what = `${count.toLocaleString("en")} files, ${dirty ? "70 uncommitted" : "clean"}`;
    rows.push(...(await measure(bench, what, own, floor)));
  }
  return rows;
};
