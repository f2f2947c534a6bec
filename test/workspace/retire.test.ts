import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Workspace } from "../../src/workspace/workspace.ts";
import { createScene, fsck, prepare, type Scene } from "./fixture.ts";

/** A worktree goes only when all of it is committed, and comes back from its branch. */

let scene: Scene;
let workspaces: ReturnType<Scene["service"]>;

beforeEach(() => {
  scene = createScene();
  workspaces = scene.service();
  scene.sh(
    "git init -q; seq 9 > a; echo b > b; echo dist > .gitignore; git add .; git commit -qm first; echo wip > b; echo u > u",
  );
});
afterEach(() => scene[Symbol.asyncDispose]());

const work = async (script: string) => {
  const workspace = await prepare(workspaces, scene.root);
  scene.sh(script, workspace.root);
  const commit = await workspace.commit("work");
  return { workspace, tip: commit?.commit ?? workspace.prepared.baseCommit ?? "" };
};
const retire = (tip: string) => workspaces.retire("task_1", () => Promise.resolve(tip));
const standing = ({ root }: Workspace) => [existsSync(root), existsSync(join(scene.dataDir, "worktrees/task_1.git"))];

test("what is committed goes, and comes back with the next opening for work; reading makes no files", async () => {
  const { workspace, tip } = await work("echo n > n; mkdir dist; echo built > dist/out");
  const before = await workspace.diff(tip);
  expect(await workspaces.listWorktrees()).toEqual(["task_1"]);
  using reading = workspaces.keepWhileRead("task_1");
  expect(await retire(tip)).toEqual({ removed: false, reason: "it is being read" });
  reading[Symbol.dispose]();
  expect(await retire(tip)).toEqual({ removed: true });
  expect(standing(workspace)).toEqual([false, false]);
  expect(await workspaces.listWorktrees()).toEqual([]);
  scene.sh("git reflog expire --expire=now --all; git gc -q --prune=now");
  const reader = await workspaces.open("task_1", workspace.prepared);
  expect(await reader.diff(tip)).toBe(before);
  expect(standing(workspace)).toEqual([false, false]);
  const again = await scene.service().open("task_1", workspace.prepared, tip);
  expect(scene.sh("cat n b u; ls -A; git status --porcelain", again.root)).toBe(
    "n\nwip\nu\n.git\n.gitignore\na\nb\nn\nu\n",
  );
  writeFileSync(join(again.root, "n"), "more\n");
  expect(await again.commit("work")).toMatchObject({ parent: workspace.prepared.baseCommit, files: 1 });
  expect(fsck(scene)).toBe("");
});

test.each<[string, string]>([
  ["an edit", "echo late >> a"],
  ["a new file", "echo late > late"],
  ["a commit of somebody's", "echo late > late; git add late; git -c user.name=x -c user.email=x commit -qm late"],
  [
    "another branch",
    "git checkout -qb x; echo late > late; git add late; git -c user.name=x -c user.email=x commit -qm late",
  ],
  ["a broken worktree", "rm .git; echo late > late"],
  ["hidden edits", "git update-index --assume-unchanged a; echo late >> a"],
])("what was left after the last commit stays on a branch beside: %s", async (_name, script) => {
  const { workspace, tip } = await work("echo n > n");
  scene.sh(script, workspace.root);
  expect(await scene.service().retire("task_1", () => Promise.resolve(tip))).toEqual({ removed: true });
  expect(standing(workspace)).toEqual([false, false]);
  expect(scene.sh(`git rev-parse sortie/task_1.rest^; git merge-base ${tip} sortie/task_1`)).toBe(`${tip}\n${tip}\n`);
  expect(scene.sh(`git diff ${tip} sortie/task_1.rest`)).toContain("+late");
  await workspaces.remove("task_1");
  expect(scene.sh("git for-each-ref | grep sortie || true")).toBe("");
});

test.each<[string, string, RegExp]>([
  ["a nested repository", "git init -q nested; echo 1 > nested/f", /cannot be committed: nested\//],
  [
    "a filled submodule",
    "git -c protocol.file.allow=always submodule --quiet add ../../../lib sub; git -c user.name=x -c user.email=x commit -qm sub",
    /cannot be committed|submodule/,
  ],
  [
    "a branch that went elsewhere",
    "git -C ../../../project update-ref refs/heads/sortie/task_1 main",
    /no longer contains its work/,
  ],
])("what cannot be proved committed stays: %s", async (_name, script, reason) => {
  scene.sh("git init -q ../lib; git -C ../lib commit -q --allow-empty -m lib");
  const { workspace, tip } = await work("echo n > n");
  scene.sh(script, workspace.root);
  const retired = await retire(tip);
  expect(retired).toMatchObject({ removed: false, reason: expect.stringMatching(reason) as string });
  expect(standing(workspace)).toEqual([true, true]);
});

test("no repository, no record, no end: nothing is removed", async () => {
  const { workspace, tip } = await work("echo n > n");
  expect(await workspaces.retire("task_1", () => Promise.resolve(undefined))).toMatchObject({ removed: false });
  renameSync(join(scene.root, ".git"), join(scene.base, "git"));
  expect(await retire(tip)).toMatchObject({ removed: false, reason: expect.stringContaining("is gone") as string });
  renameSync(join(scene.base, "git"), join(scene.root, ".git"));
  renameSync(join(scene.dataDir, "worktrees/task_1.json"), join(scene.base, "json"));
  expect(await scene.service().retire("task_1", () => Promise.resolve(tip))).toMatchObject({ removed: false });
  expect(standing(workspace)).toEqual([true, true]);
});

test("what a kill left half-removed goes at the next start; the marks of a deletion are found", async () => {
  const { workspace, tip } = await work("echo n > n");
  await retire(tip);
  // As a kill leaves it: moved aside, or gone with its Git directory left.
  mkdirSync(join(scene.dataDir, "worktrees/task_9.gone/x"), { recursive: true });
  mkdirSync(join(scene.dataDir, "worktrees/task_1.git"), { recursive: true });
  const later = scene.service();
  expect(await later.listWorktrees()).toEqual([]);
  expect(standing(workspace)).toEqual([false, false]);
  expect(existsSync(join(scene.dataDir, "worktrees/task_9.gone"))).toBe(false);
  later.markForRemoval("task_1");
  expect([await later.listWorktrees(), later.isMarkedForRemoval("task_1")]).toEqual([["task_1"], true]);
  await later.remove("task_1");
  expect([await later.listWorktrees(), later.isMarkedForRemoval("task_1")]).toEqual([[], false]);
  expect(scene.sh("git branch --list 'sortie/*'; ls -A ../data/worktrees")).toBe("");
});

test("a lock that a killed writer left on the branch goes with the Task, and so does the branch", async () => {
  await work("echo n > n");
  const lock = join(scene.root, ".git/refs/heads/sortie/task_1.lock");
  writeFileSync(lock, "half\n");
  await workspaces.remove("task_1");
  expect(existsSync(lock)).toBe(false);
  expect(scene.sh("git for-each-ref 'refs/heads/sortie/**' 'refs/sortie/**'")).toBe("");
});

test("a branch that git may not remove now is named, and goes with the next removal; control: of a project that is gone nothing is", async () => {
  await work("echo n > n");
  scene.sh("git pack-refs --all");
  const lock = join(scene.root, ".git/packed-refs.lock");
  writeFileSync(lock, "");
  workspaces.markForRemoval("task_1");
  await expect(workspaces.remove("task_1")).rejects.toThrow("refs/heads/sortie/task_1 could not be removed");
  expect(scene.sh("cat ../data/kept/task_1")).toContain("packed-refs");
  expect(refsLeft()).not.toBe("");

  rmSync(lock);
  const next = scene.service();
  expect([await next.listWorktrees(), next.isMarkedForRemoval("task_1")]).toEqual([["task_1"], true]);
  await next.remove("task_1");
  expect([refsLeft(), scene.sh("ls -A ../data/kept ../data/worktrees")]).toEqual([
    "",
    "../data/kept:\n\n../data/worktrees:\n",
  ]);

  await prepare(scene.service(), scene.root);
  rmSync(join(scene.root, ".git"), { recursive: true });
  await scene.service().remove("task_1");
  expect(scene.sh("ls -A ../data/worktrees")).toBe("");
});

test("the homes of its programs go with the Task; control: not with its files, nor another's", async () => {
  const { tip } = await work("echo n > n");
  const homes = () => scene.sh("ls -A ../data/homes");
  scene.sh(
    "mkdir -p ../data/homes/task_1/.npm ../data/homes/task_1-x ../data/homes/task_10; echo > ../data/homes/task_1/.npm/a",
  );
  expect(await retire(tip)).toEqual({ removed: true });
  expect(homes()).toBe("task_1\ntask_1-x\ntask_10\n");
  await workspaces.remove("task_1");
  expect(homes()).toBe("task_10\n");
});

test("locks that a killed writer left on a Task's refs go at its next run; control: a user's stays", async () => {
  await work("echo n > n");
  const locks = ["heads/sortie/task_1", "sortie/base/task_1", "heads/main"].map((ref) =>
    join(scene.root, ".git/refs", `${ref}.lock`),
  );
  for (const lock of locks) writeFileSync(lock, "half\n");
  await workspaces.unlockRefs("task_1", join(scene.root, ".git"));
  expect(locks.map((lock) => existsSync(lock))).toEqual([false, false, true]);
});

test("checkouts that a killed service left go with the next run; control: one that is open here stays", async () => {
  const { workspace, tip } = await work("echo n > n");
  const left = () => readdirSync(join(scene.dataDir, "worktrees")).filter((name) => /\.(checkout|base)/.test(name));
  // Nobody closes them.
  await workspaces.checkout(workspace, tip, "work");
  await workspaces.checkout(workspace, workspace.prepared.baseCommit ?? "", "base");
  const all = left();
  expect(all.length).toBeGreaterThan(3);
  await workspaces.removeLeftCheckouts("task_1");
  expect(left()).toEqual(all);
  await scene.service().removeLeftCheckouts("task_1");
  expect(left()).toEqual([]);
  expect(scene.sh("cat n", workspace.root)).toBe("n\n");
});

test("a checkout that is being made is none that was left, however long it takes; control: left half, it goes", async () => {
  const { workspace, tip } = await work("for i in $(seq 400); do echo $i > f$i; done");
  const all = () => readdirSync(join(scene.dataDir, "worktrees")).filter((name) => name.includes(".checkout"));
  // As the end of the checks before the work does, while the checks after it begin.
  const made = workspaces.checkout(workspace, tip, "work");
  const looks = await Promise.all(
    Array.from({ length: 50 }, async (_, at) => {
      await pause(10 * at);
      await workspaces.removeLeftCheckouts("task_1");
    }),
  );
  await using checkout = await made;
  expect(looks).toHaveLength(50);
  expect(readdirSync(checkout.readable().root).length).toBeGreaterThan(400);
  expect(all().length).toBeGreaterThan(1);
  await scene.service().removeLeftCheckouts("task_1");
  expect(all()).toEqual([]);
});

const refsLeft = () => scene.sh("git for-each-ref --format='%(refname)' 'refs/heads/sortie/**' 'refs/sortie/**'");
const asBegun = (key: string) => {
  const file = join(scene.dataDir, `worktrees/${key}.json`);
  writeFileSync(file, JSON.stringify({ ...(JSON.parse(readFileSync(file, "utf8")) as object), base: "" }));
};
const unused = (key: string, which: "made" | "begun" | undefined) =>
  scene.service().removeUnused(key, () => Promise.resolve(which));

test("files in which nobody has worked go with their refs, half-made ones with the locks in them; control: others stay", async () => {
  const { root } = await prepare(workspaces, scene.root);
  expect(await unused("task_1", undefined)).toBe(false);
  expect(await unused("task_1", "begun")).toBe(false);
  expect(existsSync(join(root, "a"))).toBe(true);
  writeFileSync(join(scene.dataDir, "worktrees/task_1.git/index.lock"), "");
  asBegun("task_1");
  expect(await unused("task_1", "begun")).toBe(true);
  expect([scene.sh("ls -A ../data/worktrees"), refsLeft()]).toEqual(["", ""]);
  expect(await unused("task_1", "made")).toBe(false);

  await prepare(scene.service(), scene.root);
  expect(await unused("task_1", "made")).toBe(true);
  expect([scene.sh("ls -A ../data/worktrees"), refsLeft()]).toEqual(["", ""]);
});

test("a fork that was begun goes, and leaves the Task's files; control: one that was made stays", async () => {
  const { workspace, tip } = await work("echo n > n");
  const tree = scene.sh(`git rev-parse ${tip}^{tree}`).trim();
  for (const name of ["x", "y"]) await workspaces.fork(workspace, name, { commit: tip, tree });
  asBegun("task_1-x");
  expect([await unused("task_1-x", "begun"), await unused("task_1-y", "begun")]).toEqual([true, false]);
  const left = scene.sh("ls -A ../data/worktrees").trim().split("\n");
  expect(left.filter((name) => name.includes("-x"))).toEqual([]);
  expect(left).toContain("task_1-y");
  expect(existsSync(join(workspace.root, "n"))).toBe(true);
});

test("what an attempt left is retired by what its branch has", async () => {
  const { workspace } = await work("echo n > n");
  scene.sh("echo late > late", workspace.root);
  expect(await scene.service().retire("task_1", () => Promise.resolve(null))).toEqual({ removed: true });
  expect(standing(workspace)).toEqual([false, false]);
  expect(scene.sh("git show sortie/task_1:n; git show sortie/task_1.rest:late")).toBe("n\nlate\n");
});
