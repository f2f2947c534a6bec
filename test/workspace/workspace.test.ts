import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ServiceError } from "../../src/error.ts";
import { WorkspaceLost } from "../../src/workspace/error.ts";
import { createScene, fsck, landAll, picture, prepare, type Scene } from "./fixture.ts";

let scene: Scene;
let workspaces: ReturnType<Scene["service"]>;

beforeEach(() => {
  scene = createScene();
  workspaces = scene.service();
});
afterEach(() => scene[Symbol.asyncDispose]());

const seed = () =>
  scene.sh(
    "git init -q; mkdir src; seq 20 > src/a.txt; echo b > b.txt; echo dist > .gitignore; git add .; git commit -qm first",
  );

const codeOf = async (work: Promise<unknown>) => {
  const error = await work.then(
    () => undefined,
    (caught: unknown) => caught,
  );
  if (!(error instanceof ServiceError)) throw new Error(`Expected a ServiceError, got ${String(error)}`);
  return `${error.status} ${error.code}: ${error.message.replaceAll(scene.base, "~")}`;
};

describe("inspect", () => {
  test("tells what kind of project a directory is; git is asked once for a config", async () => {
    const { root, sh } = scene;
    expect(await workspaces.inspect(root)).toEqual({ directory: root, project: root, git: undefined });
    sh("git init -q");
    const git = { toplevel: root, prefix: "", head: null, branch: "refs/heads/main" };
    expect(await workspaces.inspect(root)).toEqual({ directory: root, project: join(root, ".git"), git });
    rmSync(join(root, ".git"), { recursive: true });
    seed();
    const head = sh("git rev-parse HEAD").trim();
    expect((await workspaces.inspect(root)).git).toEqual({ ...git, head });
    expect((await workspaces.inspect(join(root, "src"))).git).toEqual({ ...git, head, prefix: "src" });
    sh("git pack-refs --all; git gc -q");
    expect((await workspaces.inspect(root)).git).toEqual({ ...git, head });
    sh("git checkout -q --detach");
    expect((await workspaces.inspect(root)).git).toEqual({ ...git, head, branch: null });
    sh("git worktree add -q ../other -b other");
    expect(await workspaces.inspect(join(scene.base, "other"))).toEqual({
      directory: join(scene.base, "other"),
      project: join(root, ".git"),
      git: { toplevel: join(scene.base, "other"), prefix: "", head, branch: "refs/heads/other" },
    });
    // One for each of: no commit yet, the new repository, the other worktree.
    expect(scene.spawned.map((args) => args[0])).toEqual(["rev-parse", "rev-parse", "rev-parse"]);
  });

  test("asks git where the layout is unusual, and gets the same answer", async () => {
    const { root, sh } = scene;
    seed();
    symlinkSync(root, join(scene.base, "link"));
    const asked = await workspaces.inspect(join(scene.base, "link/src"));
    expect(scene.spawned).toHaveLength(1);
    const usual = await workspaces.inspect(join(scene.base, "link/src"));
    expect(usual).toEqual(asked);
    expect(usual.directory).toBe(join(root, "src"));
    expect(scene.spawned).toHaveLength(1);
    scene.spawned.length = 0;
    sh("git config core.worktree ..");
    expect(await workspaces.inspect(join(scene.base, "link/src"))).toEqual(usual);
    expect(scene.spawned).toHaveLength(1);
    sh("git config --unset core.worktree; mkdir .git/reftable; git symbolic-ref refs/heads/alias refs/heads/main");
    expect(await workspaces.inspect(join(root, "src"))).toEqual(usual);
    expect(scene.spawned).toHaveLength(2);
    sh("rmdir .git/reftable; git symbolic-ref HEAD refs/heads/alias");
    expect((await workspaces.inspect(join(root, "src"))).git?.head).toBe(usual.git?.head);
    expect(scene.spawned).toHaveLength(3);
  });

  test("refuses what cannot be a project, saying expected and got", async () => {
    const { base, root, sh, dataDir } = scene;
    seed();
    sh("git clone -q --bare . ../bare.git; mkdir ../data/below; mkdir ../home");
    writeFileSync(join(base, "file"), "");
    const inspect = (directory: string) => codeOf(workspaces.inspect(directory));
    expect(await inspect("project")).toMatch(
      /^400 directory_invalid: Expected directory to be an absolute path, got "project"/,
    );
    expect(await inspect("")).toMatch(/^400 directory_invalid: Expected directory to be an absolute path, got ""/);
    expect(await inspect(join(base, "missing"))).toMatch(/^400 directory_invalid: .*"~\/missing"\./);
    expect(await inspect(join(base, "file"))).toMatch(/^400 directory_invalid: .*got the file "~\/file"/);
    expect(await inspect(`${base}/a\0b`)).toMatch(/^400 directory_invalid/);
    expect(await inspect(join(base, "bare.git"))).toMatch(
      /^400 directory_invalid: .*a bare repository or the inside of \.git/,
    );
    expect(await inspect(join(root, ".git"))).toMatch(
      /^400 directory_invalid: .*a bare repository or the inside of \.git/,
    );
    const ofSystem =
      "/ /bin /dev/shm /etc /etc/cron.d /home /lib /opt /proc/self /run /sbin /tmp /usr /usr/bin /usr/local/bin /usr/local/src /var /var/lib /var/spool/cron /var/tmp".split(
        " ",
      );
    for (const folder of ofSystem.filter((each) => existsSync(each)))
      expect(await inspect(folder), folder).toMatch(/^403 directory_not_allowed: .*a system folder/);
    // By a link of somebody's, too; and each is there on this machine, as a link or as itself.
    symlinkSync("/etc/cron.d", join(base, "tasks"));
    expect(await inspect(join(base, "tasks"))).toMatch(/a system folder/);
    expect(ofSystem.filter((each) => existsSync(each)).length).toBeGreaterThan(12);
    expect(await inspect(userInfo().homedir)).toMatch(/^403 directory_not_allowed: .*the home folder itself/);
    for (const folder of [dataDir, join(dataDir, "below"), base])
      expect(await inspect(folder), folder).toMatch(/^403 directory_not_allowed: .*the service's own data/);

    const confined = scene.service({ projectRoots: [join(base, "home")] });
    expect(await codeOf(confined.inspect(root))).toMatch(/^403 directory_not_allowed: .*SERVICE_PROJECT_ROOTS/);
    expect((await confined.inspect(join(base, "home"))).git).toBe(undefined);
    // What the operator names of the system's own may be a project, and nothing beside it.
    const named = scene.service({ projectRoots: ["/usr/share/doc"] });
    if (existsSync("/usr/share/doc/git"))
      expect((await named.inspect("/usr/share/doc/git")).directory).toBe("/usr/share/doc/git");
    expect(await codeOf(named.inspect("/usr/share"))).toMatch(/a system folder/);
    for (const wide of ["/", "/usr"])
      expect(await codeOf(scene.service({ projectRoots: [wide] }).inspect("/usr/share/doc"))).toMatch(
        /a system folder/,
      );
    symlinkSync(root, join(base, "home/out"));
    expect(await codeOf(confined.inspect(join(base, "home/out")))).toMatch(/^403/);
    sh("echo '[core' > .git/config");
    expect(await inspect(root)).toMatch(/^400 directory_invalid: .*usable Git repository/);
  });
});

describe("prepare", () => {
  test("makes a worktree with a Git directory of its own by two processes; the project gets two refs", async () => {
    seed();
    await workspaces.inspect(scene.root);
    scene.spawned.length = 0;
    const workspace = await prepare(workspaces, scene.root);
    const [head = "", tree = ""] = scene.sh("git rev-parse HEAD 'HEAD^{tree}'").split("\n");
    const root = join(scene.dataDir, "worktrees/task_1");
    expect(workspace.prepared).toEqual({
      kind: "worktree",
      root,
      worktree: root,
      branch: "sortie/task_1",
      baseCommit: head,
      baseTree: tree,
      targetRef: "refs/heads/main",
    });
    expect(scene.spawned.map((args) => args[0])).toEqual(["status", "read-tree"]);
    expect(scene.sh("git worktree list --porcelain").match(/^worktree /gm)).toHaveLength(1);
    expect(scene.sh("git for-each-ref --format='%(refname) %(objectname)' refs/sortie refs/heads/sortie")).toBe(
      `refs/heads/sortie/task_1 ${head}\nrefs/sortie/base/task_1 ${head}\n`,
    );
    expect(scene.sh("git status --porcelain; git rev-parse --show-toplevel", root)).toBe(`${root}\n`);
    expect(scene.sh("git worktree prune -v")).toBe("");
    expect(picture(scene).status).toBe("");
    expect(
      (
        await workspace.run({
          run: "cat b.txt; pwd",
          cwd: workspace.root,
          timeoutMs: 5000,
          keepBytes: 100,
          signal: AbortSignal.timeout(5000),
        })
      ).output,
    ).toBe(`b\n${root}\n`);
    expect((await workspace.files.read("b.txt", 10)).bytes.toString()).toBe("b\n");
  });

  test("by a packed history and a folder of the repository", async () => {
    seed();
    scene.sh("git gc -q");
    const workspace = await prepare(workspaces, join(scene.root, "src"));
    expect(workspace.prepared).toMatchObject({ root: join(scene.dataDir, "worktrees/task_1/src") });
    expect((await workspace.files.list("")).entries.map((entry) => entry.path)).toEqual(["a.txt"]);
    expect((await workspace.git?.run(["rev-parse", "--show-prefix"]))?.stdout.toString()).toBe("src/\n");
  });

  test.each<[string, (scene: Scene) => void]>([
    ["no Git", () => undefined],
    ["no commit", ({ sh }) => sh("git init -q")],
  ])("works in place with %s", async (_name, make) => {
    make(scene);
    const workspace = await prepare(workspaces, scene.root);
    const none = { worktree: null, branch: null, baseCommit: null, baseTree: null, targetRef: null };
    expect(workspace.prepared).toEqual({ kind: "directory", root: scene.root, ...none });
    await workspace.files.write("x", "1");
    expect(readFileSync(join(scene.root, "x"), "utf8")).toBe("1");
    await expect(workspace.commit("x")).rejects.toThrow("works in place");
    expect(await workspace.diff(null)).toBe("");
  });

  test("works in place when asked to, and shows what changed since", async () => {
    seed();
    const workspace = await workspaces.prepare({
      taskID: "task_1",
      directory: scene.root,
      isolation: "directory",
      landing: "none",
    });
    expect(workspace.prepared).toMatchObject({
      kind: "directory",
      worktree: null,
      baseCommit: scene.sh("git rev-parse HEAD").trim(),
    });
    await workspace.files.write("b.txt", "changed\n");
    await workspace.files.write("new.txt", "new\n");
    const before = picture(scene);
    const diff = await workspace.diff(null);
    expect(diff).toContain("-b\n+changed");
    expect(diff).toContain("+++ b/new.txt");
    expect(picture(scene)).toEqual(before);
    expect(existsSync(join(scene.dataDir, "worktrees"))).toBe(false);
  });

  test("keeps the branch only, detached or when asked to", async () => {
    seed();
    const asked = await workspaces.prepare({
      taskID: "task_2",
      directory: scene.root,
      isolation: "worktree",
      landing: "branch",
    });
    expect(asked.prepared.targetRef).toBe(null);
    scene.sh("git checkout -q --detach");
    expect((await prepare(workspaces, scene.root)).prepared.targetRef).toBe(null);
  });

  test("again after a kill at any point: what stands half-made is completed", async () => {
    seed();
    const whole = await prepare(workspaces, scene.root);
    const gitDir = join(scene.dataDir, "worktrees/task_1.git");
    const breakages: (() => void)[] = [
      () => rmSync(join(gitDir, "index")),
      () => rmSync(join(gitDir, "HEAD")),
      () => rmSync(gitDir, { recursive: true }),
      () => rmSync(whole.root, { recursive: true }),
      () => rmSync(join(whole.root, ".git")),
      () => rmSync(join(whole.root, "src"), { recursive: true }),
      () => writeFileSync(join(gitDir, "index.lock"), ""),
      () => writeFileSync(join(whole.root, "stray.txt"), "left"),
      () => scene.sh("git update-ref -d refs/sortie/base/task_1"),
      () => writeFileSync(join(whole.root, "b.txt"), "hal"),
    ];
    for (const breakage of breakages) {
      breakage();
      const again = await prepare(scene.service(), scene.root);
      expect(again.prepared).toEqual(whole.prepared);
      expect(scene.sh("git status --porcelain; cat b.txt; git rev-parse HEAD", again.root)).toBe(
        `b\n${whole.prepared.baseCommit}\n`,
      );
      expect(scene.sh("git rev-parse refs/sortie/base/task_1").trim()).toBe(whole.prepared.baseCommit);
    }
    expect(fsck(scene)).toBe("");
  });

  test("opens again from the record, and makes a lost worktree anew from its branch", async () => {
    seed();
    const first = await prepare(workspaces, scene.root);
    await first.files.write("new.txt", "kept\n");
    const commit = await first.commit("work");
    rmSync(first.root, { recursive: true });
    // Who only reads makes nothing; the Task's own run, which names its commit, does.
    const reader = await scene.service().open("task_1", first.prepared);
    expect(() => reader.files).toThrow(WorkspaceLost);
    expect(existsSync(first.root)).toBe(false);
    const again = await scene.service().open("task_1", first.prepared, commit?.commit);
    expect((await again.files.read("new.txt", 10)).bytes.toString()).toBe("kept\n");
    expect(await again.commit("work")).toMatchObject({ tree: commit?.tree, parent: commit?.parent });
    await expect(scene.service().open("task_9", first.prepared)).rejects.toThrow("Expected the record");
  });

  test("says what is gone under it, whatever git is asked; control: another failure stays git's", async () => {
    seed();
    const workspace = await prepare(workspaces, scene.root);
    const { baseCommit } = workspace.prepared;
    const asked = [() => workspace.diff(null), () => workspace.reset(baseCommit ?? ""), () => workspace.commit("work")];
    const control = await workspace.reset("0".repeat(40)).catch((error: unknown) => error);
    expect(control).toBeInstanceOf(Error);
    expect(control).not.toBeInstanceOf(WorkspaceLost);
    renameSync(workspace.root, `${workspace.root}-away`);
    for (const ask of asked) await expect(ask()).rejects.toThrow(WorkspaceLost);
    for (const ask of asked) await expect(ask()).rejects.toThrow(workspace.root);
    renameSync(`${workspace.root}-away`, workspace.root);
    renameSync(join(scene.root, ".git"), join(scene.base, "git-away"));
    for (const ask of asked) await expect(ask()).rejects.toThrow(`Expected the Git repository of ${scene.root}`);
    renameSync(join(scene.base, "git-away"), join(scene.root, ".git"));
    expect(await workspace.tree()).toMatch(/^[0-9a-f]{40}$/);
  });

  test("writes its refs by git where refs are not files", async () => {
    seed();
    mkdirSync(join(scene.root, ".git/reftable"));
    const workspace = await prepare(workspaces, scene.root);
    expect(scene.spawned.map((args) => args.slice(0, 2).join(" "))).toContain("update-ref refs/sortie/base/task_1");
    await workspace.files.write("b.txt", "changed\n");
    await landAll(workspaces, workspace);
    expect(picture(scene).status).toBe("");
    expect(readFileSync(join(scene.root, "b.txt"), "utf8")).toBe("changed\n");
    await prepare(workspaces, scene.root);
    await workspaces.remove("task_1");
    expect(scene.sh("git branch --list 'sortie/*'; git worktree list").trim().split("\n")).toHaveLength(1);
  });

  test("no command starts, and no Task begins, through a link that leads out", async () => {
    seed();
    scene.sh("mkdir ../elsewhere real; ln -s ../elsewhere out; git add .; git commit -qm link");
    const workspace = await prepare(workspaces, scene.root);
    symlinkSync(join(scene.base, "elsewhere"), join(workspace.root, "way"));
    const run = (cwd: string) =>
      workspace.run({ run: "touch ran; pwd", cwd, timeoutMs: 5000, keepBytes: 100, signal: AbortSignal.timeout(5000) });
    expect(await run(join(workspace.root, "way"))).toMatchObject({ ended: "not-started" });
    expect(await run(scene.base)).toMatchObject({ ended: "not-started" });
    expect(await run(join(workspace.root, "src/.."))).toMatchObject({ ended: "exit", stdout: `${workspace.root}\n` });
    expect(scene.sh("ls -A ../elsewhere")).toBe("");
    // What is a folder on the user's disk is a link in the snapshot, which leaves filtered paths as they are.
    scene.sh("rm out; mkdir out; echo '/out filter=x' > .gitattributes");
    await expect(prepare(workspaces, join(scene.root, "out"), "task_2")).rejects.toThrow("got a symbolic link");
  });

  test("remove leaves nothing of the Task, twice, and without the project too", async () => {
    seed();
    await prepare(workspaces, scene.root);
    await workspaces.remove("task_1");
    await workspaces.remove("task_1");
    expect(scene.sh("git for-each-ref | grep -c sortie || true")).toBe("0\n");
    expect(scene.sh("ls -A worktrees", scene.dataDir)).toBe("");
    await prepare(workspaces, scene.root, "task_2");
    rmSync(scene.root, { recursive: true });
    await workspaces.remove("task_2");
    expect(scene.sh("ls -A worktrees", scene.dataDir)).toBe("");
  });
});

describe("commit", () => {
  const contents = (id: string) => scene.sh(`git ls-tree -r --name-only ${id}`).trim().split("\n");

  test("is one commit on the base, made anew each time; one process when nothing changed", async () => {
    seed();
    const workspace = await prepare(workspaces, scene.root);
    const count = async (work: Promise<unknown>) => {
      const before = scene.spawned.length;
      await work;
      return scene.spawned.length - before;
    };
    expect(await workspace.commit("nothing")).toBe(undefined);
    expect(await count(workspace.commit("nothing"))).toBe(1);
    await workspace.files.write("b.txt", "one\ntwo\n");
    const first = await workspace.commit("first\n\nTask: task_1\n");
    expect(first).toMatchObject({
      parent: workspace.prepared.baseCommit,
      files: 1,
      insertions: 2,
      deletions: 1,
      omitted: [],
    });
    expect(await count(workspace.commit("other words"))).toBe(1);
    expect(await workspace.commit("other words")).toEqual(first);
    await workspace.files.write("c.txt", "new\n");
    await workspace.files.remove("src/a.txt");
    const second = await workspace.commit("second");
    expect(second).toMatchObject({ parent: workspace.prepared.baseCommit, files: 3, insertions: 3, deletions: 21 });
    expect(scene.sh("git log --format='%H %an <%ae> %cn %s' main..sortie/task_1")).toBe(
      `${second?.commit} Sortie <sortie@localhost> Sortie second\n`,
    );
    expect(scene.sh(`git rev-parse ${second?.commit}^{tree}`).trim()).toBe(second?.tree);
    await workspace.files.write("b.txt", "b\n");
    await workspace.files.remove("c.txt");
    await workspace.files.write("src/a.txt", `${Array.from({ length: 20 }, (_, at) => at + 1).join("\n")}\n`);
    expect(await workspace.commit("back")).toBe(undefined);
    // A branch that would hold the base alone goes.
    expect(scene.sh("git branch --list 'sortie/*'")).toBe("");
    expect(await workspace.commit("back")).toBe(undefined);
    expect(fsck(scene)).toBe("");
  });

  test.each([
    ["commits of their own", "echo x > x; git add x; git commit -qm mine; echo y > y"],
    ["a branch of their own", "git checkout -qb mine; echo x > x; git add .; git commit -qm mine; echo y > y"],
    ["a detached head", "git checkout -q --detach; echo x > x; git add .; git commit -qm mine; echo y > y"],
    ["staged files", "echo x > x; git add x; echo y > y"],
    [
      "an unfinished merge",
      "git checkout -qb o; echo o > b.txt; git commit -qam o; git checkout -q --detach HEAD^; echo p > b.txt; git commit -qam p; git merge o || true; echo b > b.txt; echo x > x; echo y > y",
    ],
    ["another commit checked out", "echo x > x; echo y > y; git checkout -q --orphan none; git rm -rqf --cached ."],
    ["a lock left behind", "echo x > x; echo y > y; touch $(git rev-parse --git-dir)/index.lock"],
  ])("takes the tree on disk whatever agents did with git: %s", async (_name, script) => {
    seed();
    const workspace = await prepare(workspaces, scene.root);
    scene.sh(`git config user.name Agent; ${script}`, workspace.root);
    const commit = await workspace.commit("work");
    expect(commit).toMatchObject({ parent: workspace.prepared.baseCommit, files: 2, insertions: 2, deletions: 0 });
    expect(contents(commit?.commit ?? "")).toEqual([".gitignore", "b.txt", "src/a.txt", "x", "y"]);
    expect(
      scene.sh(
        "git rev-parse HEAD; git status --porcelain; git -C ../../../project log -1 --format=%P%an sortie/task_1",
        workspace.root,
      ),
    ).toBe(`${commit?.commit}\n${commit?.parent}Sortie\n`);
    expect(
      await scene
        .service()
        .open("task_1", workspace.prepared)
        .then((again) => again.commit("work")),
    ).toMatchObject({ tree: commit?.tree });
  });

  test("an ignored file that an agent committed is part of its work; others are not", async () => {
    seed();
    const workspace = await prepare(workspaces, scene.root);
    scene.sh(
      "mkdir dist; echo 1 > dist/kept; echo 2 > dist/other; git add -f dist/kept; git commit -qm dist",
      workspace.root,
    );
    expect(contents((await workspace.commit("work"))?.commit ?? "")).toEqual([
      ".gitignore",
      "b.txt",
      "dist/kept",
      "src/a.txt",
    ]);
  });

  test("leaves out what cannot be in a commit, and says why", async () => {
    seed();
    scene.sh(
      "git init -q ../lib; cd ../lib; git commit -q --allow-empty -m lib; cd ../project; git submodule --quiet add ../lib sub; git commit -qm sub",
    );
    const workspace = await prepare(workspaces, scene.root);
    scene.sh(
      `git init -q nested; git -C nested commit -q --allow-empty -m n; echo 1 > nested/f
       rm src/a.txt; mkfifo src/a.txt; echo x > x; touch .sortie-tmp-0123456789abcdef
       git init -q staged; git -C staged commit -q --allow-empty -m n; git add staged 2>/dev/null
       git config submodule.sub.url ${scene.base}/lib
       git -c protocol.file.allow=always submodule --quiet update --init sub; git -C sub commit -q --allow-empty -m moved`,
      workspace.root,
    );
    const commit = await workspace.commit("work");
    expect(commit?.omitted.sort((one, other) => (one.path < other.path ? -1 : 1))).toEqual([
      { path: "nested", reason: "a nested Git repository" },
      { path: "src/a.txt", reason: "a FIFO" },
      { path: "staged", reason: "a nested Git repository" },
      { path: "sub", reason: "a submodule; its commit is not changed" },
    ]);
    expect(scene.sh(`git diff --name-status main ${commit?.commit}`)).toBe("A\tx\n");
    expect((await workspace.commit("work"))?.commit).toBe(commit?.commit);
  });

  test.each([
    ["by a command", "mkdir -p .sortie; echo '{}' > .sortie/permissions.jsonc; echo x > x"],
    ["added", "mkdir -p .sortie; echo '{}' > .sortie/permissions.jsonc; git add .; echo x > x"],
    ["committed", "mkdir -p .sortie; echo '{}' > .sortie/permissions.jsonc; git add .; git commit -qm s; echo x > x"],
    ["changed", "echo '{}' > src/.sortie/rules; echo x > x"],
    ["removed", "git rm -q -r src/.sortie; echo x > x"],
    ["moved from", "git mv src/.sortie/rules x"],
    [
      "moved to",
      "mkdir .SORTIE; cp src/.sortie/rules x; git mv src/a.txt .SORTIE/a.txt; git reset -q; cp .SORTIE/a.txt src/",
    ],
    ["a link in its place", "rm -r src/.sortie; ln -s .. src/.sortie; echo x > x"],
  ])("what an agent changes below .sortie enters no commit: %s", async (_name, script) => {
    seed();
    scene.sh("mkdir src/.sortie; echo r > src/.sortie/rules; git add .; git commit -qm rules");
    const workspace = await prepare(workspaces, scene.root);
    scene.sh(`git config user.name Agent; ${script}`, workspace.root);
    const commit = await workspace.commit("work");
    // The control: what else it changed is there.
    expect(scene.sh(`git diff --name-status main ${commit?.commit}`)).toBe("A\tx\n");
    expect(commit?.omitted.map(({ reason }) => reason)).toContain("settings of the service, which no Task may change");
    expect(commit?.omitted.every(({ path }) => /\.sortie/i.test(path))).toBe(true);
  });

  test("files become folders and folders files", async () => {
    seed();
    const workspace = await prepare(workspaces, scene.root);
    scene.sh("rm b.txt; mkdir b.txt; echo 1 > b.txt/in; rm -r src; echo 2 > src", workspace.root);
    const commit = await workspace.commit("work");
    expect(contents(commit?.commit ?? "")).toEqual([".gitignore", "b.txt/in", "src"]);
  });
});

describe("reset and diff", () => {
  test("reset puts tracked files back and takes untracked ones away, ignored ones stay", async () => {
    seed();
    const workspace = await prepare(workspaces, scene.root);
    await workspace.files.write("b.txt", "work\n");
    const commit = await workspace.commit("work");
    scene.sh(
      "echo left > b.txt; echo left > new; mkdir dist; echo built > dist/out; git init -q nested; rm src/a.txt",
      workspace.root,
    );
    await workspace.reset(commit?.commit ?? "");
    expect(scene.sh("cat b.txt; ls -A; cat dist/out; ls src", workspace.root)).toBe(
      "work\n.git\n.gitignore\nb.txt\ndist\nsrc\nbuilt\na.txt\n",
    );
    const before = scene.spawned.length;
    await workspace.reset(commit?.commit ?? "");
    expect(scene.spawned.length - before).toBe(1);
    expect(await workspace.commit("work")).toEqual(commit);
    await workspace.reset(workspace.prepared.baseCommit ?? "");
    expect(scene.sh("cat b.txt", workspace.root)).toBe("b\n");
  });

  test("diff shows the commit, or the tree on disk with new files, and changes nothing", async () => {
    seed();
    const workspace = await prepare(workspaces, scene.root);
    await workspace.files.write("new file", "new\n");
    await workspace.files.write("b.txt", "work\n");
    const before = scene.sh("git ls-files -s; git status --porcelain", workspace.root);
    const live = await workspace.diff(null);
    expect(live).toContain("+++ b/new file");
    expect(live).toContain("-b\n+work\n");
    expect(scene.sh("git ls-files -s; git status --porcelain", workspace.root)).toBe(before);
    const commit = await workspace.commit("work");
    expect(await workspace.diff(commit?.commit ?? "")).toBe(live);
    expect(await workspace.diff(null)).toBe(live);
  });
});
