import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { forkKey } from "../../src/workspace/worktree/fork.ts";
import type { Workspace } from "../../src/workspace/workspace.ts";
import { createScene, prepare, type Scene } from "./fixture.ts";

/** Files of their own for agents that work at once in one Task, and how their changes come together. */

let scene: Scene;
let workspaces: ReturnType<Scene["service"]>;
let task: Workspace;
let tip: { commit: string; tree: string };

beforeEach(async () => {
  scene = createScene();
  workspaces = scene.service();
  scene.sh("git init -q; seq 9 > a.txt; echo b > b.txt; git add .; git commit -qm first");
  task = await prepare(workspaces, scene.root, taskID);
  const { baseCommit, baseTree } = task.prepared;
  if (baseCommit === null || baseTree === null) throw new Error("Expected a worktree.");
  tip = { commit: baseCommit, tree: baseTree };
});
afterEach(() => scene[Symbol.asyncDispose]());

const taskID = "task_1";
const fork = () => workspaces.fork(task, "one", tip);
const inTask = (path: string) => readFileSync(join(task.root, path), "latin1");
const branches = () => scene.sh("git for-each-ref --format='%(refname:short)' 'refs/heads/sortie/*-one'").trim();

test("joined again after a kill, or opened by another service, it gives the same files; only leaving takes its own away", async () => {
  const own = await fork();
  writeFileSync(join(own.root, "a.txt"), "mine\n");
  writeFileSync(join(own.root, "new.txt"), "new\n");

  const first = await workspaces.mergeFork(task, own, tip.commit, "one");
  const once = [inTask("a.txt"), inTask("b.txt"), inTask("new.txt")];
  // The service died before it was on record: the next one opens the fork by its name and joins it anew.
  workspaces = scene.service();
  task = await workspaces.open(taskID, task.prepared, tip.commit);
  const again = await workspaces.mergeFork(task, await fork(), tip.commit, "one");

  expect([first, again]).toEqual([
    { ok: true, files: 2 },
    { ok: true, files: 2 },
  ]);
  expect([inTask("a.txt"), inTask("b.txt"), inTask("new.txt")]).toEqual(once);
  expect(once).toEqual(["mine\n", "b\n", "new\n"]);

  await workspaces.closeFork(task, "one", undefined);
  await workspaces.closeFork(task, "one", undefined);
  expect([existsSync(own.root), branches()]).toEqual([false, ""]);
  // Control: one that has left has nothing to join, and its change would be lost if it were.
  expect(await workspaces.mergeFork(task, await fork(), tip.commit, "one")).toEqual({ ok: true, files: 0 });
  expect(inTask("a.txt")).not.toBe("mine\n");
});

test("where both changed the same nothing is taken over, and its branch keeps what it did", async () => {
  const own = await fork();
  writeFileSync(join(own.root, "a.txt"), "mine\n");
  writeFileSync(join(task.root, "a.txt"), "theirs\n");
  const theirs = await task.commit("theirs");
  if (theirs === undefined) throw new Error("Expected a commit.");

  const joined = await workspaces.mergeFork(task, own, theirs.commit, "one");

  const branch = `sortie/${forkKey(taskID, "one")}`;
  expect(joined).toEqual({ ok: false, paths: ["a.txt"], branch, commit: expect.stringMatching(/^[0-9a-f]{40}$/) });
  if (joined.ok) return;
  expect(await workspaces.mergeFork(task, own, theirs.commit, "one")).toMatchObject({ ok: false, paths: ["a.txt"] });
  expect(inTask("a.txt")).toBe("theirs\n");
  await workspaces.closeFork(task, "one", joined.commit);
  await workspaces.closeFork(task, "one", joined.commit);
  expect([existsSync(own.root), branches()]).toEqual([false, branch]);
  expect(scene.sh(`git show ${branch}:a.txt`)).toBe("mine\n");
});
