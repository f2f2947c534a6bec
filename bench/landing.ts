import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { silent } from "../src/log.ts";
import { defaultLimits } from "../src/protocol/limits.ts";
import { createProcesses } from "../src/process/process.ts";
import { createWorkspaces } from "../src/workspace/worktree.ts";
import { git, makeProject } from "../test/harness.ts";
import { type Bench, type Figure, inTurns } from "./figure.ts";
import { rowOf } from "./table.ts";

/**
 * What a Task's worktree costs to make, and its result to land, in a large repository: clean, and with uncommitted
 * edits of the user's, of which some are in the files that the Task changes. The floor is git's own `worktree add`, and
 * its `merge --ff-only` of the same change in a clean project.
 */

const pathOf = (index: number) => `src/${index % 500}/file-${index}.txt`;
const text = (index: number) => Array.from({ length: 20 }, (_, line) => `Line ${line} of ${index}.\n`).join("");

const timed = async (work: () => Promise<unknown> | void): Promise<number> => {
  const begun = performance.now();
  await work();
  return performance.now() - begun;
};

const measure = async (bench: Bench, dirty: boolean) => {
  const count = bench.quick ? 500 : 50_000;
  const name = dirty ? "landing-dirty" : "landing-clean";
  const files = Object.fromEntries(Array.from({ length: count }, (_, index) => [pathOf(index), text(index)]));
  const project = makeProject(join(bench.root, "projects", name), files);
  const dataDir = join(bench.root, name);
  const processes = createProcesses({ folder: join(dataDir, "processes"), keepEnv: process.env, log: silent });
  await using scope = new AsyncDisposableStack();
  scope.defer(() => processes.stop());
  const workspaces = createWorkspaces({ dataDir, projectRoots: [], processes, limits: defaultLimits, log: silent });

  let serial = 0;
  /** Ten files, the last line of each. */
  const change = (root: string) => {
    serial += 1;
    for (let index = 0; index < 10; index += 1)
      writeFileSync(join(root, pathOf(index)), `${text(index).slice(0, -1)} Round ${serial}.\n`);
  };
  if (dirty) {
    for (let index = 5; index < 25; index += 1) writeFileSync(join(project, pathOf(index)), `Mine.\n${text(index)}`);
    for (let index = 0; index < 50; index += 1) writeFileSync(join(project, `new-${index}.txt`), text(index));
  }
  const edits = Array.from({ length: 5 }, (_, at) => at + 5);

  const service = async (): Promise<number> => {
    const taskID = bench.id("task");
    // The user's edits of the files that landed are as before: the first line is theirs.
    if (dirty)
      for (const index of edits)
        writeFileSync(join(project, pathOf(index)), `Mine.\n${git(project, "show", `HEAD:${pathOf(index)}`)}\n`);
    let workspace = await workspaces.prepare({ taskID, directory: project, isolation: "worktree", landing: "commit" });
    for (let index = 0; index < 10; index += 1) {
      const path = pathOf(index);
      const now = (await workspace.files.read(path, 10_000)).bytes.toString();
      await workspace.files.write(path, now.replace(/(Line 19.*?)( Round \d+\.)?\n$/, `$1 Round ${(serial += 1)}.\n`));
    }
    let commit = await workspace.commit("work");
    if (commit === undefined) throw new Error("Expected a change");
    let base = workspace.prepared.baseCommit ?? "";
    const cost = await timed(async () => {
      if (commit === undefined) return;
      if (dirty) {
        const rebased = await workspaces.rebase(workspace, commit, "work");
        if (!rebased.ok) throw new Error(`Expected to stand alone, got ${rebased.paths.join(", ")}`);
        base = rebased.baseCommit;
        commit = { ...commit, commit: rebased.commit, tree: rebased.tree, parent: base };
        const { snapshot: _, ...bare } = workspace.prepared;
        workspace = await workspaces.open(
          taskID,
          { ...bare, baseCommit: base, baseTree: rebased.baseTree },
          commit.commit,
        );
      }
      const plan = await workspaces.plan(workspace, commit, base);
      if ("reason" in plan) throw new Error(`Expected to land, got ${JSON.stringify(plan)}`);
      const landed = await workspaces.land(workspace, plan);
      if (!landed.ok) throw new Error(landed.reason);
    });
    await workspaces.remove(taskID);
    return cost;
  };

  const clean = makeProject(join(bench.root, "projects", `${name}-floor`), files);
  const beside = join(bench.root, `${name}-worktree`);
  const floor = async (): Promise<number> => {
    git(clean, "worktree", "add", "-q", "-f", "-B", "task", beside);
    change(beside);
    git(beside, "commit", "-q", "-am", "work");
    const cost = await timed(() => void git(clean, "merge", "-q", "--ff-only", "task"));
    rmSync(beside, { recursive: true });
    git(clean, "worktree", "prune");
    return cost;
  };
  const rounds = bench.quick ? 1 : 5;
  await service();
  const landing = await inTurns(rounds, floor, service);
  const prepare = await inTurns(
    rounds,
    async () => {
      const cost = await timed(() => void git(clean, "worktree", "add", "-q", "-f", "-B", "task", beside));
      rmSync(beside, { recursive: true });
      git(clean, "worktree", "prune");
      return cost;
    },
    async () => {
      const taskID = bench.id("task");
      const cost = await timed(() =>
        workspaces.prepare({ taskID, directory: project, isolation: "worktree", landing: "commit" }),
      );
      await workspaces.remove(taskID);
      return cost;
    },
  );
  const what = `${count.toLocaleString("en")} files, ${dirty ? "70 uncommitted" : "clean"}`;
  return [
    rowOf(`a worktree: ${what}`, "ms", prepare, { note: "floor: git worktree add" }),
    rowOf(`a landing: ${what}`, "ms", landing, { note: "floor: git merge --ff-only" }),
  ];
};

export const landing: Figure = async (bench) => [...(await measure(bench, false)), ...(await measure(bench, true))];
