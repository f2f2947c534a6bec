import { existsSync, readFileSync, statSync, watch, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { protectedBy } from "../../src/domain/permission/rule.ts";
import { defaultLimits } from "../../src/protocol/limit.ts";
import type { Workspace } from "../../src/workspace/workspace.ts";
import { until } from "../harness/project.ts";
import { createScene, fsck, picture, prepare, type Scene } from "./fixture.ts";

let scene: Scene;
let workspaces: ReturnType<Scene["service"]>;

beforeEach(() => {
  scene = createScene();
  workspaces = scene.service();
});
afterEach(() => scene[Symbol.asyncDispose]());

const seed = () =>
  scene.sh(
    "git init -q; mkdir src; seq 20 > src/a.txt; echo b > b.txt; echo c > c.txt; echo d > d.txt; echo dist > .gitignore; git add .; git commit -qm first",
  );

/** Everything of the user's that a Task must not touch, to the byte. */
const untouched = () => ({
  ...picture(scene),
  index: scene.sh("stat -c '%Y %y %s %i' .git/index; sha1sum .git/index"),
  refs: scene.sh(
    "git for-each-ref | grep -v refs/heads/sortie/ | grep -v refs/sortie/; cat .git/logs/HEAD; cat .git/logs/refs/stash 2>&1 || true",
  ),
  files: scene.sh("find . -path ./.git -prune -o -printf '%p %T@ %i %m\\n' | LC_ALL=C sort"),
});

const treeOf = (commit: string | null) =>
  scene.sh(`git ls-tree -r --format='%(objectmode) %(path)' ${commit}`).trim().split("\n");

describe("snapshot", () => {
  test("of a Mission's Task is without squads that stand beside what is committed; control: of another one with them", async () => {
    seed();
    scene.sh(
      "mkdir -p .sortie/squads/crew src/.sortie/squads/crew; touch .sortie/squads/crew/squad.json src/.sortie/squads/crew/squad.json",
    );
    const preparedBy = async (taskID: string, more: { withoutSquads?: boolean }) =>
      (await workspaces.prepare({ taskID, directory: scene.root, isolation: "worktree", landing: "commit", ...more }))
        .prepared;
    const head = scene.sh("git rev-parse HEAD").trim();
    const clean = await preparedBy("task_1", { withoutSquads: true });
    expect(clean.baseCommit).toBe(head);
    expect(clean).not.toHaveProperty("snapshot");
    const squads = [".sortie/squads/crew/squad.json", "src/.sortie/squads/crew/squad.json"];
    expect((await preparedBy("task_2", {})).snapshot?.untracked).toEqual(squads);
    scene.sh("echo mine > mine.txt");
    expect((await preparedBy("task_3", { withoutSquads: true })).snapshot?.untracked).toEqual(["mine.txt"]);
  });

  test("has what the directory holds, and leaves everything of the user's as it is", async () => {
    seed();
    scene.sh("echo stash >> b.txt; git stash -q; git update-index --assume-unchanged d.txt; echo hidden > d.txt");
    scene.sh(String.raw`seq 21 > src/a.txt; echo staged > b.txt; git add b.txt; echo more >> b.txt; rm c.txt
      echo s > staged; git add staged; rm staged; echo t > intended; git add -N intended
      mkdir -p new/deep dist; echo n > new/deep/n; echo x > dist/out; ln -s nowhere link; echo u > $'caf\351'; chmod +x new/deep/n; git init -q nested; echo x > nested/x; mkfifo pipe`);
    const before = untouched();
    const workspace = await prepare(workspaces, scene.root);
    expect(untouched()).toEqual(before);
    const { baseCommit, baseTree, snapshot } = workspace.prepared;
    const head = scene.sh("git rev-parse HEAD").trim();
    expect(snapshot).toEqual({
      head,
      untracked: ["caf\udce9", "link", "new/deep/n"],
      omitted: [{ path: "nested", reason: "a nested Git repository" }],
    });
    expect(scene.sh(`git rev-parse ${baseCommit}^ ${baseCommit}^{tree}`)).toBe(`${head}\n${baseTree}\n`);
    expect(treeOf(baseCommit)).toEqual([
      "100644 .gitignore",
      "100644 b.txt",
      String.raw`100644 "caf\351"`,
      "100644 d.txt",
      "100644 intended",
      "120000 link",
      "100755 new/deep/n",
      "100644 src/a.txt",
    ]);
    expect(scene.sh("cat b.txt d.txt intended; wc -l < src/a.txt; git status --porcelain", workspace.root)).toBe(
      "staged\nmore\nhidden\nt\n21\n",
    );
    // Only the Task's own refs name it: gc keeps it, and takes it with the refs.
    scene.sh("git reflog expire --expire=now --all; git gc -q --prune=now");
    expect(scene.sh(`git cat-file -t ${baseCommit}`)).toBe("commit\n");
    expect(scene.sh(`git for-each-ref --contains ${baseCommit} --format='%(refname)'`)).toBe(
      "refs/heads/sortie/task_1\nrefs/sortie/base/task_1\n",
    );
    expect(fsck(scene)).toBe("");
  });

  test("what a death within an earlier snapshot left is not gone on with, and goes with the Task", async () => {
    seed();
    // The copy of an index that has not seen the newest commit, and the lock of a git that was killed over it.
    const home = join(scene.dataDir, "worktrees");
    scene.sh(
      `mkdir -p '${home}'; cp -p .git/index '${home}/task_1.index'; touch '${home}/task_1.index.lock'; cp -a '${home}' '${home}.before'`,
    );
    scene.sh("echo committed > b.txt; git commit -qam second; echo edited > c.txt");
    const { prepared } = await prepare(workspaces, scene.root);
    expect(scene.sh(`git diff --name-only HEAD ${prepared.baseCommit}`)).toBe("c.txt\n");
    expect(existsSync(join(home, "task_1.index.lock"))).toBe(false);
    // Control: with that copy, the newest commit would have been taken back.
    const stale = `GIT_INDEX_FILE='${home}.before/task_1.index' git`;
    scene.sh(`rm '${home}.before/task_1.index.lock'`);
    expect(
      scene.sh(`echo c.txt | ${stale} update-index --stdin; git diff --name-only HEAD $(${stale} write-tree)`),
    ).toBe("b.txt\nc.txt\n");
    scene.sh(`touch '${home}/task_1.index'`);
    await workspaces.remove("task_1");
    expect(scene.sh(`ls '${home}'`)).not.toContain("task_1.index");
  });

  test("untracked files that may hold secrets stay with the user, unless the operator allows to read them", async () => {
    seed();
    scene.sh(
      "echo T=1 > .env; mkdir keys; echo k > keys/id_ed25519; echo p > keys/own.pem; echo e > .env.example; echo n > keys/n",
    );
    const { prepared, root } = await prepare(workspaces, scene.root);
    const reason = "untracked, and its name suggests a secret";
    expect(prepared.snapshot).toMatchObject({
      untracked: [".env.example", "keys/n"],
      omitted: [".env", "keys/id_ed25519", "keys/own.pem"].map((path) => ({ path, reason })),
    });
    expect(scene.sh("find . -name '*.pem' -o -name .env -o -name 'id_*'", root)).toBe("");
    const allowed = scene.service({ isProtected: protectedBy({ deny: [], ask: [], allow: ["read(.env*)"] }) });
    const other = await prepare(allowed, scene.root, "task_2");
    expect(other.prepared.snapshot?.untracked).toEqual([".env", ".env.example", "keys/n"]);
  });

  test("an edit of the same second as the last `git add` is in it; touched files alone make none", async () => {
    seed();
    scene.sh("echo aaaa > race; git add race; echo bbbb > race");
    const raced = await prepare(workspaces, scene.root);
    expect(readFileSync(join(raced.root, "race"), "utf8")).toBe("bbbb\n");
    scene.sh("git rm -qf --cached race; rm race; touch b.txt src/a.txt; mkdir empty");
    const clean = await prepare(workspaces, scene.root, "task_2");
    expect(clean.prepared).not.toHaveProperty("snapshot");
    expect(clean.prepared.baseCommit).toBe(scene.sh("git rev-parse HEAD").trim());
  });

  test.each([
    "git init -q --object-format=sha256",
    "git init -q; git config core.splitIndex true; git config index.version 4",
  ])("in an unusual repository: %s", async (setup) => {
    scene.sh(
      `${setup}; seq 5 > a; printf 'x\\r\\n' > crlf; echo '* text=auto' > .gitattributes; git add . 2>/dev/null; git commit -qm first`,
    );
    scene.sh("seq 6 > a; echo u > u; git add a; seq 7 > a");
    const shared = scene.sh("ls .git | grep -c sharedindex || true");
    const before = untouched();
    const workspace = await prepare(workspaces, scene.root);
    expect(untouched()).toEqual(before);
    expect(scene.sh("ls .git | grep -c sharedindex || true")).toBe(shared);
    expect(scene.sh("cat a u | wc -l", workspace.root)).toBe("8\n");
    expect(fsck(scene)).toBe("");
  });

  test("an unfinished merge of the user's stays one", async () => {
    seed();
    scene.sh(
      "git checkout -qb o; echo o > b.txt; git commit -qam o; git checkout -q main; echo p > b.txt; git commit -qam p; git merge o || true",
    );
    const before = untouched();
    const workspace = await prepare(workspaces, scene.root);
    expect(untouched()).toEqual(before);
    expect(scene.sh("cat b.txt; git status --porcelain", workspace.root)).toContain("<<<<<<< HEAD\np\n=======\no\n");
    expect(existsSync(join(scene.root, ".git/MERGE_HEAD"))).toBe(true);
  });

  test("what is too large is left out and named, what is beside it stays", async () => {
    seed();
    const limits = { ...defaultLimits, snapshotFiles: 5, snapshotBytes: 3000, snapshotFileBytes: 2000 };
    scene.sh(
      "mkdir many fat small; for i in 1 2 3 4 5 6; do echo $i > many/$i; done; head -c 2001 /dev/zero > huge; head -c 1500 /dev/zero > fat/1; head -c 1501 /dev/zero > fat/2; echo s > small/s; echo t > t",
    );
    const { prepared } = await prepare(scene.service({ limits }), scene.root);
    expect(prepared.snapshot?.untracked).toEqual(["small/s", "t"]);
    expect(prepared.snapshot?.omitted).toEqual([
      { path: "fat/", reason: "untracked, 2 files of 3001 bytes; at most 5 files and 3000 bytes in all" },
      { path: "huge", reason: "untracked, 2001 bytes; at most 2000 a file" },
      { path: "many/", reason: "untracked, 6 files; at most 5" },
    ]);
    // Control: with room for all of it nothing is left out.
    const all = await prepare(workspaces, scene.root, "task_2");
    expect(all.prepared.snapshot).toMatchObject({ omitted: [] });
    expect(all.prepared.snapshot?.untracked).toHaveLength(11);
  });

  test("content behind a filter is not stored as other bytes than the user's git would", async () => {
    seed();
    scene.sh(
      `echo '*.big filter=lfs' > .gitattributes; printf pointer > x.big; git add .; git commit -qm lfs; git config filter.lfs.clean "touch $PWD/../ran; cat"; echo real > x.big; echo real > y.big; echo e > b.txt`,
    );
    const { prepared, root } = await prepare(workspaces, scene.root);
    expect(prepared.snapshot?.omitted.map(({ path }) => path)).toEqual(["x.big", "y.big"]);
    expect(readFileSync(join(root, "x.big"), "utf8")).toBe("pointer");
    expect(readFileSync(join(root, "b.txt"), "utf8")).toBe("e\n");
    expect(existsSync(join(scene.base, "ran"))).toBe(false);
  });
});

describe("landing beside uncommitted work", () => {
  const work = async (script: string, directory = scene.root): Promise<Workspace> => {
    const workspace = await prepare(workspaces, directory);
    scene.sh(script, workspace.root);
    return workspace;
  };
  /** As the run does it: the change alone, then into the project. */
  const landed = async (workspace: Workspace) => {
    const made = await workspace.commit("work");
    if (made === undefined) throw new Error("nothing done");
    const rebased = await workspaces.rebase(workspace, made, "work");
    if (!rebased.ok) return rebased;
    const { baseCommit, baseTree, commit, tree, left } = rebased;
    const place = await workspaces.open("task_1", { ...workspace.prepared, baseCommit, baseTree });
    const plan = await workspaces.plan(place, { ...made, commit, tree, parent: baseCommit }, baseCommit);
    if ("reason" in plan) return plan;
    return {
      ...(await workspaces.land(place, plan)),
      left,
      merged: plan.paths.filter((path) => path.merged).map(({ path }) => path),
    };
  };

  test("the commit has the Task's change alone; the user's edits of the same files stay, uncommitted and staged as they were", async () => {
    seed();
    scene.sh(
      "sed -i 1s/1/one/ src/a.txt; sed -i '1s/^/staged\\n/' b.txt; seq 9 | sed 's/^/b/' >> b.txt; git add b.txt; git commit -qm b; sed -i s/b9/nine/ b.txt; git add b.txt; sed -i s/b8/eight/ b.txt; echo mine > mine",
    );
    scene.sh("git reset -q -- src; echo x > untouched; git add untouched");
    const status = scene.sh("git status --porcelain");
    const workspace = await work("sed -i 20s/20/twenty/ src/a.txt; sed -i s/staged/Staged/ b.txt; echo new > new");
    expect(await landed(workspace)).toEqual({ ok: true, kept: [], left: [], merged: ["b.txt", "src/a.txt"] });
    expect(scene.sh("git show --format=%s --name-status HEAD; git status --porcelain")).toBe(
      `work\n\nM\tb.txt\nA\tnew\nM\tsrc/a.txt\n${status}`,
    );
    expect(scene.sh("git diff HEAD -U0 -- src b.txt | grep '^[+-][^+-]'")).toBe("-b8\n-b9\n+eight\n+nine\n-1\n+one\n");
    expect(scene.sh("git diff --cached -U0 -- b.txt | grep '^[+-][^+-]'")).toBe("-b9\n+nine\n");
    expect(scene.sh("head -1 b.txt; tail -1 src/a.txt; head -1 src/a.txt; git show HEAD:src/a.txt | head -1")).toBe(
      "Staged\ntwenty\none\n1\n",
    );
    expect(picture(scene).leftOver).toBe("");
    expect(fsck(scene)).toBe("");
  });

  test("the same change made by the user too, a file deleted by both, modes, and CRLF on disk", async () => {
    seed();
    scene.sh(
      "printf 'a\\r\\nb\\r\\nc\\r\\nd\\r\\n' > win; echo 'win text eol=crlf' > .gitattributes; git add .; git commit -qm win",
    );
    const workspace = await work(
      "echo B > b.txt; rm c.txt; printf 'a\\r\\nb\\r\\nc\\r\\nD\\r\\n' > win; echo more >> d.txt",
    );
    scene.sh("echo B > b.txt; rm c.txt; printf 'A\\r\\nb\\r\\nc\\r\\nd\\r\\n' > win; chmod +x d.txt");
    expect(await landed(workspace)).toEqual({ ok: true, kept: [], left: [], merged: ["d.txt", "win"] });
    expect(scene.sh("git status --porcelain; cat b.txt; git show HEAD:win")).toBe(" M d.txt\n M win\nB\na\nb\nc\nD\n");
    expect(readFileSync(join(scene.root, "win"), "latin1")).toBe("A\r\nb\r\nc\r\nD\r\n");
    expect(statSync(join(scene.root, "d.txt")).mode & 0o111).toBe(0o111);
    expect(scene.sh("git show --format= --name-status HEAD")).toBe("M\tb.txt\nD\tc.txt\nM\td.txt\nM\twin\n");
  });

  test("a change to lines that are not committed is entangled; one to an untracked file too", async () => {
    seed();
    scene.sh("sed -i 5s/5/five/ src/a.txt; echo u > u");
    const before = untouched();
    const workspace = await work("sed -i 's/five/FIVE/' src/a.txt; echo more >> u; echo new > new");
    expect(await landed(workspace)).toEqual({ ok: false, reason: "entangled", paths: ["src/a.txt", "u"] });
    expect(untouched()).toEqual(before);
    // The way on that is said: into the files as they are.
    scene.sh("git diff --binary sortie/task_1^ sortie/task_1 | git apply");
    expect(scene.sh("sed -n 5p src/a.txt; cat u new; git status --porcelain")).toBe(
      "FIVE\nu\nmore\nnew\n M src/a.txt\n?? new\n?? u\n",
    );
    // Control: committed meanwhile, they are no obstacle.
    scene.sh(
      "rm new; git checkout -q src/a.txt; echo u > u; sed -i 5s/5/five/ src/a.txt; git add .; git commit -qm mine",
    );
    const again = await workspaces.open("task_1", workspace.prepared);
    expect(await landed(again)).toMatchObject({ ok: true, kept: [] });
    expect(scene.sh("git status --porcelain; git log --format=%s")).toBe("work\nmine\nfirst\n");
  });

  test("an untracked file that the Task took away stays, and is named; that alone is no commit", async () => {
    seed();
    scene.sh("echo u > u");
    const both = await work("rm u; echo new > new");
    expect(await landed(both)).toMatchObject({ ok: true, left: ["u"] });
    expect(scene.sh("cat u; git status --porcelain; git show --format= --name-only HEAD")).toBe("u\n?? u\nnew\n");
    const alone = await work("rm u");
    expect(await landed(alone)).toEqual({ ok: false, reason: "entangled", paths: ["u"] });
    expect(readFileSync(join(scene.root, "u"), "utf8")).toBe("u\n");
  });

  test("a conflict goes on a new snapshot, with both sides between markers", async () => {
    seed();
    const workspace = await work("sed -i 5s/5/task/ src/a.txt; echo T > b.txt; echo fine > fine");
    scene.sh("sed -i 5s/5/user/ src/a.txt; git commit -qam theirs; echo U > b.txt; echo ux > ux");
    const made = await workspace.commit("work");
    if (made === undefined) throw new Error("nothing done");
    expect(await workspaces.rebase(workspace, made, "work")).toEqual({
      ok: false,
      reason: "conflict",
      paths: ["src/a.txt"],
    });
    const before = untouched();
    const seen = new Set<string | null>();
    const watcher = watch(workspace.root, (_, name) => seen.add(name));
    const renewed = await workspaces.rebaseWithMarkers(workspace, made, "work", []);
    expect(untouched()).toEqual(before);
    // Killed in between it leaves nothing beside the files: a Task that is then cancelled looks at them no more.
    await until(
      () => Promise.resolve(seen),
      (names) => names.has("b.txt"),
    );
    watcher.close();
    expect([...seen].filter((name) => name?.startsWith(".sortie"))).toEqual([]);
    if (!renewed.ok) throw new Error("not renewed");
    expect(renewed).toMatchObject({
      paths: ["b.txt", "src/a.txt"],
      uncommitted: ["b.txt"],
      snapshot: { untracked: ["ux"] },
    });
    expect(renewed.theirs).toContain("-5\n+user\n");
    expect(scene.sh("cat b.txt; sed -n 4,11p src/a.txt; cat fine ux", workspace.root)).toBe(
      "<<<<<<< the project now\nU\n||||||| where you began\nb\n=======\nT\n>>>>>>> your change\n4\n<<<<<<< the project now\nuser\n||||||| where you began\n5\n=======\ntask\n>>>>>>> your change\nfine\nux\n",
    );
    const { baseCommit, baseTree, snapshot } = renewed;
    const place = { ...workspace.prepared, baseCommit, baseTree, ...(snapshot === undefined ? {} : { snapshot }) };
    const next = await workspaces.open("task_1", place, renewed.commit);
    expect(await workspaces.unresolved(next, renewed.paths)).toEqual(["b.txt", "src/a.txt"]);
    scene.sh("sed -i '/^|||||||/,/^=======/d; /^<<<<<<</d; /^>>>>>>>/d' src/a.txt; echo U > b.txt", next.root);
    expect(await workspaces.unresolved(next, renewed.paths)).toEqual([]);
    expect(await landed(next)).toMatchObject({ ok: true, kept: [] });
    expect(
      scene.sh("git status --porcelain; cat b.txt; git show --format= --name-only HEAD; sed -n 4,7p src/a.txt"),
    ).toBe(" M b.txt\n?? ux\nU\nfine\nsrc/a.txt\n4\nuser\ntask\n6\n");
  });

  test("what no snapshot shows is not given to an agent to solve", async () => {
    seed();
    const workspace = await work(
      "mkdir -p dist; echo out > dist/out; git add -f dist/out; git -c user.name=x -c user.email=x commit -qm dist",
    );
    scene.sh("mkdir dist; echo mine > dist/out");
    const made = await workspace.commit("work");
    if (made === undefined) throw new Error("nothing done");
    const plan = await workspaces.plan(workspace, made, made.parent);
    expect(plan).toEqual({ reason: "dirty", paths: ["dist/out"] });
    expect(await workspaces.rebaseWithMarkers(workspace, made, "work", ["dist/out"])).toEqual({
      ok: false,
      paths: ["dist/out"],
    });
    expect(await workspace.commit("work")).toEqual(made);
  });

  test("a kill while the files go to another base: the run's next opening puts them back", async () => {
    seed();
    const workspace = await work("echo T > b.txt");
    const made = await workspace.commit("work");
    if (made === undefined) throw new Error("nothing done");
    scene.sh("echo U > c.txt; git commit -qam theirs; echo wip > d.txt");
    const renewed = await workspaces.rebaseWithMarkers(workspace, made, "work", []);
    expect(renewed.ok).toBe(true);
    writeFileSync(join(workspace.root, "stray"), "");
    // The fact was not recorded: the next worker still thinks of the old base.
    const later = scene.service();
    // Readers change nothing.
    await later.open("task_1", workspace.prepared);
    expect(scene.sh("cat c.txt d.txt", workspace.root)).toBe("U\nwip\n");
    const again = await later.open("task_1", workspace.prepared, made.commit);
    expect(scene.sh("cat b.txt c.txt d.txt; git status --porcelain", workspace.root)).toBe("T\nc\nd\n");
    expect(await again.commit("work")).toMatchObject({ tree: made.tree, parent: made.parent });
  });
});
