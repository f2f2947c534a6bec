import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Entry, fromBuffer } from "yauzl";
import type { DomainEvent } from "../../src/domain/event.ts";
import type { Manifest } from "../../src/domain/view/archive.ts";
import type { TaskState } from "../../src/domain/state/task.ts";
import { silent } from "../../src/log.ts";
import { defaultLimits, type Limits } from "../../src/protocol/limit.ts";
import { createSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import type { Store } from "../../src/store/store.ts";
import { createArchiver } from "../../src/archive/service.ts";
import { createProcesses } from "../../src/process/service.ts";
import type { Workspace, Workspaces } from "../../src/workspace/workspace.ts";
import { createWorkspaces } from "../../src/workspace/service.ts";
import { created, settled } from "../harness/events.ts";
import { gitEnv } from "../harness/project.ts";
import { noRepositories } from "../harness/repositories.ts";

let base: string;
let project: string;
let dataDir: string;
let store: Store;
let workspaces: Workspaces;
const scope: (() => Promise<void>)[] = [];

beforeEach(async () => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "sortie-archive-")));
  project = join(base, "project");
  dataDir = join(base, "data");
  mkdirSync(project);
  plain("init", "-q", "-b", "main");
  store = await createSqliteStore({ file: ":memory:", dataDir, log: silent });
  const processes = createProcesses({ folder: join(dataDir, "processes"), runID: "test", keepEnv: {}, log: silent });
  workspaces = createWorkspaces({ dataDir, projectRoots: [base], processes, limits: defaultLimits, log: silent });
  scope.push(
    () => processes.stop(),
    async () => store[Symbol.asyncDispose](),
  );
});

afterEach(async () => {
  for (const close of scope.splice(0)) await close();
  rmSync(base, { recursive: true, force: true });
});

/** git as a user would run it. */
const plain = (...args: string[]): string =>
  execFileSync("git", args, { cwd: project, env: gitEnv(base), timeout: 10_000, stdio: ["ignore", "pipe", "pipe"] })
    .toString("utf8")
    .trim();

const write = (path: string | Buffer, text: string | Buffer): void => {
  if (typeof path === "string") mkdirSync(join(project, path, ".."), { recursive: true });
  writeFileSync(
    typeof path === "string" ? join(project, path) : Buffer.concat([Buffer.from(`${project}/`), path]),
    text,
  );
};

const commit = (): string => {
  plain("add", "-A");
  plain("commit", "-q", "-m", "work", "--allow-empty");
  return plain("rev-parse", "HEAD");
};

type Made = { state: TaskState; workspace: Workspace };

const record = async (taskID: string, events: DomainEvent[]): Promise<TaskState> => {
  const done = await store.commit({ appends: [{ stream: taskID, expected: "any", events }] });
  expect(done.ok).toBe(true);
  const state = await store.state(taskID);
  if (state === undefined) throw new Error("Expected a Task");
  return state;
};

/** A Task with its workspace, as a run makes it. */
const make = async (isolation: "worktree" | "directory" = "worktree", directory = project): Promise<Made> => {
  const event = created({ directory, project: join(project, ".git"), isolation, landing: "none" });
  const { taskID } = event.data;
  const workspace = await workspaces.prepare({ taskID, directory, isolation, landing: "branch" });
  const state = await record(taskID, [event, { type: "workspace.prepared", data: workspace.prepared }]);
  return { state, workspace };
};

const archiver = (limits: Partial<Limits> = {}) =>
  createArchiver({ store, workspaces, repositories: noRepositories, limits: { ...defaultLimits, ...limits }, dataDir })
    .ofTask;

type Unzipped = { bytes: Buffer; mode: number; flags: number; method: number };

const unzip = (bytes: Buffer): Promise<Map<string, Unzipped>> =>
  new Promise((resolve, reject) => {
    fromBuffer(bytes, { lazyEntries: true, validateEntrySizes: true, strictFileNames: true }, (error, zip) => {
      if (error) return reject(error);
      const files = new Map<string, Unzipped>();
      zip.on("error", reject).on("end", () => resolve(files));
      zip.on("entry", (entry: Entry) => {
        zip.openReadStream(entry, (failed, stream) => {
          if (failed) return reject(failed);
          const parts: Buffer[] = [];
          stream
            .on("data", (part: Buffer) => parts.push(part))
            .once("end", () => {
              files.set(entry.fileName, {
                bytes: Buffer.concat(parts),
                mode: entry.externalFileAttributes >>> 16,
                flags: entry.generalPurposeBitFlag,
                method: entry.compressionMethod,
              });
              zip.readEntry();
            });
        });
      });
      zip.readEntry();
    });
  });

const never = new AbortController().signal;

const archive = async (state: TaskState, limits: Partial<Limits> = {}) => {
  await using file = await archiver(limits)(state, never);
  const raw = readFileSync(file.path);
  expect(raw.length).toBe(file.bytes);
  const files = await unzip(raw);
  const manifest = JSON.parse(files.get("execution-flow/manifest.json")?.bytes.toString("utf8") ?? "") as Manifest;
  return { raw, files, manifest, path: file.path, filename: file.filename };
};

const projectIn = (files: Map<string, Unzipped>) => [...files.keys()].filter((name) => name.startsWith("project/"));
const textOf = (files: Map<string, Unzipped>, name: string) => files.get(name)?.bytes.toString("utf8");
const reasons = (manifest: Manifest) => Object.fromEntries(manifest.omitted.map(({ path, reason }) => [path, reason]));
const temps = () => (existsSync(join(dataDir, "tmp")) ? readdirSync(join(dataDir, "tmp")) : []);

describe("what is in it", () => {
  test("the tracked files as the Task left them, the flow, and a manifest that names every file with its hash", async () => {
    write("a.txt", "old\n");
    write("src/run.sh", "#!/bin/sh\n");
    chmodSync(join(project, "src/run.sh"), 0o755);
    symlinkSync("src/run.sh", join(project, "start"));
    write("picture.png", Buffer.alloc(5000, 7));
    write(".gitignore", "ignored\n");
    write("ignored", "no");
    commit();
    const { workspace, state: before } = await make();
    writeFileSync(join(workspace.root, "a.txt"), "new\n");
    writeFileSync(join(workspace.root, "made.txt"), "made\n");
    writeFileSync(join(workspace.root, "ignored"), "no");
    const tree = await workspace.commit("work");
    if (tree === undefined) throw new Error("Expected a commit");
    writeFileSync(join(workspace.root, "untracked.txt"), "no");
    const state = await record(before.taskID, [{ type: "tree.committed", data: tree }, settled()]);

    const { files, manifest, filename } = await archive(state);
    expect([...files.keys()]).toEqual([
      "execution-flow/board.json",
      "execution-flow/checks.json",
      "execution-flow/events.jsonl",
      "execution-flow/ledger.jsonl",
      "execution-flow/messages.jsonl",
      "execution-flow/task.json",
      "project/.gitignore",
      "project/a.txt",
      "project/made.txt",
      "project/picture.png",
      "project/src/run.sh",
      "project/start",
      "execution-flow/manifest.json",
    ]);
    expect(filename).toBe(`${state.taskID}.zip`);
    expect(textOf(files, "project/a.txt")).toBe("new\n");
    expect(textOf(files, "project/made.txt")).toBe("made\n");
    expect(files.get("project/src/run.sh")?.mode.toString(8)).toBe("100755");
    expect(files.get("project/a.txt")?.mode.toString(8)).toBe("100644");
    expect(files.get("project/start")?.mode.toString(8)).toBe("120777");
    expect(textOf(files, "project/start")).toBe("src/run.sh");
    expect(files.get("project/picture.png")?.method).toBe(0);
    expect([...files.values()].every(({ flags }) => (flags & 0x800) !== 0)).toBe(true);

    expect(manifest).toMatchObject({
      schemaVersion: 1,
      taskID: state.taskID,
      project,
      commit: tree.commit,
      source: "worktree",
      complete: true,
      omitted: [{ path: "untracked.txt", reason: "new, and not tracked by Git" }],
      warnings: [],
    });
    const hashes = Object.fromEntries(manifest.files.map(({ name, sha256, bytes }) => [name, { sha256, bytes }]));
    const found = [...files].filter(([name]) => name !== "execution-flow/manifest.json");
    expect(hashes).toEqual(
      Object.fromEntries(
        found.map(([name, { bytes }]) => [
          name,
          { sha256: createHash("sha256").update(bytes).digest("hex"), bytes: bytes.length },
        ]),
      ),
    );
  });

  test("the flow is what the API shows", async () => {
    write("a.txt", "a\n");
    commit();
    const { state } = await make();
    const { files } = await archive(state);
    const lines = (name: string) =>
      (textOf(files, `execution-flow/${name}`) ?? "")
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines("events.jsonl").map(({ type, taskID }) => [type, taskID])).toEqual([
      ["task.created", state.taskID],
      ["workspace.prepared", state.taskID],
    ]);
    expect(lines("messages.jsonl")).toMatchObject([{ role: "user", text: "Make the test pass" }]);
    const json = (name: string) => JSON.parse(textOf(files, `execution-flow/${name}`) ?? "") as Record<string, unknown>;
    expect(json("task.json")).toMatchObject({ taskID: state.taskID, request: "Make the test pass", status: "running" });
    expect(json("board.json")).toMatchObject({ generatedAt: state.updatedAt, lastEventID: state.position });
    expect(json("checks.json")).toEqual([]);
  });

  test("unzip and Python read it", async () => {
    write("a.txt", "a\n".repeat(10_000));
    write("ä/ö.txt", "o");
    write("big.bin", Buffer.alloc(3 * 1024 * 1024, "big"));
    commit();
    await using file = await archiver()((await make()).state, never);
    const readers: [string, string[]][] = [
      ["unzip", ["-t", file.path]],
      ["python3", ["-c", "import sys,zipfile; z=zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None", file.path]],
    ];
    for (const [program, args] of readers) {
      const { status, error, stderr } = spawnSync(program, args, { timeout: 10_000 });
      if (error !== undefined) process.stderr.write(`\n!!! SKIPPED on this machine: ${program}, ${error.message}\n`);
      else expect({ program, status, stderr: stderr.toString() }).toMatchObject({ status: 0 });
    }
    // Control: the same readers see a wrong byte.
    const broken = join(base, "broken.zip");
    const bytes = readFileSync(file.path);
    const at = bytes.indexOf("project/a.txt") + 40;
    bytes[at] = (bytes[at] ?? 0) ^ 0xff;
    writeFileSync(broken, bytes);
    const control = spawnSync("unzip", ["-t", broken], { timeout: 10_000 });
    if (control.error === undefined) expect(control.status).not.toBe(0);
  });

  test("a subfolder project: that folder only, from its own root", async () => {
    write("outside.txt", "no");
    write("pkg/one/in.txt", "in");
    write("pkg/two.txt", "two");
    commit();
    const { state, workspace } = await make("worktree", join(project, "pkg"));
    expect(projectIn((await archive(state)).files)).toEqual(["project/one/in.txt", "project/two.txt"]);
    rmSync(workspace.prepared.worktree ?? "", { recursive: true });
    const { files, manifest } = await archive(state);
    expect(projectIn(files)).toEqual(["project/one/in.txt", "project/two.txt"]);
    expect(manifest.source).toBe("commit");
  });

  test("in place: the user's own tracked files, edits included; also before there is a commit", async () => {
    write("a.txt", "a\n");
    plain("add", "a.txt");
    write("b.txt", "untracked");
    const first = await archive((await make("directory")).state);
    expect(projectIn(first.files)).toEqual(["project/a.txt"]);
    expect(first.manifest).toMatchObject({ commit: null, source: "directory" });
    const head = commit();
    write("a.txt", "edited\n");
    const second = await archive((await make("directory")).state);
    expect(textOf(second.files, "project/a.txt")).toBe("edited\n");
    expect(second.manifest.commit).toBe(head);
  });

  test("a settled Task whose worktree is gone: from the repository, the same files", async () => {
    write("a.txt", "a\n");
    write("x/b.bin", Buffer.alloc(2 * 1024 * 1024, 3));
    write("x/same.txt", "a\n");
    symlinkSync("a.txt", join(project, "link"));
    symlinkSync("../../etc/passwd", join(project, "x/out"));
    commit();
    const { state: before, workspace } = await make();
    writeFileSync(join(workspace.root, "a.txt"), "by the task\n");
    const tree = await workspace.commit("work");
    if (tree === undefined) throw new Error("Expected a commit");
    const state = await record(before.taskID, [{ type: "tree.committed", data: tree }, settled()]);
    const there = await archive(state);
    expect(there.manifest.source).toBe("worktree");
    rmSync(workspace.prepared.worktree ?? "", { recursive: true });
    const gone = await archive(state);
    expect(gone.manifest).toMatchObject({ source: "commit", commit: tree.commit });
    expect(gone.manifest.files.filter(({ name }) => name.startsWith("project/"))).toEqual(
      there.manifest.files.filter(({ name }) => name.startsWith("project/")),
    );
    expect(textOf(gone.files, "project/a.txt")).toBe("by the task\n");
    expect(reasons(gone.manifest)).toEqual({ "x/out": "link that leads out of the project" });
    // Nothing was put back for it.
    expect(existsSync(workspace.prepared.worktree ?? "")).toBe(false);
  });

  test("a Task that has no workspace yet: the project's commit", async () => {
    write("a.txt", "a\n");
    const head = commit();
    write("a.txt", "edited\n");
    const event = created({ directory: project, project: join(project, ".git") });
    const { files, manifest } = await archive(await record(event.data.taskID, [event]));
    expect(textOf(files, "project/a.txt")).toBe("a\n");
    expect(manifest).toMatchObject({ commit: head, source: "commit" });
  });

  test("no Git worktree is 422 with the way on, and leaves nothing behind", async () => {
    const bare = join(base, "bare");
    mkdirSync(bare);
    const event = created({ directory: bare, project: bare, isolation: "directory", landing: "none" });
    const workspace = await workspaces.prepare({
      taskID: event.data.taskID,
      directory: bare,
      isolation: "directory",
      landing: "none",
    });
    const state = await record(event.data.taskID, [event, { type: "workspace.prepared", data: workspace.prepared }]);
    await expect(archiver()(state, never)).rejects.toMatchObject({
      code: "not_a_git_worktree",
      status: 422,
      message: `${bare} is not a Git worktree. Run \`git init\` there, or pass another directory.`,
    });
    expect(temps()).toEqual([]);
  });
});

describe("T9 hostile trees", () => {
  test("links out, files that went, changed, or cannot be read as files", async () => {
    for (const name of ["deleted", "fifo", "folder", "link", "linked/in.txt", "kept", "unreadable"]) write(name, name);
    const links = {
      absolute: "/etc/passwd",
      out: "../up",
      "deep/out": "../../up",
      "deep/in": "../kept",
      "deep/winding": "../deep/../../up",
      here: ".",
      git: ".git/config",
      "deep/gITs": "../.GIT/config",
    };
    mkdirSync(join(project, "deep"));
    for (const [name, target] of Object.entries(links)) symlinkSync(target, join(project, name));
    commit();
    const { state, workspace } = await make();
    const at = (name: string) => join(workspace.root, name);
    unlinkSync(at("deleted"));
    unlinkSync(at("fifo"));
    execFileSync("mkfifo", [at("fifo")]);
    unlinkSync(at("folder"));
    mkdirSync(at("folder"));
    unlinkSync(at("link"));
    symlinkSync("kept", at("link"));
    renameSync(at("linked"), at("elsewhere"));
    symlinkSync("elsewhere", at("linked"));
    unlinkSync(at("here"));
    writeFileSync(at("here"), "no link any more");

    const { files, manifest } = await archive(state);
    expect(projectIn(files)).toEqual(["project/deep/in", "project/kept", "project/unreadable"]);
    expect(reasons(manifest)).toEqual({
      absolute: "link to an absolute path",
      out: "link that leads out of the project",
      "deep/out": "link that leads out of the project",
      "deep/winding": "link that leads out of the project",
      git: "link into .git",
      "deep/gITs": "link into .git",
      deleted: "missing",
      "elsewhere/in.txt": "new, and not tracked by Git",
      linked: "new, and not tracked by Git",
      fifo: "changed type",
      folder: "changed type",
      link: "changed type",
      "linked/in.txt": "changed type",
      here: "changed type",
    });
    expect(manifest.complete).toBe(true);
  });

  test("names no system may take literally, in a commit that plumbing made", async () => {
    write("kept.txt", "kept");
    commit();
    const blob = plain("hash-object", "-w", "kept.txt");
    const tree = (entries: [mode: string, name: string, object: string][]): string => {
      const bytes = Buffer.concat(
        entries.map(([mode, name, object]) =>
          Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(object, "hex")]),
        ),
      );
      return execFileSync("git", ["hash-object", "-t", "tree", "-w", "--literally", "--stdin"], {
        cwd: project,
        env: gitEnv(base),
        input: bytes,
      })
        .toString()
        .trim();
    };
    const file = (name: string): [string, string, string] => ["100644", name, blob];
    const inner = tree([file("evil")]);
    const top = tree([
      file("../up"),
      ["40000", "..", inner],
      ["40000", ".", inner],
      ["40000", ".GIT", inner],
      ["40000", "git~1", inner],
      file("/etc/cron"),
      ["120000", "d", plain("hash-object", "-w", "kept.txt")],
      ["40000", "d", inner],
      file("kept.txt"),
    ]);
    const hostile = plain("commit-tree", top, "-m", "hostile");
    plain("update-ref", "refs/heads/main", hostile);
    const event = created({ directory: project, project: join(project, ".git") });
    const { files, manifest } = await archive(await record(event.data.taskID, [event]));
    expect(projectIn(files)).toEqual(["project/d", "project/kept.txt"]);
    expect(reasons(manifest)).toEqual({
      "../up": "unsafe path",
      "../evil": "unsafe path",
      "./evil": "unsafe path",
      ".GIT/evil": "unsafe path",
      "git~1/evil": "unsafe path",
      "/etc/cron": "unsafe path",
      "d/evil": "below a link",
    });
  });

  test("a submodule and an unmerged path are named and left out", async () => {
    write("a.txt", "base\n");
    commit();
    plain("checkout", "-q", "-b", "other");
    write("a.txt", "theirs\n");
    commit();
    plain("checkout", "-q", "main");
    write("a.txt", "ours\n");
    const head = commit();
    expect(() => plain("merge", "other")).toThrow();
    plain("update-index", "--add", "--cacheinfo", `160000,${head},sub`);
    const { files, manifest } = await archive((await make("directory")).state);
    expect(projectIn(files)).toEqual([]);
    expect(manifest.omitted).toEqual([
      { path: "a.txt", reason: "unmerged" },
      { path: "sub", reason: "submodule" },
    ]);
  });

  test("odd names come out safe, distinct, and named in the manifest", async () => {
    const odd = [
      "new\nline",
      "tab\t",
      'quo"te',
      "back\\slash",
      "per%cent",
      "back%5Cslash",
      "ü",
      "-dash",
      "sp ace",
      "\u0085",
    ];
    for (const name of odd) write(name, name);
    write(Buffer.from([0x6c, 0x61, 0xe4, 0x74, 0x69, 0x6e]), "latin");
    for (const name of ["README.md", "readme.MD", "Readme.md", "dir", "DIR/file", "noext", "NOEXT"]) write(name, name);
    commit();
    const { files, manifest } = await archive((await make()).state);
    expect(projectIn(files).toSorted()).toEqual(
      [
        "new%0Aline",
        "tab%09",
        'quo"te',
        "back%5Cslash",
        "per%cent",
        "back%5Cslash~2",
        "ü",
        "-dash",
        "sp ace",
        "%C2%85",
        "la%E4tin",
        "README.md",
        "Readme~2.md",
        "readme~3.MD",
        "DIR/file",
        "dir~2",
        "NOEXT",
        "noext~2",
      ]
        .map((name) => `project/${name}`)
        .toSorted(),
    );
    const renamed = Object.fromEntries(
      manifest.files.flatMap(({ name, path }) => (path === undefined ? [] : [[name, path]])),
    );
    expect(renamed).toMatchObject({
      "project/new%0Aline": "new\nline",
      "project/la%E4tin": "la\udce4tin",
      "project/dir~2": "dir",
    });
    // Every name still leads to its own bytes.
    for (const { name, path } of manifest.files)
      if (name.startsWith("project/") && name !== "project/la%E4tin")
        expect(textOf(files, name)).toBe(path ?? name.slice("project/".length));
  });

  test("attributes are inert: nothing is substituted, nothing is left out, no line ending turns", async () => {
    write(
      ".gitattributes",
      "subst.txt export-subst\nhidden.txt export-ignore\ncrlf.txt text eol=crlf\n*.f filter=evil\n",
    );
    write("subst.txt", "$Format:%H$\n");
    write("hidden.txt", "there\n");
    write("crlf.txt", "a\nb\n");
    write("x.f", "plain\n");
    commit();
    plain("config", "filter.evil.smudge", `touch ${base}/ran; cat`);
    plain("config", "filter.evil.clean", `touch ${base}/ran; cat`);
    const { state, workspace } = await make("directory");
    const { files } = await archive(state);
    expect(textOf(files, "project/subst.txt")).toBe("$Format:%H$\n");
    expect(textOf(files, "project/hidden.txt")).toBe("there\n");
    expect(textOf(files, "project/crlf.txt")).toBe(readFileSync(join(workspace.root, "crlf.txt"), "utf8"));
    expect(existsSync(join(base, "ran"))).toBe(false);
    // Control: `git archive` does all of it.
    const control = await unzip(
      execFileSync("git", ["archive", "--format=zip", "HEAD"], { cwd: project, env: gitEnv(base), timeout: 10_000 }),
    );
    expect(control.get("subst.txt")?.bytes.toString()).toBe(`${plain("rev-parse", "HEAD")}\n`);
    expect(control.has("hidden.txt")).toBe(false);
    expect(existsSync(join(base, "ran"))).toBe(true);
  });

  test("tracked names that look like secrets are in, with a warning", async () => {
    for (const name of [".env", ".env.local", ".env.example", "a/server.key", "cert.pem", "id_rsa", "monkey"])
      write(name, "x");
    commit();
    const { files, manifest } = await archive((await make()).state);
    expect(projectIn(files).length).toBe(7);
    expect(manifest.warnings.map(({ path }) => path)).toEqual([
      ".env",
      ".env.local",
      "a/server.key",
      "cert.pem",
      "id_rsa",
    ]);
  });
});

describe("limits", () => {
  test("too large a file, too many files, too many bytes are left out and named; under the limit they are in", async () => {
    for (const name of ["a", "b", "c", "d"]) write(name, name.repeat(1000));
    write("big", "x".repeat(5000));
    commit();
    const { state } = await make();
    expect((await archive(state)).manifest.complete).toBe(true);

    const oneFile = await archive(state, { archiveFileBytes: 4999 });
    expect(reasons(oneFile.manifest)).toEqual({ big: "larger than 4999 bytes" });
    expect(reasons((await archive(state, { archiveFileBytes: 5000 })).manifest)).toEqual({});

    const files = await archive(state, { archiveFiles: 2 });
    expect(projectIn(files.files)).toEqual(["project/a", "project/b"]);
    expect(files.manifest.complete).toBe(false);
    expect(Object.keys(reasons(files.manifest))).toEqual(["big", "c", "d"]);

    const bytes = await archive(state, { archiveBytes: 3000 });
    expect(projectIn(bytes.files)).toEqual(["project/a", "project/b", "project/c"]);
    expect(reasons(bytes.manifest)).toEqual({
      big: "exceeds the archive's limit of 3000 bytes",
      d: "exceeds the archive's limit of 3000 bytes",
    });
  });

  test("a huge sparse file costs nothing when it is over the limit", async () => {
    write("huge", "");
    write("small", "s");
    commit();
    const { state, workspace } = await make();
    truncateSync(join(workspace.root, "huge"), 600 * 1024 ** 2);
    const begin = Date.now();
    const { manifest } = await archive(state);
    expect(reasons(manifest)).toEqual({ huge: `larger than ${512 * 1024 ** 2} bytes` });
    expect(Date.now() - begin).toBeLessThan(2_000);
  });

  test("two at once, a third is 429 with Retry-After until one was disposed", async () => {
    write("a", "a");
    commit();
    const { state } = await make();
    const take = archiver({ archives: 2 });
    const first = await take(state, never);
    const second = take(state, never);
    await expect(take(state, never)).rejects.toMatchObject({
      code: "rate_limited",
      status: 429,
      headers: { "retry-after": "5" },
    });
    await first[Symbol.asyncDispose]();
    await first[Symbol.asyncDispose]();
    const third = await take(state, never);
    await expect(take(state, never)).rejects.toMatchObject({ code: "rate_limited" });
    await third[Symbol.asyncDispose]();
    await (await second)[Symbol.asyncDispose]();
    expect(temps()).toEqual([]);
  });

  test("an archive that takes too long ends with an error and no file", async () => {
    for (let count = 0; count < 40; count++) write(`f${count}`, Buffer.alloc(1024 * 1024, String(count)));
    commit();
    const { state } = await make();
    await expect(archiver({ archiveSeconds: 0.05 })(state, never)).rejects.toThrow(
      "The archive was not ready within 0.05 seconds.",
    );
    expect(temps()).toEqual([]);
  });
});

describe("the file", () => {
  test("the same Task gives the same bytes, whatever the clock, the file times and the time zone", async () => {
    for (let count = 0; count < 400; count++) write(`d${count % 7}/f${count}.txt`, `${count}\n`.repeat(count));
    write("large.txt", "line\n".repeat(500_000));
    commit();
    const { state, workspace } = await make();
    const first = await archive(state);
    const zone = process.env["TZ"];
    process.env["TZ"] = "Pacific/Auckland";
    execFileSync("touch", ["-d", "2001-01-01", join(workspace.root, "large.txt")]);
    const second = await archive(state);
    if (zone === undefined) delete process.env["TZ"];
    else process.env["TZ"] = zone;
    expect(second.raw.equals(first.raw)).toBe(true);
    // Control: another byte in the tree, another archive.
    appendFileSync(join(workspace.root, "large.txt"), "!");
    expect((await archive(state)).raw.equals(first.raw)).toBe(false);
  });

  test("an abort on the way removes it, at whatever point it comes", async () => {
    for (let count = 0; count < 30; count++) write(`f${count}`, Buffer.alloc(600 * 1024, `${count} `));
    write("large", Buffer.alloc(8 * 1024 * 1024, "large "));
    commit();
    const { state } = await make();
    const take = archiver();
    let whole = Number.POSITIVE_INFINITY;
    let aborted = 0;
    for (const part of [1, 0.9, 0.7, 0.5, 0.4, 0.3, 0.2, 0.1, 0]) {
      const stop = new AbortController();
      const begin = performance.now();
      // The whole one tells how long it takes; so does each that was through before it was told to stop.
      if (whole < Number.POSITIVE_INFINITY) setTimeout(() => stop.abort(new Error("left")), whole * part);
      const result = await take(state, stop.signal).then(
        (file) => file[Symbol.asyncDispose](),
        (error: unknown) => error,
      );
      if (result instanceof Error) aborted += 1;
      else whole = Math.min(whole, performance.now() - begin);
      expect(temps()).toEqual([]);
    }
    expect(aborted).toBeGreaterThanOrEqual(3);
    // Control: it is there as long as it is held, and the aborted ones took no place for good.
    const file = await take(state, never);
    expect(temps().length).toBe(1);
    await file[Symbol.asyncDispose]();
    expect(temps()).toEqual([]);
  });
});
