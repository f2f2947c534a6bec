import { execFileSync } from "node:child_process";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { git, makeProject, readText, temporary, until, writeFiles } from "../../harness/project.ts";
import {
  at,
  createTask,
  expectWhole,
  makeLab,
  post,
  send,
  settledTask,
  shell,
} from "../../harness/double/hostile-text.ts";
import type { MockTurn } from "../../harness/double/mock-provider.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { unpack, verified } from "../../harness/zip-reader.ts";
import { night } from "../../harness/night.ts";

/** Odd projects on the whole road: POST, work, check, land, ZIP. */

let lab: Awaited<ReturnType<typeof makeLab>>;
let service: TestService;
beforeAll(async () => {
  lab = await makeLab({ archives: 100 });
  service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await lab[Symbol.asyncDispose]();
});

const project = (files: Record<string, string> = { "a.txt": "one\n" }) => makeProject(lab.folder(), files);

const run = async (directory: string, turns: MockTurn[], body: Record<string, unknown> = {}) => {
  const taskID = await createTask(service.url, directory, { ...lab.request(turns), ...body });
  return settledTask(service.url, taskID);
};
const completed = { lifecycleStatus: "completed" };
const write = (path: string, content: string): MockTurn => ({ calls: [{ tool: "write", input: { path, content } }] });
/** What every call gave back, in order. */
const outputs = async (taskID: string): Promise<{ state: string; output: string }[]> => {
  const { body } = await send(service.url, `/task/${taskID}/messages?limit=200`);
  return (body["messages"] as { calls: { state: string; output: string }[] }[]).flatMap(({ calls }) => calls);
};

/** What the Task's archive holds, every byte of it read once. */
const entries = async (directory: string, taskID: string): Promise<Map<string, Buffer>> => {
  const response = await fetch(`${service.url}${at(`/task/${taskID}/project-archive`, directory)}`);
  expect(response.status).toBe(200);
  const zip = Buffer.from(await response.arrayBuffer());
  using folder = temporary();
  const path = join(folder.path, "task.zip");
  writeFileSync(path, zip);
  const { findings } = await verified(path);
  // What a repository can be is no tampering.
  expect(findings.filter(({ state }) => state === "bad")).toEqual([]);
  return unpack(zip);
};
const archive = async (directory: string, taskID: string) => [...(await entries(directory, taskID)).keys()];
const manifest = async (directory: string, taskID: string) =>
  String((await entries(directory, taskID)).get("execution-flow/manifest.json"));

describe.concurrent("what a repository can be", { timeout: 60_000 }, () => {
  test("a submodule stays where it is, and the archive leaves it out and says so", async () => {
    const inner = project();
    const directory = project();
    git(directory, "-c", "protocol.file.allow=always", "submodule", "add", "-q", inner, "sub");
    git(directory, "commit", "-q", "-m", "with a submodule");
    const link = git(directory, "ls-files", "-s", "sub");
    const { taskID, ...status } = await run(directory, [shell("echo n > n.txt; mkdir -p sub; echo x > sub/x.txt")]);
    expect(status, status.error).toMatchObject(completed);
    expect(git(directory, "show", "--format=", "--name-only", "HEAD")).toBe("n.txt");
    expect(git(directory, "ls-files", "-s", "sub")).toBe(link);
    expect(readText(directory, "sub/a.txt")).toBe("one\n");
    expectWhole(directory);
    const names = await archive(directory, taskID);
    expect(names.some((name) => name.endsWith("n.txt"))).toBe(true);
    expect(names.filter((name) => /(^|\/)sub(\/|$)/.test(name))).toEqual([]);
    expect(await manifest(directory, taskID)).toContain('"sub"');
  });

  test("a symlink out of the project: nothing through it, and not in the archive", async () => {
    const outside = lab.folder("outside");
    mkdirSync(outside);
    writeFiles(outside, { "secret.txt": "SECRET\n" });
    const directory = project();
    symlinkSync(outside, join(directory, "out"));
    symlinkSync("a.txt", join(directory, "in"));
    git(directory, "add", "-A");
    git(directory, "commit", "-q", "-m", "links");
    const { taskID, ...status } = await run(directory, [
      {
        calls: [
          { tool: "read", input: { path: "out/secret.txt" } },
          { tool: "write", input: { path: "out/new.txt", content: "x" } },
          { tool: "edit", input: { path: "out/secret.txt", edits: [{ old: "SECRET", new: "x" }] } },
          { tool: "list", input: { path: "out" } },
          { tool: "search", input: { pattern: "SECRET" } },
          { tool: "shell", input: { command: "pwd", cwd: "out" } },
          { tool: "read", input: { path: "a.txt" } },
          { tool: "write", input: { path: "n.txt", content: "n\n" } },
        ],
      },
    ]);
    expect(status, status.error).toMatchObject(completed);
    const said = await outputs(taskID);
    expect(said.map(({ output }) => output).join()).not.toMatch(/SECRET\n/);
    expect(said.slice(0, 4).map(({ state }) => state)).toEqual(["error", "error", "error", "error"]);
    expect(said[5]?.state).toBe("error");
    // The control: the same calls on what lies inside.
    expect(said.slice(6, -1).map(({ state }) => state)).toEqual(["ok", "ok"]);
    expect(readdirSync(outside)).toEqual(["secret.txt"]);
    expect(readText(outside, "secret.txt")).toBe("SECRET\n");
    const names = await archive(directory, taskID);
    expect(names.filter((name) => /\/out$|^out$|secret/.test(name))).toEqual([]);
    expect(names.some((name) => /(^|\/)in$/.test(name))).toBe(true);
  });

  test("names with spaces, quotes, newlines and bytes that are no UTF-8 land as they are", async () => {
    const directory = project();
    const names = [" lead", "a b", "q\"uo'te", "new\nline", "tab\t", "back\\slash", "-n", "*", ":(top)x", "é"].map(
      (name) => Buffer.from(name),
    );
    names.push(Buffer.from([0x66, 0xff, 0xfe, 0x2e]), Buffer.from([0xc3, 0x28]));
    const { taskID, ...status } = await run(
      directory,
      [shell(forEach(names, "fs.writeFileSync(name, Buffer.from([index, 255, 13, 10]))"))],
      {
        checks: [`test $(ls -A | wc -l) -ge ${names.length}`],
      },
    );
    expect(status, status.error).toMatchObject(completed);
    for (const [index, name] of names.entries())
      expect(readFileSync(Buffer.concat([Buffer.from(`${directory}/`), name]))).toEqual(
        Buffer.from([index, 0xff, 0x0d, 0x0a]),
      );
    expectWhole(directory);
    expect((await archive(directory, taskID)).length).toBeGreaterThan(names.length);
    // And changed, moved and deleted again by a follow-up.
    await post(service.url, `/task/${taskID}/message`, directory, { source: "test", text: "again" });
    expect(await settledTask(service.url, taskID)).toMatchObject(completed);
    const second = await run(directory, [shell(`${forEach(names, "fs.rmSync(name)")}; mv a.txt 'b c.txt'`)]);
    expect(second).toMatchObject(completed);
    expect(readdirSync(directory).toSorted()).toEqual([".git", "b c.txt"]);
    expectWhole(directory);
  });

  test("executable bits, deletions, renames, links, files for folders and folders for files", async () => {
    const directory = project({
      "a.sh": "a\n",
      "b.sh": "b\n",
      "gone/x": "x\n",
      f: "file\n",
      "d/1": "1\n",
      "d/2/3": "3\n",
      m: "m\n",
    });
    const work =
      "chmod +x a.sh; rm -r gone; rm f; mkdir -p f/g; echo in > f/g/h; rm -r d; echo was a folder > d; mv m 'n m'; ln -s a.sh link; : > empty";
    const { taskID, ...status } = await run(directory, [shell(work)]);
    expect(status, status.error).toMatchObject(completed);
    expect(statSync(join(directory, "a.sh")).mode & 0o111).toBe(0o111);
    expect(statSync(join(directory, "b.sh")).mode & 0o111).toBe(0);
    expect(existsSync(join(directory, "gone"))).toBe(false);
    expect(readText(directory, "f/g/h")).toBe("in\n");
    expect(readText(directory, "d")).toBe("was a folder\n");
    expect(readText(directory, "n m")).toBe("m\n");
    expect(lstatSync(join(directory, "link")).isSymbolicLink()).toBe(true);
    expectWhole(directory);
    // A follow-up turns everything round.
    const back = await run(directory, [
      shell("chmod -x a.sh; rm -r f d link empty; echo file > f; mkdir -p d/2; echo 3 > d/2/3; ln -s d link"),
    ]);
    expect(back).toMatchObject(completed);
    expect(readText(directory, "link/2/3")).toBe("3\n");
    expectWhole(directory);
    await archive(directory, back.taskID);
    await archive(directory, taskID);
  });

  test("a nested folder as the project directory sees and lands its own part", async () => {
    const directory = project({ "a.txt": "one\n", "pack/age/b.txt": "two\n" });
    const nested = join(directory, "pack/age");
    const { taskID, ...status } = await run(
      nested,
      [shell("echo three > c.txt; basename $PWD"), write("b.txt", "2\n")],
      {
        checks: ["test -f c.txt"],
      },
    );
    expect(status, status.error).toMatchObject(completed);
    expect((await outputs(taskID))[0]?.output).toContain("age");
    expect(readText(nested, "c.txt")).toBe("three\n");
    expect(readText(nested, "b.txt")).toBe("2\n");
    expectWhole(directory);
    await archive(nested, taskID);
  });

  test("a user's linked worktree, a detached HEAD, and a branch checked out elsewhere", async () => {
    const directory = project();
    const linked = lab.folder("linked");
    git(directory, "worktree", "add", "-q", "-b", "side", linked);
    const main = git(directory, "rev-parse", "main");
    const onSide = await run(realpathSync(linked), [write("n.txt", "n\n")]);
    expect(onSide).toMatchObject(completed);
    expect(readText(linked, "n.txt")).toBe("n\n");
    expect(git(directory, "rev-parse", "main")).toBe(main);
    expect(git(linked, "rev-parse", "HEAD")).toBe(onSide.git.landedCommit);
    expectWhole(linked);
    expectWhole(directory);
    git(linked, "checkout", "-q", "--detach");
    const detached = await run(linked, [write("m.txt", "m\n")]);
    expect(detached).toMatchObject(completed);
    expect(existsSync(join(linked, "m.txt"))).toBe(false);
    expect(git(directory, "show", `sortie/${detached.taskID}:m.txt`)).toBe("m");
    expectWhole(linked);
  });

  test("the user switches branch while the Task works: the other branch is left alone", async () => {
    const directory = project();
    git(directory, "branch", "other");
    const turns = [shell("echo n > n.txt"), { text: "Done.", hold: true }];
    const taskID = await createTask(service.url, directory, lab.request(turns));
    await until(
      () => Promise.resolve(lab.provider.held()),
      (held) => held > 0,
    );
    git(directory, "checkout", "-q", "other");
    lab.provider.release();
    const { lifecycleStatus, error } = await settledTask(service.url, taskID);
    expect(["completed", "failed"]).toContain(lifecycleStatus);
    expect(git(directory, "symbolic-ref", "HEAD")).toBe("refs/heads/other");
    expect(git(directory, "rev-list", "--count", "other")).toBe("1");
    if (lifecycleStatus === "failed") expect(error).toContain(`sortie/${taskID}`);
    expect(git(directory, "show", `sortie/${taskID}:n.txt`)).toBe("n");
    expectWhole(directory);
  });

  test("CRLF by attribute, on disk and in the branch", async () => {
    const directory = project({ ".gitattributes": "*.txt text eol=crlf\n*.bin -text\n", "a.txt": "one\ntwo\n" });
    git(directory, "rm", "-q", "--cached", "a.txt");
    writeFileSync(join(directory, "a.txt"), "one\r\ntwo\r\n");
    git(directory, "add", "-A");
    execFileSync("git", ["diff", "--cached", "--quiet"], { cwd: directory });
    const status = await run(directory, [
      { calls: [{ tool: "edit", input: { path: "a.txt", edits: [{ old: "two", new: "three" }] } }] },
      shell("printf 'x\\r\\ny\\r\\n' > b.txt; printf '\\r\\n\\0' > c.bin"),
    ]);
    expect(status, status.error).toMatchObject(completed);
    expect(readText(directory, "a.txt")).toMatch(/^one\r\n(two|three)\r\n$/);
    expect(readText(directory, "b.txt")).toBe("x\r\ny\r\n");
    expect(git(directory, "cat-file", "blob", "HEAD:b.txt")).toBe("x\ny");
    expect(readText(directory, "c.bin")).toBe("\r\n\0");
    expectWhole(directory);
  });

  test("hooks, filters, drivers and a file monitor of the project's do not run", async () => {
    const directory = project({ ".gitattributes": "*.txt filter=evil diff=evil merge=evil\n", "a.txt": "one\n" });
    const mark = lab.folder("mark");
    const hook = `#!/bin/sh\necho $0 >> ${mark}\nexit 1\n`;
    const hooks = join(directory, ".git/hooks");
    for (const name of [
      "pre-commit",
      "commit-msg",
      "post-checkout",
      "post-index-change",
      "reference-transaction",
      "post-rewrite",
    ])
      writeFileSync(join(hooks, name), hook, { mode: 0o755 });
    const evil = `echo filter >> ${mark}; cat`;
    for (const [key, value] of [
      ["filter.evil.clean", evil],
      ["filter.evil.smudge", evil],
      ["filter.evil.required", "true"],
      ["diff.evil.command", evil],
      ["diff.evil.textconv", `sh -c '${evil} "$1"' -`],
      ["merge.evil.driver", evil],
      ["core.fsmonitor", join(hooks, "pre-commit")],
      ["core.pager", evil],
      ["commit.gpgsign", "true"],
      ["gpg.program", join(hooks, "pre-commit")],
    ] as const)
      git(directory, "config", key, value);
    const status = await run(directory, [write("n.txt", "n\n")], { checks: ["test -f n.txt"] });
    expect(status, status.error).toMatchObject(completed);
    await send(service.url, at(`/task/${status.taskID}/diff`, directory));
    await archive(directory, status.taskID);
    expect(existsSync(mark) ? readText(mark) : "").toBe("");
    // The control: the user's own git runs them.
    expect(() => git(directory, "commit", "--allow-empty", "-m", "x")).toThrow();
    expect(readText(mark)).not.toBe("");
  });

  test("sparse and shallow clones", async () => {
    const origin = project({ "in/a.txt": "one\n", "out/b.txt": "two\n" });
    writeFiles(origin, { "in/c.txt": "c\n" });
    git(origin, "add", "-A");
    git(origin, "commit", "-q", "-m", "second");
    const directory = lab.folder("clone");
    git(lab.root, "clone", "-q", "--depth=1", "--sparse", `file://${origin}`, directory);
    git(directory, "sparse-checkout", "set", "in");
    const status = await run(directory, [write("in/n.txt", "n\n"), shell("cat out/b.txt")]);
    expect(status).toMatchObject(completed);
    expect(readText(directory, "in/n.txt")).toBe("n\n");
    expect(git(directory, "show", "HEAD:out/b.txt")).toBe("two");
    expect(existsSync(join(directory, "out"))).toBe(false);
    // What the user chose not to have on disk does not land there.
    const outside = await run(directory, [shell("echo more >> out/b.txt")]);
    expect(outside).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "landing_dirty" } });
    expect(git(directory, "show", `sortie/${outside.taskID}:out/b.txt`)).toBe("two\nmore");
    expectWhole(directory);
    expect(git(directory, "rev-parse", "--is-shallow-repository")).toBe("true");
    await archive(directory, status.taskID);
  });

  test("a large file, and ignored files that the Task made", async () => {
    const directory = project({ ".gitignore": "junk/\n*.log\n", "a.txt": "one\n" });
    // What is larger than git may print is landed in test/workspace/landing.test.ts.
    const size = night ? 80_000_000 : 20_000_000;
    const status = await run(directory, [
      shell(`head -c ${size} /dev/zero > big.bin; mkdir junk; echo j > junk/j; echo l > x.log; echo k > kept.txt`),
    ]);
    expect(status, status.error).toMatchObject(completed);
    expect(statSync(join(directory, "big.bin")).size).toBe(size);
    expect(git(directory, "show", "--format=", "--name-only", "HEAD")).toBe("big.bin\nkept.txt");
    expect(existsSync(join(directory, "junk"))).toBe(false);
    expect(existsSync(join(directory, "x.log"))).toBe(false);
    expectWhole(directory);
    expect((await archive(directory, status.taskID)).join("\n")).not.toMatch(/junk|x\.log/);
  });

  test("a repository without commits: in place, not for the archive", async () => {
    const directory = lab.folder("fresh");
    mkdirSync(directory);
    git(directory, "init", "-q", "-b", "main");
    const status = await run(directory, [write("n.txt", "n\n")], { checks: ["test -f n.txt"] });
    expect(status, status.error).toMatchObject(completed);
    expect(readText(directory, "n.txt")).toBe("n\n");
    expect(git(directory, "status", "--porcelain")).toBe("?? n.txt");
    const zip = await send(service.url, at(`/task/${status.taskID}/project-archive`, directory));
    expect([200, 422]).toContain(zip.status);
  });
});

/** A command that does something with each of these names, whatever bytes they are. */
function forEach(names: Buffer[], act: string): string {
  const list = JSON.stringify(names.map((name) => name.toString("hex")));
  return `node -e '${list}.forEach((hex, index) => { const name = Buffer.from(hex, "hex"); ${act}; })'`;
}
