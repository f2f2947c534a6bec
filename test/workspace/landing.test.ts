import { spawn } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { inspectFile } from "../../src/workspace/file/inspect.ts";
import { replaceFile as putAt } from "../../src/workspace/file/replace.ts";
import type { LandingPlan, Workspace } from "../../src/workspace/workspace.ts";
import type { Commit } from "../../src/workspace/object/commit.ts";
import { createScene, fsck, landAll, picture, prepare, type Scene } from "./fixture.ts";
import { night } from "../harness/night.ts";

let scene: Scene;
let workspaces: ReturnType<Scene["service"]>;

beforeEach(() => {
  scene = createScene();
  workspaces = scene.service();
});
afterEach(() => scene[Symbol.asyncDispose]());

/** A project with something of every kind, and work that changes something of every kind. */
const seed = () =>
  scene.sh(String.raw`git init -q; mkdir -p src/deep tools d
    seq 20 > src/a.txt; echo b > b.txt; echo gone > src/deep/gone.txt; echo tool > tools/run; chmod +x tools/run
    echo plain > tools/plain; printf 'one\r\ntwo\r\n' > crlf.txt; ln -s b.txt link; ln -s ../outside out; echo f > d/f; echo file > becomes
    printf '*.txt text=auto\ncrlf.txt text eol=crlf\n' > .gitattributes; printf 'ignored\n' > .gitignore
    echo q > "it's \"quoted\""; echo n > $'new\nline'; echo w > $'caf\351'; echo s > 'with space'
    git add .; git commit -qm first`);

const work = String.raw`seq 30 > src/a.txt; git mv b.txt renamed.txt; rm -r src/deep; chmod -x tools/run; chmod +x tools/plain
  printf 'one\r\nthree\r\n' > crlf.txt; ln -sf src/a.txt link; ln -s nowhere fresh; rm -r d; echo d > d; rm becomes; mkdir becomes; echo in > becomes/in
  echo Q > "it's \"quoted\""; echo N > $'new\nline'; echo W > $'caf\351'; rm 'with space'; mkdir -p new/deep; echo x > $'new/deep/\377 x'; echo '#!/bin/sh' > new/x; chmod +x new/x; : > empty`;

const done = async (script = work, message = "work") => {
  const workspace = await prepare(workspaces, scene.root);
  scene.sh(script, workspace.root);
  const commit = await workspace.commit(message);
  if (commit === undefined) throw new Error("nothing done");
  return { workspace, commit };
};

const planned = async (workspace: Workspace, commit: Commit): Promise<LandingPlan> => {
  const plan = await workspaces.plan(workspace, commit, workspace.prepared.baseCommit ?? "");
  if ("reason" in plan) throw new Error(`refused: ${JSON.stringify(plan)}`);
  return plan;
};

/** What git itself makes of the same fast-forward: the oracle. */
const byGit = (commit: string) => {
  const copy = join(scene.base, "copy");
  rmSync(copy, { recursive: true, force: true });
  scene.sh(`cp -a ../project ../copy; cd ../copy; git merge -q --ff-only ${commit}`);
  return picture({ ...scene, sh: (script) => scene.sh(script, copy) });
};

describe("landing", () => {
  test("brings files, modes, links, index and branch to what git's own fast-forward gives", async () => {
    seed();
    const { workspace, commit } = await done();
    const expected = byGit(commit.commit);
    const before = picture(scene);
    const plan = await planned(workspace, commit);
    expect(picture(scene)).toEqual(before);
    const spawned = scene.spawned.length;
    expect(await workspaces.land(workspace, plan)).toEqual({ ok: true, kept: [] });
    expect(scene.spawned.slice(spawned).map((args) => args[0])).toEqual(["update-index", "update-ref"]);
    expect(picture(scene)).toEqual(expected);
    expect(expected.status).toBe("");
    expect(expected.files).not.toBe(before.files);
    expect(expected.leftOver).toBe("");
    expect(fsck(scene)).toBe("");
    expect(scene.sh("git diff-index --cached HEAD; git reflog -1 --format=%gs main")).toBe("sortie: land task_1\n");
    // Again, as after a kill that came before the fact was recorded.
    expect(
      await scene
        .service()
        .open("task_1", workspace.prepared)
        .then((again) => scene.service().land(again, plan))
        .catch((error: Error) => error.message),
    ).toContain("Expected a worktree");
    const later = scene.service();
    expect(await later.land(await later.open("task_1", workspace.prepared), plan)).toEqual({ ok: true, kept: [] });
    expect(picture(scene)).toEqual(expected);
  });

  test("a plan names every path with the bytes and modes on disk", async () => {
    scene.sh("git init -q; echo a > a; ln -s a l; git add .; git commit -qm first");
    const { workspace, commit } = await done("echo b > a; chmod +x a; rm l; echo n > n");
    const { createHash } = await import("node:crypto");
    const hash = (text: string) => createHash("sha256").update(text).digest("hex");
    const id = (path: string) => scene.sh(`git rev-parse ${commit.commit}:${path}`).trim();
    expect(await planned(workspace, commit)).toEqual({
      commit: commit.commit,
      tree: commit.tree,
      from: workspace.prepared.baseCommit,
      ref: "refs/heads/main",
      paths: [
        { path: "l", before: { mode: "120000", sha256: hash("a") }, after: null },
        {
          path: "a",
          before: { mode: "100644", sha256: hash("a\n") },
          after: { mode: "100755", sha256: hash("b\n"), object: id("a") },
        },
        { path: "n", before: null, after: { mode: "100644", sha256: hash("n\n"), object: id("n") } },
      ],
    });
  });

  test("in a folder of a repository, and in a worktree of the user's", async () => {
    seed();
    const below = await prepare(workspaces, join(scene.root, "src/deep"));
    scene.sh("rm gone.txt; echo up > ../up.txt", below.root);
    await landAll(workspaces, below);
    // The folder the user works in stays, though empty.
    expect(scene.sh("git status --porcelain; ls -A src/deep; cat src/up.txt")).toBe("up\n");

    scene.sh("git worktree add -q ../mine -b mine");
    const mine = await prepare(workspaces, join(scene.base, "mine"), "task_2");
    expect(mine.prepared.targetRef).toBe("refs/heads/mine");
    await mine.files.write("b.txt", "mine\n");
    const { commit } = await landAll(workspaces, mine);
    expect(scene.sh("git status --porcelain; git rev-parse HEAD; cat b.txt", join(scene.base, "mine"))).toBe(
      `${commit.commit}\nmine\n`,
    );
    expect(scene.sh("git status --porcelain; cat b.txt")).toBe("b\n");
    expect(fsck(scene)).toBe("");
  });

  test.each([
    "git init -q --object-format=sha256",
    "git init -q; git config core.fileMode false",
    "git init -q; git config core.autocrlf true",
    "git init -q; git config core.splitIndex true; git config extensions.worktreeConfig true",
    "git init -q; git config commit.gpgSign true; git config index.version 4; git config core.untrackedCache true",
  ])("in an unusual repository: %s", async (setup) => {
    scene.sh(
      `${setup}; printf 'a\\r\\nb\\r\\n' > crlf; seq 9 > n; git add . 2>/dev/null; git commit --no-gpg-sign -qm first`,
    );
    const { workspace } = await done("printf 'a\\r\\nc\\r\\n' > crlf; echo x >> n; echo y > y; chmod +x y");
    await landAll(workspaces, workspace);
    expect(picture(scene).status).toBe("");
    expect(scene.sh("od -c crlf | head -1")).toContain("a  \\r  \\n   c  \\r  \\n");
    expect(fsck(scene)).toBe("");
  });

  test("in a submodule, and in a sparse checkout, where what is not checked out is not touched", async () => {
    scene.sh("git init -q ../lib; cd ../lib; mkdir a b; echo a > a/f; echo b > b/f; git add .; git commit -qm lib");
    scene.sh("git init -q; git submodule --quiet add ../lib sub; git -C sub sparse-checkout set --cone a");
    const sub = join(scene.root, "sub");
    const inside = await prepare(workspaces, sub);
    await inside.files.write("a/f", "changed\n");
    await landAll(workspaces, inside);
    expect(scene.sh("git status --porcelain; cat a/f; ls", sub)).toBe("changed\na\n");
    const outside = await prepare(workspaces, sub, "task_2");
    await outside.files.write("b/f", "changed\n");
    const commit = await outside.commit("work");
    if (commit === undefined) throw new Error("nothing done");
    expect(await workspaces.plan(outside, commit, commit.parent)).toEqual({ reason: "dirty", paths: ["b/f"] });
  });

  test("two Tasks in a row, the first reopened, each from the new base", async () => {
    seed();
    const first = await done("echo 1 > one; mkdir ignored; echo kept > ignored/x");
    await landAll(workspaces, first.workspace);
    const second = await prepare(workspaces, scene.root, "task_2");
    expect(second.prepared.baseCommit).toBe(first.commit.commit);
    await second.files.write("two", "2");
    await landAll(workspaces, second, "two");
    const again = await done("cat one two; echo 3 > three; echo left > stray; rm stray; cat ignored/x", "three");
    expect(again.commit.parent).toBe(scene.sh("git rev-parse HEAD").trim());
    await landAll(workspaces, again.workspace, "three");
    expect(scene.sh("git log --format=%s; git status --porcelain")).toBe("three\ntwo\nwork\nfirst\n");
    expect(fsck(scene)).toBe("");
  });

  test("the user's other work stays: staged, edited, untracked, ignored", async () => {
    seed();
    const { workspace } = await done();
    scene.sh(
      "echo mine > staged.txt; git add staged.txt; echo more > staged.txt; echo e >> tools/other; git add tools/other; echo u > untracked; echo i > ignored; echo edit >> .gitignore; git update-index --assume-unchanged .gitattributes",
    );
    const before = scene.sh("git status --porcelain -uall; git diff; git diff --cached");
    await landAll(workspaces, workspace);
    expect(scene.sh("git status --porcelain -uall; git diff; git diff --cached")).toBe(before);
    expect(scene.sh("git ls-files -v .gitattributes")).toBe("h .gitattributes\n");
    expect(readFileSync(join(scene.root, "ignored"), "utf8")).toBe("i\n");
  });

  test("an edit of the same second as the last `git add` is not hidden by the new index", async () => {
    seed();
    const { workspace } = await done("echo new > new.txt");
    scene.sh("echo aaaa > race; git add race; echo bbbb > race");
    await landAll(workspaces, workspace);
    expect(scene.sh("git status --porcelain")).toBe("AM race\n");
  });

  test("bytes come from the repository when the worktree has others", async () => {
    seed();
    const { workspace, commit } = await done();
    const expected = byGit(commit.commit);
    scene.sh("echo other > src/a.txt; rm crlf.txt link; echo x > $'caf\\351'", workspace.root);
    expect(await workspaces.land(workspace, await planned(workspace, commit))).toEqual({ ok: true, kept: [] });
    expect(picture(scene)).toEqual(expected);
  });
});

describe("refusals leave the project as it is", () => {
  const dirty: [string, string, string[]][] = [
    ["an edited file", "echo mine >> src/a.txt", ["src/a.txt"]],
    [
      "an edit of the same size and time",
      "touch -r src/a.txt ../t; sed -i s/20/99/ src/a.txt; touch -r ../t src/a.txt",
      ["src/a.txt"],
    ],
    [
      "an edit hidden by assume-unchanged",
      "git update-index --assume-unchanged src/a.txt; echo mine >> src/a.txt",
      ["src/a.txt"],
    ],
    ["a staged edit", "echo mine >> src/a.txt; git add src/a.txt", ["src/a.txt"]],
    [
      "a staged edit, undone on disk",
      "cp -p src/a.txt ../t; echo mine >> src/a.txt; git add src/a.txt; cp -p ../t src/a.txt",
      ["src/a.txt"],
    ],
    ["a file deleted by the user", "rm crlf.txt", ["crlf.txt"]],
    ["a file removed from the index", "git rm -q --cached src/a.txt", ["src/a.txt"]],
    [
      "a mode changed by both",
      "chmod 755 'with space'; chmod +x crlf.txt; echo x >> crlf.txt",
      ["crlf.txt", "with space"],
    ],
    ["line ends changed by the user", "printf 'one\\ntwo\\n' > crlf.txt; printf 'edited\\n' >> crlf.txt", ["crlf.txt"]],
    ["an untracked file where one is added", "echo mine > new; echo mine > empty", ["empty", "new"]],
    ["an untracked folder where a file is added", "mkdir empty; echo mine > empty/x", ["empty"]],
    ["an untracked file in a folder that becomes a file", "echo mine > d/mine", ["d"]],
    ["an ignored file where one is added", "mkdir new; echo '*' > new/.gitignore; echo mine > new/x", ["new/x"]],
    ["a link where a folder is needed", "mkdir ../elsewhere; ln -s ../elsewhere new", ["new"]],
    ["a link in place of a folder", "mv src ../src; ln -s ../src src", ["src/a.txt", "src/deep/gone.txt"]],
    ["a file in place of a link", "rm link; cp b.txt link", ["link"]],
    ["a FIFO in place of a file", "rm src/a.txt; mkfifo src/a.txt", ["src/a.txt"]],
    [
      "an unmerged file",
      'git checkout -qb o; echo o > src/a.txt; git commit -qam o; git checkout -q main; git update-index --index-info <<< "100644 $(git rev-parse HEAD:src/a.txt) 2\tsrc/a.txt"',
      ["src/a.txt"],
    ],
  ];
  test("uncommitted changes to the same paths, of every kind", { timeout: 60_000 }, async () => {
    seed();
    const { workspace, commit } = await done();
    scene.sh("cp -a ../project ../before");
    for (const [name, script, paths] of dirty) {
      scene.sh("rm -rf project t src elsewhere; cp -a before project", scene.base);
      scene.sh(script);
      const before = picture(scene);
      expect(await workspaces.plan(workspace, commit, commit.parent), name).toEqual({ reason: "dirty", paths });
      expect(picture(scene), name).toEqual(before);
      expect(existsSync(join(scene.base, "elsewhere/x"))).toBe(false);
    }
    // Control: without them it may land.
    scene.sh("rm -rf project; cp -a before project", scene.base);
    await planned(workspace, commit);
  });

  test("a branch that moved, another branch, none, or no repository", async () => {
    seed();
    const { workspace, commit } = await done();
    const plan = () => workspaces.plan(workspace, commit, commit.parent);
    scene.sh("echo c > c; git add c; git commit -qm theirs");
    expect(await plan()).toEqual({ reason: "moved", head: scene.sh("git rev-parse HEAD").trim() });
    scene.sh("git checkout -q -b feature");
    expect(await plan()).toMatchObject({
      reason: "detached",
      message: expect.stringContaining("refs/heads/feature now, not on refs/heads/main"),
    });
    scene.sh("git checkout -q --detach");
    expect(await plan()).toMatchObject({ reason: "detached", message: expect.stringContaining("no branch now") });
    scene.sh("git symbolic-ref HEAD refs/heads/main; git update-ref -d refs/heads/main");
    expect(await plan()).toMatchObject({
      reason: "gone",
      message: expect.stringContaining("the branch refs/heads/main is gone"),
    });
    rmSync(join(scene.root, ".git"), { recursive: true });
    expect(await plan()).toMatchObject({ reason: "gone" });
  });

  test("another git command's lock is waited for, then named", async () => {
    seed();
    const { workspace, commit } = await done();
    const plan = await planned(workspace, commit);
    const lock = join(scene.root, ".git/index.lock");
    const hasty = scene.service({ lockWaitMs: 60 });
    const place = await hasty.open("task_1", workspace.prepared);
    writeFileSync(lock, "DIRC");
    expect(await hasty.plan(place, commit, commit.parent)).toMatchObject({
      reason: "gone",
      message: expect.stringContaining("index.lock"),
    });
    expect(await hasty.land(place, plan)).toEqual({ ok: false, reason: expect.stringContaining("index.lock") });
    expect(readFileSync(lock, "utf8")).toBe("DIRC");
    setTimeout(() => rmSync(lock), 150);
    expect(await workspaces.land(workspace, plan)).toEqual({ ok: true, kept: [] });
    expect(picture(scene).leftOver).toBe("");
  });
});

describe("rebase", () => {
  test("puts the same change on the branch's new head; then it lands", async () => {
    seed();
    const { workspace, commit } = await done();
    scene.sh(
      "echo theirs > theirs; sed -i '1s/^/first line\\n/' tools/plain; git add .; git commit -qm theirs; sed -i 's/^/x/' .gitignore; git commit -qam more",
    );
    const rebased = await workspaces.rebase(workspace, commit, "work");
    const head = scene.sh("git rev-parse HEAD").trim();
    if (!rebased.ok) throw new Error(String(rebased.paths));
    expect(rebased.baseCommit).toBe(head);
    expect(
      scene.sh(`git log -1 --format='%P %an %s' ${rebased.commit}; git rev-parse ${rebased.commit}^{tree} HEAD^{tree}`),
    ).toBe(`${head} Sortie work\n${rebased.tree}\n${rebased.baseTree}\n`);
    expect(scene.sh("git rev-parse HEAD; git status --porcelain", workspace.root)).toBe(`${rebased.commit}\n`);
    const moved = { ...workspace.prepared, baseCommit: rebased.baseCommit, baseTree: rebased.baseTree };
    const next = await workspaces.open("task_1", moved);
    expect(await next.commit("work")).toMatchObject({ tree: rebased.tree, parent: head });
    const { commit: landed } = await landAll(workspaces, next);
    expect(landed.tree).toBe(rebased.tree);
    expect(scene.sh("git status --porcelain; head -1 tools/plain; cat theirs; git log --format=%s")).toBe(
      "first line\ntheirs\nwork\nmore\ntheirs\nfirst\n",
    );
  });

  test("a conflict names its paths and changes nothing", async () => {
    seed();
    const { workspace, commit } = await done();
    scene.sh("echo other > src/a.txt; echo other > 'with space'; git commit -qam theirs");
    const before = scene.sh("git rev-parse HEAD; git status --porcelain; cat src/a.txt", workspace.root);
    expect(await workspaces.rebase(workspace, commit, "work")).toEqual({
      ok: false,
      reason: "conflict",
      paths: ["src/a.txt", "with space"],
    });
    expect(scene.sh("git rev-parse HEAD; git status --porcelain; cat src/a.txt", workspace.root)).toBe(before);
    expect(await workspace.commit("work")).toEqual(commit);
  });

  test("a rewritten branch does not get back what the user took out of it", async () => {
    seed();
    scene.sh("echo secret > secret; git add secret; git commit -qm secret");
    const { workspace, commit } = await done("echo new > new");
    scene.sh("git rm -q secret; git commit -q --amend --allow-empty -m clean");
    const rebased = await workspaces.rebase(workspace, commit, "work");
    if (!rebased.ok) throw new Error(String(rebased.paths));
    expect(scene.sh(`git diff --name-status HEAD ${rebased.commit}`)).toBe("A\tnew\n");
  });

  test("a change that is there already leaves nothing to land", async () => {
    seed();
    const { workspace, commit } = await done("echo new > new");
    scene.sh("echo new > new; git add new; git commit -qm same");
    const rebased = await workspaces.rebase(workspace, commit, "work");
    expect(rebased).toMatchObject({ ok: true, commit: scene.sh("git rev-parse HEAD").trim() });
    expect(rebased.ok && rebased.tree === rebased.baseTree).toBe(true);
  });

  test("a merge driver of the project's neither runs nor loses the change", async () => {
    scene.sh(
      "git init -q; echo '* merge=evil' > .gitattributes; seq 9 > a; git add .; git commit -qm first; git config merge.evil.driver \"touch $PWD/../ran; true\"",
    );
    const { workspace, commit } = await done("sed -i 1s/1/one/ a");
    scene.sh("sed -i 9s/9/nine/ a; git commit -qam theirs");
    expect(await workspaces.rebase(workspace, commit, "work")).toMatchObject({ ok: true });
    expect(scene.sh("cat a", workspace.root)).toBe("one\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    expect(existsSync(join(scene.base, "ran"))).toBe(false);
  });
});

describe("a user at work meanwhile", () => {
  test("files saved between plan and landing: all is as before, and named", async () => {
    seed();
    const { workspace, commit } = await done();
    const plan = await planned(workspace, commit);
    scene.sh(
      "echo mine > src/a.txt; echo mine > empty; echo mine > src/deep/gone.txt; echo staged > crlf.txt; git add crlf.txt",
    );
    const before = picture(scene);
    expect(await workspaces.land(workspace, plan)).toEqual({
      ok: false,
      reason: expect.stringContaining("saved while it landed: "),
      edited: expect.arrayContaining(["crlf.txt", "empty", "src/a.txt", "src/deep/gone.txt"]),
    });
    expect(picture(scene)).toEqual(before);
    expect(await workspaces.plan(workspace, commit, commit.parent)).toMatchObject({ reason: "dirty" });
  });

  test("a branch that moves before it is taken: everything is as before", async () => {
    seed();
    const { commit: other } = await done("echo 1 > one", "other");
    await workspaces.remove("task_1");
    const { workspace, commit } = await done();
    const plan = await planned(workspace, commit);
    const before = picture(scene);
    const racing = scene.service({
      onStep: (name) => void (name === "branch" && scene.sh(`git update-ref refs/heads/main ${other.commit}`)),
    });
    const landed = await racing.land(await racing.open("task_1", workspace.prepared), plan);
    expect(landed).toEqual({ ok: false, reason: `refs/heads/main moved to ${other.commit}` });
    scene.sh(`git update-ref refs/heads/main ${commit.parent}`);
    expect(picture(scene)).toEqual(before);
  });

  test("a file saved after the last look and before the rename stays", async () => {
    const file = join(scene.base, "saved.txt");
    const put = (ready: () => Promise<string | undefined>) =>
      putAt(scene.base, "saved.txt", { mode: "100644", fill: (handle) => handle.writeFile("ours\n") }, "t", ready);
    const stamp = async () => {
      const seen = await inspectFile(scene.base, "saved.txt");
      return seen.kind === "present" ? seen.content.stamp : "-";
    };
    for (const before of ["user\n", undefined]) {
      rmSync(file, { force: true });
      if (before !== undefined) writeFileSync(file, before);
      const saved = put(async () => {
        const seen = await stamp();
        writeFileSync(file, "USER\n");
        return seen;
      });
      expect(await saved).toBe(false);
      expect(readFileSync(file, "utf8")).toBe("USER\n");
    }
    // The control: nobody saves.
    expect(await put(stamp)).toBe(true);
    expect(readFileSync(file, "utf8")).toBe("ours\n");
  });

  test("a file larger than git's output may be: landed, and put back when the branch moves", {
    timeout: 60_000,
  }, async () => {
    scene.sh("git init -q; head -c 70000000 /dev/zero > big; git add .; git commit -qm first");
    const { workspace, commit } = await done("echo end >> big");
    const plan = await planned(workspace, commit);
    const before = picture(scene);
    const other = scene.sh("git commit-tree -p HEAD -m other HEAD^{tree}").trim();
    const racing = scene.service({
      onStep: (name) => void (name === "branch" && scene.sh(`git update-ref refs/heads/main ${other}`)),
    });
    const landed = await racing.land(await racing.open("task_1", workspace.prepared), plan);
    expect(landed).toMatchObject({ ok: false });
    scene.sh(`git update-ref refs/heads/main ${commit.parent}`);
    expect(picture(scene)).toEqual(before);
    expect(await workspaces.land(workspace, plan)).toEqual({ ok: true, kept: [] });
    expect(scene.sh("wc -c < big; git status --porcelain").trim()).toBe("70000004");
  });

  test("an error before the branch is taken leaves all as it was; one after it is made good by the next call", {
    timeout: 60_000,
  }, async () => {
    seed();
    const { workspace, commit } = await done();
    const plan = await planned(workspace, commit);
    const expected = byGit(commit.commit);
    scene.sh("cp -a ../project ../before");
    const before = picture(scene);
    for (let at = 1, end = false; !end; at += 11) {
      scene.sh("rm -rf project; cp -a before project", scene.base);
      const names: string[] = [];
      const failing = scene.service({
        onStep(name) {
          if (names.push(name) === at && name !== "unlock") throw new Error("disk full");
        },
      });
      const place = await failing.open("task_1", workspace.prepared);
      const landed = await failing.land(place, plan).catch((error: Error) => error.message);
      end = landed !== "disk full";
      if (end) expect(landed).toEqual({ ok: true, kept: [] });
      else if (names[at - 1] !== "index") expect(picture(scene), `step ${at} ${names[at - 1]}`).toEqual(before);
      expect(await workspaces.land(workspace, plan), `step ${at}`).toEqual({ ok: true, kept: [] });
      expect(picture(scene), `step ${at}`).toEqual(expected);
    }
  });

  test("a ref that another git command holds is waited for; held too long, all is as before", async () => {
    seed();
    const { workspace, commit } = await done();
    const plan = await planned(workspace, commit);
    const before = picture(scene);
    const lock = join(scene.root, ".git/refs/heads/main.lock");
    writeFileSync(lock, "");
    const hasty = scene.service({ lockWaitMs: 60 });
    await expect(hasty.land(await hasty.open("task_1", workspace.prepared), plan)).rejects.toThrow("main.lock");
    expect(picture(scene)).toEqual(before);
    setTimeout(() => rmSync(lock), 150);
    expect(await workspaces.land(workspace, plan)).toEqual({ ok: true, kept: [] });
  });

  test("who went on from the landed commit is left alone; who left the branch too", async () => {
    seed();
    const { workspace, commit } = await done();
    const plan = await planned(workspace, commit);
    await workspaces.land(workspace, plan);
    scene.sh("echo later > src/a.txt; git commit -qam later; git checkout -q HEAD~2 -- tools");
    const before = picture(scene);
    const later = scene.service();
    expect(await later.land(await later.open("task_1", workspace.prepared), plan)).toEqual({ ok: true, kept: [] });
    expect(picture(scene)).toEqual(before);
    scene.sh(`git reset -q --hard ${commit.parent}; git checkout -qb feature`);
    const elsewhere = picture(scene);
    expect(await later.land(await later.open("task_1", workspace.prepared), plan)).toMatchObject({
      ok: false,
      reason: expect.stringContaining("refs/heads/feature"),
    });
    expect(picture(scene)).toEqual(elsewhere);
  });
});

describe("turn", () => {
  test("one at a time for a project, in order; who gives up lets nobody pass", async () => {
    const order: string[] = [];
    const never = new AbortController().signal;
    const first = await workspaces.landingTurn("p", never);
    using _other = await workspaces.landingTurn("q", never);
    const leaving = new AbortController();
    const left = workspaces
      .landingTurn("p", leaving.signal)
      .catch((error: Error) => order.push(`left ${error.message}`));
    const third = workspaces.landingTurn("p", never).then((turn) => {
      order.push("third");
      return turn;
    });
    leaving.abort(new Error("gone"));
    await left;
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(order).toEqual(["left gone"]);
    first[Symbol.dispose]();
    (await third)[Symbol.dispose]();
    expect(order).toEqual(["left gone", "third"]);
    using _last = await workspaces.landingTurn("p", never);
    await expect(workspaces.landingTurn("p", AbortSignal.abort(new Error("late")))).rejects.toThrow("late");
  });
});

describe("a service killed while it lands", () => {
  const source = fileURLToPath(new URL("../../src", import.meta.url));

  /** Lands in a process of its own that dies before its n-th step; its exit says whether it came to the end. */
  const landAndDie = async (plan: LandingPlan, prepared: Workspace["prepared"], step: number): Promise<boolean> => {
    const script = join(scene.base, "lander.ts");
    writeFileSync(
      script,
      `import { readFileSync } from "node:fs";
       import { flushCompileCache } from "node:module";
       import { createWorkspaces } from ${JSON.stringify(`${source}/workspace/service.ts`)};
       import { createProcesses } from ${JSON.stringify(`${source}/process/service.ts`)};
       import { silent } from ${JSON.stringify(`${source}/log.ts`)};
       const { dataDir, plan, prepared, step } = JSON.parse(readFileSync(0, "utf8"));
       const processes = createProcesses({ folder: dataDir + "/processes", keepEnv: process.env, log: silent });
       let count = 0;
       const onStep = () => { if ((count += 1) > step) process.kill(process.pid, "SIGKILL"); };
       const workspaces = createWorkspaces({ dataDir, projectRoots: [], processes, limits: {} as never, log: silent, onStep });
       flushCompileCache();
       const landed = await workspaces.land(await workspaces.open("task_1", prepared), plan);
       process.exit(landed.ok ? 0 : 1);`,
    );
    const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", script], {
      stdio: ["pipe", "inherit", "inherit"],
    });
    child.stdin.end(JSON.stringify({ dataDir: scene.dataDir, plan, prepared, step }));
    const [code, signal] = await new Promise<[number | null, string | null]>((resolve) => {
      child.once("exit", (exit, killed) => resolve([exit, killed]));
    });
    if (code === 0) return true;
    expect({ code, signal }).toEqual({ code: null, signal: "SIGKILL" });
    return false;
  };

  test("at every step in turn, and again while it recovers, ends as if nothing had happened", async () => {
    scene.sh(
      "git init -q; mkdir d; echo a > a; echo b > b; echo c > d/c; echo e > e; ln -s a l; seq 9 > m; seq 9 > s; git add .; git commit -qm first",
    );
    const { workspace, commit } = await done(
      "echo A > a; chmod +x a; rm b; ln -sf b l; rm e; mkdir e; echo e > e/e; sed -i s/9/task/ m s",
    );
    scene.sh(
      "echo mine > staged; git add staged; echo u > untracked; sed -i s/1/mine/ m s; git add s; sed -i s/4/more/ s",
    );
    const plan = await planned(workspace, commit);
    scene.sh("cp -a ../project ../before");
    const later = scene.service();
    const reopened = await later.open("task_1", workspace.prepared);
    expect(await later.land(reopened, plan)).toEqual({ ok: true, kept: [] });
    const expected = picture(scene);
    expect(scene.sh("head -1 m; tail -1 m; git show :s | head -1; git show :s | tail -1; sed -n 4p s; tail -1 s")).toBe(
      "mine\ntask\nmine\ntask\nmore\ntask\n",
    );

    // By day at every sixth step, at night at each.
    let steps = 0;
    const half = new Set<string>();
    for (let end = false; !end; steps += night ? 1 : 6) {
      scene.sh("rm -rf project; cp -a before project", scene.base);
      end = await landAndDie(plan, workspace.prepared, steps);
      half.add(JSON.stringify(picture(scene)));
      // Now and then the recovery is killed as well.
      if (!end && steps % 4 === 1) await landAndDie(plan, workspace.prepared, Math.floor(steps / 2));
      expect(await later.land(reopened, plan), `step ${steps}`).toEqual({ ok: true, kept: [] });
      expect(picture(scene), `step ${steps}`).toEqual(expected);
    }
    expect(steps).toBeGreaterThan(13);
    // Control: the kills did leave different half-done states behind.
    expect(half.size).toBeGreaterThan(night ? 8 : 1);
    expect(fsck(scene)).toBe("");
  }, 240_000);

  test("before the branch is taken, and the branch moves meanwhile: everything is put back", async () => {
    scene.sh(
      "git init -q; mkdir d; echo a > a; echo b > b; echo c > d/c; echo e > e; ln -s a l; git add .; git commit -qm first",
    );
    scene.sh("seq 9 > m; git add m; git commit -qm m");
    const { workspace, commit } = await done(
      "sed -i s/9/task/ m; echo A > a; chmod +x a; rm b; rm -r d; ln -sf b l; mkdir new; echo n > new/n; rm e; mkdir e; echo e > e/e; echo d > d",
    );
    scene.sh("sed -i s/1/mine/ m");
    const plan = await planned(workspace, commit);
    const before = picture(scene);
    const other = scene.sh("git commit-tree -p HEAD -m other 'HEAD^{tree}'").trim();
    for (const step of [3, 7, 10]) {
      expect(await landAndDie(plan, workspace.prepared, step)).toBe(false);
      expect(picture(scene)).not.toEqual(before);
      scene.sh(`git update-ref refs/heads/main ${other}`);
      const later = scene.service();
      const landed = await later.land(await later.open("task_1", workspace.prepared), plan);
      expect(landed).toEqual({ ok: false, reason: `refs/heads/main moved to ${other}` });
      scene.sh(`git update-ref refs/heads/main ${commit.parent}`);
      expect(picture(scene)).toEqual(before);
    }
  }, 240_000);
});
