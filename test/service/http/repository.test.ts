import { execFileSync } from "node:child_process";
import {
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ErrorBody } from "../../../src/protocol/error.ts";
import { git, makeProject, temporary, writeFiles } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { packedRef } from "../../../src/workspace/git/repository.ts";
import { inspectProject } from "../../../src/workspace/project.ts";

/**
 * What stands in the place of a repository's files, and whose repository a `.git` names: asked by who only lists Tasks.
 */

const place = temporary("sortie-repository-");
const roots = join(place.path, "roots");
let service: TestService;
let confined: TestService;
beforeAll(async () => {
  mkdirSync(roots);
  service = await startService(join(place.path, "data"));
  confined = await startService(join(place.path, "confined"), { SERVICE_PROJECT_ROOTS: roots });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await confined[Symbol.asyncDispose]();
  place[Symbol.dispose]();
});

let count = 0;
const folder = (parent = place.path) => join(parent, `p${(count += 1)}`);
const project = (parent?: string) => makeProject(folder(parent), { "a.txt": "one\n", "sub/b.txt": "two\n" });

/** Status and body; and a request without a directory, sent in the same moment, was answered as well. */
const ask = async (directory: string, { url } = service, path = "/tasks") => {
  const at = `${path}?directory=${encodeURIComponent(directory)}`;
  const [response, health] = await Promise.all([
    fetch(`${url}${at}`, { signal: AbortSignal.timeout(5000) }),
    fetch(`${url}/health`, { signal: AbortSignal.timeout(5000) }),
  ]);
  expect(health.status).toBe(200);
  return { status: response.status, body: (await response.json()) as ErrorBody };
};
const accepted = { status: 200, body: [] };
const refused = (code: string, message: string | RegExp) => ({
  status: 422,
  body: { code, message: expect.stringMatching(message) as string },
});

const fifo = (path: string) => execFileSync("mkfifo", [path]);
const sparse = (path: string) => {
  writeFileSync(path, "");
  truncateSync(path, 8 * 1024 ** 3);
};

describe("something else in the place of a file", () => {
  const odd: [what: string, put: (path: string) => void, got: string][] = [
    ["a FIFO", fifo, "got a FIFO"],
    ["a link to an endless device", (path) => symlinkSync("/dev/zero", path), "got a device"],
    ["a sparse file of 8 GB", sparse, "got 8589934592"],
    ["a folder", (path) => mkdirSync(path), "got a folder"],
  ];
  const names = [
    "HEAD",
    "commondir",
    "config",
    "config.worktree",
    "packed-refs",
    "index",
    "shallow",
    "info/exclude",
    "objects/info/alternates",
  ];
  test.each(odd)("%s", async (what, put, got) => {
    for (const name of names) {
      const directory = project();
      // Control: the same project as it was.
      expect(await ask(directory)).toEqual(accepted);
      const path = join(directory, ".git", name);
      rmSync(path, { force: true });
      mkdirSync(join(path, ".."), { recursive: true });
      put(path);
      const begun = performance.now();
      expect(await ask(directory), `${what} as ${name}`).toMatchObject(refused("repository_unsupported", got));
      expect((await ask(directory)).body.message).toContain(path);
      // Generous: the machine is shared; without the bounds it is for ever.
      expect(performance.now() - begun).toBeLessThan(2000);
    }
    const plain = folder();
    mkdirSync(plain);
    expect(await ask(plain)).toEqual(accepted);
    if (what === "a folder") return;
    put(join(plain, ".git"));
    expect(await ask(plain)).toMatchObject(refused("repository_unsupported", got));
    expect((await ask(join(plain), service, "/missions")).status).toBe(422);
  });

  test("the branch's own file, the repository's folders, what a config includes, a socket's place", async () => {
    const directory = project();
    const branch = join(directory, ".git/refs/heads/main");
    rmSync(branch);
    fifo(branch);
    expect(await ask(directory)).toMatchObject(refused("repository_unsupported", 'refs/heads/main", got a FIFO'));
    const without = project();
    rmSync(join(without, ".git/objects"), { recursive: true });
    writeFileSync(join(without, ".git/objects"), "");
    expect(await ask(without)).toMatchObject(refused("repository_unsupported", "Expected a folder at .*objects"));
    const including = project();
    git(including, "config", "include.path", "more");
    expect(await ask(including)).toEqual(accepted);
    fifo(join(including, ".git/more"));
    expect(await ask(including)).toMatchObject(refused("repository_unsupported", 'more", got a FIFO'));
    const text = folder();
    writeFiles(text, { ".git": "no pointer\n" });
    expect(await ask(text)).toMatchObject(refused("repository_unsupported", 'Expected "gitdir: <path>"'));
  });

  test("the files by which a project requests something", async () => {
    for (const name of [".mcp.json", ".sortie/environment.jsonc"])
      for (const [what, put, got] of odd) {
        const directory = project();
        writeFiles(directory, { [name]: '{ "mcpServers": {} }' });
        // Control: the file as it should be.
        expect((await ask(directory, service, "/project/grants")).status, name).toBe(200);
        rmSync(join(directory, name));
        put(join(directory, name));
        const answer = await ask(directory, service, "/project/grants");
        expect(answer, `${what} as ${name}`).toMatchObject({ status: 422, body: { code: "repository_unsupported" } });
        expect(answer.body.message).toContain(name);
        expect(answer.body.message).toMatch(got.includes("8589934592") || got.includes("FIFO") ? /Expected/ : /got/);
      }
  });

  test("a linked worktree's own files", async () => {
    const directory = project();
    const linked = folder();
    git(directory, "worktree", "add", "-q", linked, "-b", `b${count}`);
    expect(await ask(linked)).toEqual(accepted);
    const gitDir = join(directory, ".git/worktrees", linked.slice(place.path.length + 1));
    for (const name of ["gitdir", "commondir", "HEAD"]) {
      const bytes = readFileSync(join(gitDir, name));
      rmSync(join(gitDir, name));
      fifo(join(gitDir, name));
      expect(await ask(linked)).toMatchObject(refused("repository_unsupported", `${name}", got a FIFO`));
      rmSync(join(gitDir, name));
      writeFileSync(join(gitDir, name), bytes);
    }
    expect(await ask(linked)).toEqual(accepted);
  });
});

describe("a .git is believed only if it is answered", () => {
  test("linked worktrees, submodules, a repository whose work tree is named: accepted as ever", async () => {
    const directory = project();
    const linked = folder();
    git(directory, "worktree", "add", "-q", linked, "-b", `b${count}`);
    git(directory, "-c", "protocol.file.allow=always", "submodule", "add", "-q", project(), "mod/ule");
    for (const each of [linked, join(linked, "sub"), join(directory, "mod/ule"), join(directory, "mod/ule/sub")])
      expect(await ask(each), each).toEqual(accepted);
    // As sparse-checkout leaves it: the work tree is named in config.worktree.
    git(join(directory, "mod/ule"), "sparse-checkout", "set", "sub");
    expect(await ask(join(directory, "mod/ule"))).toEqual(accepted);
    git(join(directory, "mod/ule"), "worktree", "add", "-q", folder(), "-b", `b${count}`);
    expect(await ask(join(place.path, `p${count}`))).toEqual(accepted);
  });

  test("a file, a link or a folder that leads to another repository is refused, and nothing of it is read", async () => {
    const other = project();
    const ways: [string, (directory: string) => void][] = [
      ["a file", (directory) => writeFileSync(join(directory, ".git"), `gitdir: ${other}/.git\n`)],
      [
        "a relative file",
        (directory) => writeFileSync(join(directory, ".git"), `gitdir: ../${other.split("/").at(-1)}/.git\n`),
      ],
      ["a link", (directory) => symlinkSync(join(other, ".git"), join(directory, ".git"))],
      [
        "a folder with a commondir",
        (directory) =>
          writeFiles(directory, { ".git/HEAD": "ref: refs/heads/main\n", ".git/commondir": `${other}/.git\n` }),
      ],
      [
        "links for its branches",
        (directory) => {
          writeFiles(directory, { ".git/HEAD": "ref: refs/heads/main\n", ".git/config": "[core]\n\tbare = false\n" });
          for (const name of ["refs", "objects"]) symlinkSync(join(other, ".git", name), join(directory, ".git", name));
        },
      ],
      [
        "a copy of a linked worktree's file",
        (directory) => {
          const linked = folder();
          git(other, "worktree", "add", "-q", linked, "-b", `b${count}`);
          cpSync(join(linked, ".git"), join(directory, ".git"));
        },
      ],
      [
        "a work tree of its own that lies elsewhere",
        (directory) => {
          git(directory, "init", "-q");
          git(directory, "config", "core.worktree", place.path);
        },
      ],
    ];
    for (const [what, lay] of ways) {
      const directory = folder();
      mkdirSync(join(directory, "below"), { recursive: true });
      expect(await ask(directory), what).toEqual(accepted);
      lay(directory);
      for (const each of [directory, join(directory, "below")])
        expect(await ask(each), what).toMatchObject(refused("repository_not_allowed", "^Expected .*, got .*"));
    }
    expect(await ask(other)).toEqual(accepted);
  });

  test("a link in it that leads out is refused: another repository's refs and objects are not its own", async () => {
    const other = project();
    const outside = join(other, ".git/refs/heads");
    const file = join(other, ".git/refs/heads/main");
    const at = (directory: string, name: string) => join(directory, ".git", name);
    const put = (directory: string, name: string, target: string) => {
      rmSync(at(directory, name), { recursive: true, force: true });
      mkdirSync(join(at(directory, name), ".."), { recursive: true });
      symlinkSync(target, at(directory, name));
    };
    const pack = "objects/pack/pack-1.pack";
    const names = {
      "refs/heads/sortie": outside,
      "refs/sortie": outside,
      "refs/sortie/base": outside,
      "refs/heads/main": file,
      logs: outside,
      "logs/HEAD": file,
      "logs/refs/heads": outside,
      "logs/refs/heads/main": file,
      "logs/refs/heads/sortie": outside,
      "packed-refs": file,
      shallow: file,
      "info/grafts": file,
      index: file,
      modules: outside,
      worktrees: outside,
      "objects/pack": outside,
      "objects/info": outside,
      "objects/f0": outside,
      [pack]: file,
    };
    for (const [name, target] of Object.entries(names)) {
      const directory = project();
      put(directory, name, target);
      const answer = await ask(directory);
      expect(answer, name).toMatchObject(refused("repository_not_allowed", "got a link"));
      expect(answer.body.message).toContain(at(directory, name));
      // Control: what leads to a part of the same repository.
      if (/^(?:objects|index|shallow|info)/.test(name)) continue;
      const own = target === file ? "kept-file" : "kept";
      rmSync(at(directory, name));
      if (target === file) {
        const commit = git(other, "rev-parse", "main");
        writeFileSync(at(directory, own), name === "packed-refs" ? "" : `${commit}\n`);
      } else mkdirSync(at(directory, own));
      put(directory, name, at(directory, own));
      expect(await ask(directory), `${name} within`).toEqual(accepted);
    }
    const branches = project();
    git(branches, "checkout", "-q", "-b", "their/branch");
    renameSync(at(branches, "refs/heads/their"), at(other, "refs/heads/their"));
    symlinkSync(at(other, "refs/heads/their"), at(branches, "refs/heads/their"));
    expect(await ask(branches)).toMatchObject(refused("repository_not_allowed", "refs/heads/their"));
    const waits = project();
    mkdirSync(at(waits, "objects/pack"), { recursive: true });
    expect(await ask(waits)).toEqual(accepted);
    fifo(at(waits, "objects/pack/pack-1.idx"));
    expect(await ask(waits)).toMatchObject(refused("repository_unsupported", "pack-1.idx"));
  });

  test("a link for one object is seen where the objects are worked on", async () => {
    const other = project();
    const directory = project();
    const id = git(other, "hash-object", "-w", "--stdin", "--path", "a.txt").slice(0, 40);
    const name = join("objects", id.slice(0, 2), id.slice(2));
    mkdirSync(join(directory, ".git", name, ".."), { recursive: true });
    symlinkSync(join(other, ".git", name), join(directory, ".git", name));
    const options = { dataDir: join(place.path, "data"), projectRoots: [], git: {} };
    await expect(inspectProject(directory, { ...options, loose: true })).rejects.toMatchObject({
      code: "repository_not_allowed",
      message: expect.stringContaining(name) as string,
    });
    rmSync(join(directory, ".git", name));
    await expect(inspectProject(directory, { ...options, loose: true })).resolves.toMatchObject({ directory });
  });

  test("a branch whose name leads out of the refs is none, and objects are not borrowed from the service", async () => {
    const directory = project();
    const commit = git(directory, "rev-parse", "main");
    writeFileSync(join(place.path, "elsewhere"), `${commit}\n`);
    const options = { dataDir: join(place.path, "data"), projectRoots: [], git: {} };
    expect((await inspectProject(directory, options)).git?.head).toBe(commit);
    writeFileSync(join(directory, ".git/HEAD"), "ref: refs/heads/../../../../elsewhere\n");
    expect((await inspectProject(directory, options)).git?.head ?? null).toBeNull();

    const borrowing = project();
    const lent = folder();
    mkdirSync(join(lent, "objects"), { recursive: true });
    writeFiles(borrowing, { ".git/objects/info/alternates": `${lent}/objects\n` });
    expect(await ask(borrowing)).toEqual(accepted);
    mkdirSync(join(place.path, "data/repositories/r/objects"), { recursive: true });
    writeFiles(borrowing, { ".git/objects/info/alternates": `${place.path}/data/repositories/r/objects\n` });
    expect(await ask(borrowing)).toMatchObject(refused("repository_not_allowed", "the service's own data"));
  });

  test("a separate Git directory: refused with the command that makes it answer; then accepted", async () => {
    const directory = folder();
    git(place.path, "init", "-q", "--separate-git-dir", `${directory}.dir`, directory);
    const { status, body } = await ask(directory);
    expect({ status, code: body.code }).toEqual({ status: 422, code: "repository_not_allowed" });
    const command = /If it is yours: git (.*)\.$/.exec(body.message)?.[1]?.replaceAll('"', "").split(" ") ?? [];
    git(place.path, ...command);
    expect(await ask(directory)).toEqual(accepted);
  });

  test.skipIf(process.getuid?.() !== 0)("one that points back but belongs to another user is refused", async () => {
    const directory = folder();
    git(place.path, "init", "-q", "--separate-git-dir", `${directory}.dir`, directory);
    git(directory, "config", "core.worktree", directory);
    expect(await ask(directory)).toEqual(accepted);
    chownSync(`${directory}.dir`, 54321, 54321);
    expect(await ask(directory)).toMatchObject(refused("repository_not_allowed", "belong to the folder's owner"));
  });

  test("a Task in a plain folder is cancelled although a .git that is not believed was left there", async () => {
    const directory = folder();
    mkdirSync(directory);
    const post = (path: string, body: object) =>
      fetch(`${service.url}${path}?directory=${encodeURIComponent(directory)}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      });
    const created = await post("/task", { request: "wait", productPillar: "code", model: "builtin/rules-1" });
    expect(created.status).toBe(202);
    const { taskID } = (await created.json()) as { taskID: string };
    writeFileSync(join(directory, ".git"), `gitdir: ${project()}/.git\n`);
    expect((await post("/task", { request: "wait", productPillar: "code" })).status).toBe(422);
    const { status } = await post(`/task/${taskID}/cancel`, {});
    expect([200, 202, 409]).toContain(status);
    expect(((await (await post(`/task/${taskID}/message`, { text: "go on" })).json()) as ErrorBody).code).not.toBe(
      "repository_not_allowed",
    );
  });
});

describe("SERVICE_PROJECT_ROOTS bounds the repository", () => {
  test("its top, its Git directory and what it borrows from lie below a root", async () => {
    const inside = project(roots);
    expect(await ask(inside, confined)).toEqual(accepted);
    expect(await ask(join(inside, "sub"), confined)).toEqual(accepted);
    const not = refused("repository_not_allowed", "not below SERVICE_PROJECT_ROOTS");

    const outside = project();
    const linked = folder(roots);
    git(outside, "worktree", "add", "-q", linked, "-b", `b${count}`);
    expect(await ask(linked, confined)).toMatchObject(not);
    expect(await ask(linked)).toEqual(accepted);

    const borrowing = project(roots);
    const alternates = join(borrowing, ".git/objects/info/alternates");
    writeFiles(borrowing, { ".git/objects/info/alternates": `${inside}/.git/objects\n` });
    expect(await ask(borrowing, confined)).toEqual(accepted);
    // One that lends to the lender counts, too.
    writeFiles(inside, { ".git/objects/info/alternates": `../../../../${outside.split("/").at(-1)}/.git/objects\n` });
    expect(await ask(borrowing, confined)).toMatchObject(not);
    rmSync(join(inside, ".git/objects/info/alternates"));
    rmSync(alternates);
    renameSync(join(borrowing, ".git/objects"), join(borrowing, "../objects"));
    symlinkSync(join(borrowing, "../objects"), join(borrowing, ".git/objects"));
    expect(await ask(borrowing, confined)).toEqual(accepted);
    rmSync(join(borrowing, ".git/objects"));
    symlinkSync(join(outside, ".git/objects"), join(borrowing, ".git/objects"));
    expect(await ask(borrowing, confined)).toMatchObject(not);
  });

  test("behind sixty-four folders of its own it borrows from no other, which would not be judged", async () => {
    const outside = join(project(), ".git/objects");
    const borrowing = project(roots);
    const decoys = Array.from({ length: 64 }, (_, at) => join(folder(roots), `o${at}`));
    for (const decoy of decoys) mkdirSync(decoy, { recursive: true });
    const borrow = (paths: string[]) =>
      writeFiles(borrowing, { ".git/objects/info/alternates": `${paths.join("\n")}\n` });
    borrow(decoys);
    expect(await ask(borrowing, confined)).toEqual(accepted);
    borrow([...decoys, outside]);
    expect(await ask(borrowing, confined)).toMatchObject(refused("repository_unsupported", "at most 64 folders"));
    borrow([...decoys.slice(1), outside]);
    expect(await ask(borrowing, confined)).toMatchObject(
      refused("repository_not_allowed", "not below SERVICE_PROJECT_ROOTS"),
    );
  });

  test("a top above the root", async () => {
    const above = project();
    const narrow = await startService(join(place.path, "narrow"), { SERVICE_PROJECT_ROOTS: join(above, "sub") });
    try {
      expect(await ask(join(above, "sub"), narrow)).toMatchObject(
        refused("repository_not_allowed", "not below SERVICE_PROJECT_ROOTS"),
      );
      git(join(above, "sub"), "init", "-q");
      expect(await ask(join(above, "sub"), narrow)).toEqual(accepted);
      expect(existsSync(join(above, ".git"))).toBe(true);
    } finally {
      await narrow[Symbol.asyncDispose]();
    }
  });
});

describe("what a repository's settings and refs say very often", () => {
  const lines = (count: number, line: (at: number) => string) =>
    Array.from({ length: count }, (_, at) => line(at)).join("");
  const configure = (directory: string, text: string) =>
    writeFiles(directory, { ".git/config": `[core]\n\tbare = false\n${text}` });

  test.each<[string, (at: number) => string, RegExp]>([
    ["work trees", (at) => `\tworktree = ../${at}\n`, /at most 1000 values of one key/],
    ["included files", (at) => `[include]\n\tpath = ${at}\n`, /at most 1000 values of one key/],
    [
      "programs",
      (at) => `[filter "f${at}"]\n\tclean = cat\n`,
      /at most 1000 settings that name programs in ".*config"/,
    ],
  ])("%s are counted, once each; control: the same again and again is one", async (_, line, message) => {
    const many = project();
    configure(many, lines(3000, line));
    expect(await ask(many, service, "/project")).toMatchObject(refused("repository_unsupported", message));
    const same = project();
    configure(
      same,
      lines(3000, () => line(0)),
    );
    expect(await ask(same, service, "/project")).toMatchObject({ status: 200 });
  });

  test("settings of more than a mebibyte are refused by the file's name; control: of less they are read", async () => {
    const directory = project();
    configure(directory, "a = b\n".repeat(180_000));
    expect(await ask(directory, service, "/project")).toMatchObject(
      refused("repository_unsupported", /1048576 bytes in ".*\.git\/config"/),
    );
    configure(directory, "a = b\n".repeat(170_000));
    expect(await ask(directory, service, "/project")).toMatchObject({ status: 200 });
  });

  test("of folders that it borrows from a hundred may be named in one list; control: so many, and one again and again", async () => {
    const directory = project();
    const borrow = (text: string) => writeFiles(directory, { ".git/objects/info/alternates": text });
    borrow(lines(101, (at) => `../../none${at}\n`));
    expect(await ask(directory, service, "/project")).toMatchObject(
      refused("repository_unsupported", /at most 100 folders in ".*info\/alternates"/),
    );
    borrow(lines(100, (at) => `../../none${at}\n`) + lines(3000, () => "../../none1\n"));
    expect((await ask(directory, service, "/project")).status).toBe(200);
  });

  test("a branch whose name is no path is refused by the file's name; control: a long one is read", async () => {
    const directory = project();
    writeFileSync(join(directory, ".git/HEAD"), `ref: refs/heads/${"a/".repeat(30_000)}b\n`);
    expect(await ask(directory, service, "/project")).toMatchObject(refused("repository_unsupported", /\.git\/HEAD/));
    writeFileSync(join(directory, ".git/HEAD"), `ref: refs/heads/${"a/".repeat(1000)}b\n`);
    expect((await ask(directory, service, "/project")).status).toBe(200);
  });

  test("lines that only look like the branch's are looked at a hundred times; control: its own is found", async () => {
    const directory = project();
    const commit = git(directory, "rev-parse", "main");
    git(directory, "pack-refs", "--all");
    const packed = join(directory, ".git/packed-refs");
    const own = readFileSync(packed, "utf8");
    writeFileSync(packed, " refs/heads/main\n".repeat(99) + own);
    expect(packedRef(join(directory, ".git"), "refs/heads/main")).toBe(commit);
    writeFileSync(packed, " refs/heads/main\n".repeat(500_000) + own);
    const begun = process.threadCpuUsage();
    expect(packedRef(join(directory, ".git"), "refs/heads/main")).toBeNull();
    const { user, system } = process.threadCpuUsage(begun);
    expect((user + system) / 1000).toBeLessThan(100);
  });
});
