import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { tempPrefix } from "../../src/workspace/file/files.ts";
import type { Workspace } from "../../src/workspace/workspace.ts";
import { createScene, prepare, type Scene } from "./fixture.ts";

/** The files of a Task as a commit, while its agent goes on with them. */

let scene: Scene;
let workspaces: ReturnType<Scene["service"]>;
let task: Workspace;

beforeEach(async () => {
  scene = createScene();
  workspaces = scene.service();
  scene.sh(
    "git init -q; seq 9 > a.txt; echo b > b.txt; echo c > c.txt; echo out/ > .gitignore; git add .; git commit -qm 1",
  );
  task = await prepare(workspaces, scene.root);
});
afterEach(() => scene[Symbol.asyncDispose]());

const { signal } = new AbortController();
const keep = (known?: string) => task.keep("What it has", known, signal);
const listed = (commit: string | undefined) => scene.sh(`git ls-tree -r --name-only ${commit}`).trim().split("\n");
const work = (script: string) => scene.sh(script, task.root);

/** What a command of the agent's could notice. */
const noticed = () => {
  const gitDir = /gitdir: (.*)/.exec(readFileSync(join(task.root, ".git"), "utf8"))?.[1] ?? "";
  return {
    index: readFileSync(join(gitDir, "index")),
    head: readFileSync(join(gitDir, "HEAD"), "utf8"),
    objects: work(`find ${gitDir}/objects -type f | sort`),
    files: work("find . -not -name .git | sort"),
    branches: scene.sh("git for-each-ref refs/heads"),
  };
};

test("has changed, new and removed files and no ignored one; nothing that the agent sees is touched", async () => {
  work("echo a > a.txt; mkdir -p deep out; echo n > deep/new.txt; echo x > out/x; rm b.txt; git add a.txt");
  writeFileSync(join(task.root, `${tempPrefix}1234`), "half of a file");
  const before = noticed();

  const kept = await keep();

  expect(listed(kept?.commit)).toEqual([".gitignore", "a.txt", "c.txt", "deep/new.txt"]);
  expect(scene.sh(`git show ${kept?.commit}:a.txt`)).toBe("a\n");
  expect(scene.sh(`git rev-parse ${kept?.commit}^`).trim()).toBe(task.prepared.baseCommit);
  expect(noticed()).toEqual(before);
  // Held against `git gc`, until the Task goes.
  scene.sh("git reflog expire --expire=now --all; git gc -q --prune=now");
  expect(listed(kept?.commit)).toContain("deep/new.txt");
  // Control: a commit has the same files, and takes what an interrupted write left away.
  expect((await task.commit("work"))?.tree).toBe(kept?.tree);
  expect(existsSync(join(task.root, `${tempPrefix}1234`))).toBe(false);
  await workspaces.remove("task_1");
  expect(scene.sh("git for-each-ref refs/sortie")).toBe("");
});

test("what a commit leaves out is left out, and what the agent hid, committed or merged is there", async () => {
  work(`git init -q nested; git -C nested -c user.name=n -c user.email=n@n commit -q --allow-empty -m n; git add nested
    mkdir .sortie; echo s > .sortie/s; git add -f .sortie; mkfifo pipe
    git update-index --assume-unchanged c.txt; echo hidden > c.txt
    echo own > own.txt; git add own.txt; git -c user.name=n -c user.email=n@n commit -q -m own -- own.txt
    echo more >> own.txt`);

  const kept = await keep();

  expect(listed(kept?.commit)).toEqual([".gitignore", "a.txt", "b.txt", "c.txt", "own.txt"]);
  expect(scene.sh(`git show ${kept?.commit}:c.txt ${kept?.commit}:own.txt`)).toBe("hidden\nown\nmore\n");
  expect((await task.commit("work"))?.tree).toBe(kept?.tree);
});

test("nothing is made of the files as they are known, of a moment's work that was stopped, or of none", async () => {
  expect(await keep()).toBeUndefined();
  work("echo a > a.txt");
  const stopped = new AbortController();
  stopped.abort();
  await expect(task.keep("stopped", undefined, stopped.signal)).rejects.toThrow();
  const kept = await keep();
  expect(await keep(kept?.tree)).toBeUndefined();
  // Control: another change is.
  work("echo other > b.txt");
  expect(await keep(kept?.tree)).toMatchObject({ tree: expect.stringMatching(/^[0-9a-f]{40}$/) });
});
