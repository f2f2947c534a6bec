import { spawn, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createGit, type Git } from "../../../src/workspace/git/git.ts";
import { removeRefs, setRef } from "../../../src/workspace/object/ref.ts";

/** Refs of the service's own are written and removed as files, in any state that git may have them in. */

let base: string;
let commonDir: string;
let git: Git;
let commits: string[];
let spawned: string[];
const problems: string[] = [];

const sh = (script: string): string => {
  const { status, stdout, stderr } = spawnSync("bash", ["-ec", script], { cwd: base, encoding: "latin1" });
  if (status !== 0) throw new Error(`${script}: exit ${status}: ${stderr}`);
  return stdout.trim();
};
const known = () => sh("git for-each-ref --format='%(refname)' refs/heads/sortie").split("\n").filter(Boolean);
const refs = () => ({ commonDir, git });
const set = (name: string, commit = commits[0] ?? "") => setRef(refs(), `refs/heads/sortie/${name}`, commit);
const remove = (name: string) =>
  removeRefs(refs(), [`refs/heads/sortie/${name}`], (ref, why) => void problems.push(`${ref}: ${why}`));
const inFolder = () => {
  const folder = join(commonDir, "refs/heads/sortie");
  return existsSync(folder) ? readdirSync(folder) : undefined;
};

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "sortie-ref-")));
  sh(
    "git init -q -b main; for n in 1 2; do git -c user.name=x -c user.email=x commit -q --allow-empty -m $n; done; mkdir empty",
  );
  commonDir = join(base, ".git");
  commits = sh("git rev-list HEAD").split("\n");
  spawned = [];
  problems.length = 0;
  const nothing = join(base, "empty");
  git = createGit(nothing, {
    toplevel: nothing,
    gitDir: commonDir,
    onSpawn: (args) => spawned.push(args.find((arg) => arg === "update-ref") ?? args.join(" ")),
  });
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

test("a ref that is a file goes without a process, with its lock and its empty folder", async () => {
  await set("one");
  await set("two");
  await remove("one");
  expect(known()).toEqual(["refs/heads/sortie/two"]);
  expect(inFolder()).toEqual(["two"]);
  await remove("two");
  expect(inFolder()).toBeUndefined();
  expect(existsSync(join(commonDir, "refs/heads"))).toBe(true);
  expect(spawned).toEqual([]);
});

test.each<[string, string]>([
  ["packed", "git pack-refs --all"],
  ["packed, and a file again", `git pack-refs --all; git update-ref refs/heads/sortie/one HEAD~1`],
  [
    "with a log",
    "mkdir -p .git/logs/refs/heads/sortie; : >.git/logs/refs/heads/sortie/one; git update-ref -m x refs/heads/sortie/one HEAD~1",
  ],
])("what is more than a file is git's to remove: %s", async (_, script) => {
  await set("one");
  sh(script);
  await remove("one");
  expect(known()).toEqual([]);
  expect(existsSync(join(commonDir, "logs/refs/heads/sortie/one"))).toBe(false);
  expect(spawned).toEqual(["update-ref"]);
  expect(problems).toEqual([]);
});

test("while another git has packed-refs, the ref is not taken from under it", async () => {
  await set("one");
  writeFileSync(join(commonDir, "packed-refs.lock"), "");
  await remove("one");
  expect(known()).toEqual(["refs/heads/sortie/one"]);
  expect(problems).toHaveLength(1);
  rmSync(join(commonDir, "packed-refs.lock"));
  await remove("one");
  expect(known()).toEqual([]);
  expect(spawned).toEqual(["update-ref"]);
});

test("a ref that points to another is followed by git alone", async () => {
  await set("one");
  sh("git symbolic-ref refs/heads/sortie/two refs/heads/sortie/one");
  await remove("two");
  expect(spawned).toEqual(["update-ref"]);
});

test("none comes back by a git pack-refs that runs meanwhile", async () => {
  const packing = new AbortController();
  const pack = async () => {
    while (!packing.signal.aborted)
      await new Promise((resolve) =>
        spawn("git", ["pack-refs", "--all"], { cwd: base, stdio: "ignore" }).once("close", resolve),
      );
  };
  const packs = pack();
  for (let round = 0; round < 60; round += 1) {
    await set(`r${round}`);
    if (round % 3 > 0) await new Promise((resolve) => setTimeout(resolve, round % 7));
    await remove(`r${round}`);
  }
  packing.abort();
  await packs;
  // What git itself could not remove, because the packing had it, was reported.
  expect(known()).toEqual(problems.map((problem) => problem.split(":")[0]));
});

test("a ref that is there already is not written again; another commit is", async () => {
  const path = join(commonDir, "refs/heads/sortie/one");
  await set("one");
  const before = statSync(path).ino;
  await set("one");
  expect(statSync(path).ino).toBe(before);
  await set("one", commits[1]);
  expect(sh("git rev-parse sortie/one")).toBe(commits[1]);
});

test("a folder that stands where the file was is not taken for one", async () => {
  const path = join(commonDir, "refs/heads/sortie/one");
  mkdirSync(dirname(path), { recursive: true });
  mkdirSync(path);
  await remove("one");
  expect(known()).toEqual([]);
  expect(spawned).toEqual(["update-ref"]);
});
