import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import type { Mount } from "../../src/process/sandbox/place.ts";
import type { Sandbox } from "../../src/process/sandbox/sandbox.ts";
import { createProcesses } from "../../src/process/service.ts";
import { defaultLimits } from "../../src/protocol/limit.ts";
import { WorkspaceLost } from "../../src/workspace/error.ts";
import { createFiles } from "../../src/workspace/file/files.ts";
import { openFolder } from "../../src/workspace/file/folder.ts";
import { createWorkspaces } from "../../src/workspace/service.ts";
import { createDiskReader } from "../../src/workspace/tree/tracked-file.ts";
import { directoryMounts, worktreeMounts } from "../../src/workspace/worktree/mount.ts";
import type { Workspace } from "../../src/workspace/workspace.ts";
import { git, makeProject, temporary, writeFiles } from "../harness/project.ts";
import { sandboxesHere } from "../harness/sandboxes.ts";

/**
 * What an agent puts in the place of a folder that the service itself opens, mounts or removes: it leads nowhere. Each
 * needs one command, and no race.
 */

const secret = "the-outside-secret";
const { signal } = new AbortController();

type Setting = { isolation?: "worktree" | "directory"; folder?: string; repository?: boolean };

/** A project, a folder outside of it with a secret, and a Task. */
const open = async (sandbox: Sandbox, { isolation = "worktree", folder = "", repository = true }: Setting = {}) => {
  const temp = temporary("sortie-outside-");
  const at = (name: string) => join(realpathSync(temp.path), name);
  writeFiles(at("outside"), { "notes.txt": `${secret}\n`, "dir/notes.txt": `${secret}\n` });
  const files = {
    "a.txt": "a\n",
    ".gitignore": "node_modules\n",
    "packages/p/i.js": "i\n",
    "sub/dir/b.txt": "b\n",
  };
  if (repository) makeProject(at("project"), files);
  else writeFiles(at("project"), files);
  writeFiles(at("project"), { "packages/p/node_modules/dep/i.js": "dep\n" });
  const processes = createProcesses({ folder: at("data/processes"), keepEnv: process.env, sandbox, log: silent });
  const workspaces = createWorkspaces({
    dataDir: at("data"),
    projectRoots: [],
    processes,
    dependencies: { names: ["node_modules"], tier: sandbox.tier },
    limits: defaultLimits,
    log: silent,
  });
  const workspace = await workspaces.prepare({
    taskID: "task_1",
    directory: join(at("project"), folder),
    isolation,
    landing: "none",
  });
  const command = (run: string, cwd = workspace.root) => ({ run, cwd, timeoutMs: 20_000, keepBytes: 10_000, signal });
  return {
    at,
    processes,
    workspaces,
    workspace,
    project: at("project"),
    run: (text: string) => workspace.run(command(text)),
    /** A command in a sandbox with these mounts over the tree. */
    runWith: (over: () => Mount[], tree: string, text: string) =>
      processes.run("task_2", command(text, tree), { tree, at: tree, under: () => [], over }),
    /** The end of a run: what comes next opens a sandbox anew. */
    again: () => processes.closeSandboxes("task_1"),
    async [Symbol.asyncDispose]() {
      await processes.stop();
      temp[Symbol.dispose]();
    },
  };
};

type Lab = Awaited<ReturnType<typeof open>>;

const [first] = await sandboxesHere();
const tier1 = first?.tier === 1 ? first : undefined;

/**
 * The same name for this machine and for a sandbox that shows `folder` at its own path, in which `name` is there, too.
 */
const bothWays = (folder: string, name: string) => `${"../".repeat(folder.split("/").length - 1)}${name}`;

describe.runIf(tier1 !== undefined)("what a sandbox mounts", () => {
  const sandbox = tier1 as Sandbox;
  const recordOf = ({ project }: Lab) => ({ toplevel: project, commonDir: join(project, ".git") });
  const placeOf = (lab: Lab) => ({
    tree: lab.workspace.prepared.worktree ?? "",
    gitDir: `${lab.workspace.prepared.worktree}.git`,
  });

  test("no command puts another folder into its Git directory where something is mounted", async () => {
    await using lab = await open(sandbox);
    const { gitDir } = placeOf(lab);
    const moved = await lab.run(
      `cd "$(git rev-parse --git-dir)"; for n in objects objects/info objects/info/alternates config; do mv $n away && echo MOVED $n; rm -rf $n; [ -e $n ] || echo GONE $n; ln -sfn /etc $n; done; mkdir objects/own && echo writable`,
    );
    expect(moved.stdout).toBe("writable\n");
    expect(readdirSync(join(gitDir, "objects/info"))).toEqual(["alternates"]);
    await lab.again();
    expect((await lab.run("git log --oneline | wc -l; git status --porcelain")).stdout).toBe("1\n");
  });

  test("what stands there is looked at: a link makes no file outside, and the next run has it in order", async () => {
    await using lab = await open(sandbox);
    const { tree, gitDir } = placeOf(lab);
    const made = lab.at("outside/made");
    // As another tier, or an earlier version, may have left it. bubblewrap has this machine at /oldroot as it mounts.
    const plant = () => {
      rmSync(join(gitDir, "objects/info"), { recursive: true });
      mkdirSync(join(gitDir, "objects/info"));
      symlinkSync(`/oldroot${made}`, join(gitDir, "objects/info/alternates"));
    };
    plant();
    const place = worktreeMounts({ tree, gitDir, writable: true, record: recordOf(lab) });
    expect(place.over).toThrow(/Expected a regular file at .*alternates/);
    expect(await lab.run("echo ran")).toMatchObject({ ended: "not-started" });
    await lab.again();
    expect(existsSync(made)).toBe(false);
    const opened = await lab.workspaces.open("task_1", lab.workspace.prepared, lab.workspace.prepared.baseCommit ?? "");
    const ran = await opened.run({
      run: "git status --porcelain",
      cwd: opened.root,
      timeoutMs: 20_000,
      keepBytes: 1000,
      signal,
    });
    expect(ran).toMatchObject({ ended: "exit", exitCode: 0, output: "" });
    // Control: the same mounts, not looked at, make the file.
    await lab.again();
    plant();
    const text = { kind: "text" as const, text: "x\n", to: "/run/sortie/git/objects/info/alternates" };
    await lab.runWith(() => [{ kind: "rw", from: gitDir, to: "/run/sortie/git" }, text], tree, "echo ran");
    expect(existsSync(made)).toBe(true);
  });

  test("a link in the place of a mounted folder shows no folder of this machine", async () => {
    await using lab = await open(sandbox);
    const { tree, gitDir } = placeOf(lab);
    writeFiles(lab.at("var"), { "notes.txt": `${secret}\n`, alternates: "" });
    // Inside, four folders above `objects` is the root; outside it is the folder with the project.
    rmSync(join(gitDir, "objects/info"), { recursive: true });
    symlinkSync("../../../../var", join(gitDir, "objects/info"));
    const place = worktreeMounts({ tree, gitDir, writable: true, record: recordOf(lab) });
    expect(place.over).toThrow(/symbolic link/);
    // Control: not looked at, it is mounted over another folder of the sandbox.
    const info = { kind: "ro" as const, from: join(gitDir, "objects/info"), to: "/run/sortie/git/objects/info" };
    const over = (): Mount[] => [{ kind: "rw", from: gitDir, to: "/run/sortie/git" }, info];
    expect((await lab.runWith(over, tree, "cat /var/notes.txt")).stdout).toBe(`${secret}\n`);
  });

  test("in place: a .sortie that is a link shows no folder of this machine", async () => {
    await using lab = await open(sandbox, { isolation: "directory" });
    // A file of /etc that no sandbox has.
    const hidden = readdirSync("/etc").find((name) => name === "shadow" || name === "fstab") ?? "shadow";
    await lab.run(`ln -s ${bothWays(lab.project, "etc")} .sortie`);
    await lab.again();
    expect((await lab.run(`[ -e /etc/${hidden} ] && echo SEEN; echo ran`)).stdout).toBe("ran\n");
    // Control: mounted all the same, it is this machine's /etc.
    const path = join(lab.project, ".sortie");
    const over = (): Mount[] => [{ kind: "ro", from: path, to: path }];
    expect((await lab.runWith(over, lab.project, `[ -e /etc/${hidden} ] && echo SEEN`)).stdout).toBe("SEEN\n");
  });

  test("in place: a repository that an agent makes borrows no objects of others", async () => {
    await using lab = await open(sandbox, { isolation: "directory", repository: false });
    const other = makeProject(lab.at("other"), { "b.txt": `${secret}\n` });
    const objects = join(other, ".git/objects");
    await lab.run(`git init -q; echo ${objects} > .git/objects/info/alternates`);
    await lab.again();
    const show = `git cat-file -p ${git(other, "rev-parse", "HEAD:b.txt")}`;
    expect((await lab.run(show)).output).not.toContain(secret);
    const [, id = ""] = show.split("-p ");
    const asked = await lab.workspace.git?.run(["cat-file", "-p", id]).catch((error: unknown) => String(error));
    expect(JSON.stringify(asked ?? "")).not.toContain(secret);
    // Control: where the repository is the user's, it does.
    const { over } = directoryMounts({ directory: lab.project, known: true });
    expect((await lab.runWith(over, lab.project, show)).stdout).toBe(`${secret}\n`);
  });
});

describe.runIf(tier1 !== undefined)("a project below the top of its repository, exchanged for a link", () => {
  const sandbox = tier1 as Sandbox;
  const exchanged = async (folder: string, link: string, target: (lab: Lab) => string): Promise<Lab> => {
    const lab = await open(sandbox, { folder });
    await lab.run(`cd "$(git rev-parse --show-toplevel)"; mv ${link} away && ln -s ${target(lab)} ${link}`);
    return lab;
  };
  const shapes = [
    { folder: "sub", link: "sub", target: (lab: Lab) => lab.at("outside") },
    // Above the last folder no flag of an open counts.
    { folder: "sub/dir", link: "sub", target: (lab: Lab) => lab.at("outside") },
  ];
  const refused = { name: "FileRefused", kind: "linked" };
  const reopened = (lab: Lab): Promise<Workspace> =>
    lab.workspaces.open("task_1", lab.workspace.prepared, lab.workspace.prepared.baseCommit ?? "");

  test.each(shapes)(
    "$folder by $link: file tools read, list and write nothing outside",
    async ({ folder, link, target }) => {
      await using lab = await exchanged(folder, link, target);
      const root = lab.workspace.root;
      // Control: the link leads there.
      expect((await createFiles(root).read("notes.txt", 100)).bytes.toString()).toBe(`${secret}\n`);
      for (const { files } of [lab.workspace, await reopened(lab)]) {
        await expect(files.read("notes.txt", 100)).rejects.toMatchObject({ name: "FileRefused" });
        await expect(files.list("")).rejects.toMatchObject(refused);
        await expect(files.write("planted.txt", "x")).rejects.toMatchObject(refused);
        await expect(files.remove("notes.txt")).rejects.toMatchObject(refused);
      }
      using reader = createDiskReader(root);
      expect(await reader.read({ path: "notes.txt", mode: "100644", object: "", stage: 0 }, 100)).toMatchObject({
        kind: "absent",
      });
      expect(readdirSync(lab.at("outside"), { recursive: true }).map(String).sort()).toEqual([
        "dir",
        "dir/notes.txt",
        "notes.txt",
      ]);
    },
  );

  test("a checkout of it makes no folder outside, and reads none", async () => {
    await using lab = await exchanged("sub/dir", "sub", (lab) => lab.at("outside/dir"));
    const commit = await lab.workspace.commit("link");
    expect(git(lab.project, "ls-tree", commit?.commit ?? "", "sub")).toMatch(/^120000/);
    // Also once the files are there.
    for (const _ of [1, 2])
      await expect(lab.workspaces.checkout(lab.workspace, commit?.commit ?? "", "work")).rejects.toThrow(WorkspaceLost);
    expect(readdirSync(lab.at("outside/dir"))).toEqual(["notes.txt"]);
    // Control: who makes folders by their path makes one there.
    mkdirSync(join(`${lab.workspace.prepared.worktree}.checkout`, "sub/dir"), { recursive: true });
    expect(readdirSync(lab.at("outside/dir")).sort()).toEqual(["dir", "notes.txt"]);
  });
});

describe.runIf(tier1 !== undefined)("dependency folders", () => {
  test("a link in the place of the folder above one: nothing of the user's is removed", async () => {
    await using lab = await open(tier1 as Sandbox);
    expect(lab.workspace.dependencies).toMatchObject([{ path: "packages/p/node_modules" }]);
    await lab.run(`mv packages away && ln -s ${lab.project}/packages packages && ls packages`);
    await lab.workspace.clearDependencies();
    const dependency = join(lab.project, "packages/p/node_modules/dep/i.js");
    expect(readFileSync(dependency, "utf8")).toBe("dep\n");
    // Control: who removes by the path removes the user's.
    rmSync(join(lab.workspace.prepared.worktree ?? "", "packages/p/node_modules"), { recursive: true, force: true });
    expect(existsSync(dependency)).toBe(false);
  });
});

test("a folder is opened by no path that leads up", () => {
  using temp = temporary();
  mkdirSync(join(temp.path, "in"));
  expect(() => openFolder(join(temp.path, "in"), [".."])).toThrow(/without "\.\."/);
  expect(execFileSync("ls", [join(temp.path, "in", "..")], { encoding: "utf8" })).toBe("in\n");
});

describe.each((await sandboxesHere()).map((sandbox) => ({ sandbox, tier: sandbox.tier })))(
  "tier $tier",
  ({ sandbox }) => {
    test.each([
      ["a link", "rm -r sub; ln -s nowhere sub", "120000 sub"],
      ["a link to what it was", "mv sub s2; ln -s s2 sub", "120000 sub"],
      ["a link below", "mv sub/dir d; ln -s ../d sub/dir", "120000 sub/dir"],
      ["a file", "rm -r sub; echo x > sub", "100644 sub"],
    ])("a folder that became %s is committed as that", async (_name, script, listed) => {
      await using lab = await open(sandbox);
      await lab.run(script);
      const commit = await lab.workspace.commit("exchanged");
      const [mode = "", path = ""] = listed.split(" ");
      expect(git(lab.project, "ls-tree", "-r", commit?.commit ?? "", path)).toMatch(
        new RegExp(`^${mode} blob \\w+\\t${path}$`),
      );
      // Control: git alone takes no path that is now behind a link.
      if (mode !== "120000") return;
      const again = makeProject(lab.at("again"), { "sub/dir/b.txt": "b\n" });
      execFileSync("bash", ["-c", script], { cwd: again });
      expect(() =>
        execFileSync("git", ["update-index", "--add", "--remove", "--replace", "--stdin"], {
          cwd: again,
          input: "sub/dir/b.txt\n",
          stdio: "pipe",
        }),
      ).toThrow(/beyond a symbolic link/);
    });
  },
);
