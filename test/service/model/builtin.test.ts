import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import type { TaskStatus } from "../../../src/protocol/task/status.ts";
import { git, makeProject, readText, temporary, writeFiles } from "../../harness/project.ts";
import { type Registry, startRegistry } from "../../harness/double/registry.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** Whole Tasks of the built-in rules over HTTP: request, work, checks, landing; and those that fail honestly. */

let service: TestService;
let registry: Registry;
let root: ReturnType<typeof temporary>;
let count = 0;

const marker = () => join(root.path, "script-ran");

beforeAll(async () => {
  root = temporary("sortie-rules-api-");
  const scripts = { postinstall: `touch ${join(root.path, "script-ran")}` };
  registry = await startRegistry(join(root.path, "packs"), [
    { name: "tiny", version: "1.0.0", scripts },
    { name: "tiny", version: "1.1.0", scripts },
    { name: "small", version: "2.0.0" },
  ]);
  const config = join(root.path, "config.jsonc");
  const codemods = {
    "to-esm": "sed -i 's/module.exports =/export default/' *.js",
    broken: "echo 'error: no such rule'; exit 4",
  };
  writeFileSync(config, JSON.stringify({ sandbox: { network: true }, rules: { codemods } }));
  const path = process.env["PATH"] ?? "";
  // rustup's own cargo looks for its toolchain in the home folder, which is not the service's.
  const rust = has("rustc")
    ? execFileSync("sh", ["-c", "rustc --print sysroot"], { encoding: "utf8" }).trim()
    : undefined;
  service = await startService(join(root.path, "data"), {
    SERVICE_CONFIG: config,
    PATH: rust === undefined ? path : `${rust}/bin:${path}`,
  });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await registry[Symbol.asyncDispose]();
  root[Symbol.dispose]();
});

const has = (program: string): boolean => {
  try {
    execFileSync("sh", ["-c", `command -v ${program}`], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
};
/** Says loudly what cannot be shown on this machine. */
const needs = (program: string): boolean => {
  const there = has(program);
  if (!there) process.stderr.write(`\n!!! SKIPPED on this machine: tests of ${program}, which is not installed\n`);
  return there;
};

const project = (files: Record<string, string>) => makeProject(join(root.path, `project-${(count += 1)}`), files);

type Extra = { productPillar?: "code" | "work"; checks?: string[] };
const carry = async (directory: string, request: string, extra: Extra = {}): Promise<TaskStatus & { said: string }> => {
  const client = createServiceClient({ baseUrl: service.url, directory });
  const { data, error } = await client.task.create({ body: { productPillar: "code", request, ...extra } });
  if (data === undefined) throw new Error(JSON.stringify(error));
  const { data: status } = await client.task.wait({ path: { taskID: data.taskID }, timeoutMs: 60_000 });
  const { data: board } = await client.task.board({ path: { taskID: data.taskID } });
  if (status === undefined || board === undefined) throw new Error("no status");
  const root = status.sessionInvocationTopology.rootSessionID;
  const last = board.conversation.messages.findLast(
    ({ role, sessionID }) => role === "assistant" && sessionID === root,
  );
  return { ...status, said: last?.text ?? "" };
};
/** Carried out, its checks green, landed as one commit of exactly these files. */
const lands = async (directory: string, request: string, files: string[], extra: Extra = {}) => {
  const before = git(directory, "rev-parse", "HEAD");
  const status = await carry(directory, request, extra);
  expect([status.lifecycleStatus, status.error]).toEqual(["completed", undefined]);
  const asked = status.checks.filter(({ origin }) => origin === "request");
  expect(asked.map(({ state }) => state)).toEqual((extra.checks ?? []).map(() => "passed"));
  expect(git(directory, "rev-parse", "HEAD~1")).toBe(before);
  expect(git(directory, "show", "--format=", "--name-only", "HEAD").split("\n")).toEqual(files);
  expect(git(directory, "status", "--porcelain")).toBe("");
  return status;
};
const fails = async (directory: string, request: string, code: string, words: string | RegExp, extra: Extra = {}) => {
  const before = git(directory, "rev-parse", "HEAD");
  const status = await carry(directory, request, extra);
  expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code } });
  expect(status.error).toMatch(words);
  expect(git(directory, "rev-parse", "HEAD")).toBe(before);
  expect(git(directory, "status", "--porcelain")).toBe("");
  return status;
};

type Manifest = Partial<Record<"dependencies" | "devDependencies" | "optionalDependencies", Record<string, string>>>;
/** A project with the lock that npm would write, members of its workspace included. */
const npmProject = (root_: Manifest & { workspaces?: string[] }, members: Record<string, Manifest> = {}) => {
  const text = (value: object) => `${JSON.stringify(value, null, 2)}\n`;
  const manifests = Object.fromEntries(
    Object.entries(members).map(([path, own]) => [path, { name: path.split("/").at(-1), version: "1.0.0", ...own }]),
  );
  const installed = (name: string, version: string) => ({
    version,
    resolved: `${registry.url}${name}/-/${name}-${version}.tgz`,
    integrity: registry.integrity(name, version),
    license: "MIT",
  });
  const packages = {
    "": { name: "app", version: "1.0.0", license: "MIT", ...root_ },
    ...Object.fromEntries(
      Object.keys(members).map((path) => [`node_modules/${path.split("/").at(-1)}`, { resolved: path, link: true }]),
    ),
    "node_modules/small": installed("small", "2.0.0"),
    "node_modules/tiny": { ...installed("tiny", "1.0.0"), hasInstallScript: true },
    ...manifests,
  };
  return project({
    "package.json": text({ name: "app", version: "1.0.0", license: "MIT", ...root_ }),
    "package-lock.json": text({ name: "app", version: "1.0.0", lockfileVersion: 3, requires: true, packages }),
    ".npmrc": `registry=${registry.url}\n`,
    ".gitignore": "node_modules\n",
    ...Object.fromEntries(Object.entries(manifests).map(([path, own]) => [`${path}/package.json`, text(own)])),
  });
};
const manifestOf = (directory: string, path = "package.json") =>
  JSON.parse(readText(directory, path)) as Record<string, unknown>;
const tiny = "node_modules/tiny";
const locked = (directory: string) =>
  (JSON.parse(readText(directory, "package-lock.json")) as { packages: Record<string, { version: string }> }).packages[
    tiny
  ]?.version;

/** npm itself starts slowly on a busy machine. */
const patience = 90_000;

describe.skipIf(!needs("npm"))("bump with npm", { timeout: patience }, () => {
  test("a dev dependency keeps its section and its style; manifest and lock land together; no script runs", async () => {
    const directory = npmProject({ devDependencies: { tiny: "~1.0.0", small: "2.0.0" } });
    const status = await lands(directory, "bump tiny to 1.1.0", ["package-lock.json", "package.json"], {
      checks: [`grep -q '"tiny": "~1.1.0"' package.json`],
    });
    expect(manifestOf(directory)).toMatchObject({ devDependencies: { tiny: "~1.1.0", small: "2.0.0" } });
    expect(manifestOf(directory)["dependencies"]).toBeUndefined();
    expect(locked(directory)).toBe("1.1.0");
    expect(status.said).toMatch(
      /^tiny in package\.json from "~1\.0\.0" to "~1\.1\.0"; package-lock\.json changed \(`npm install --ignore-scripts /,
    );
    expect(existsSync(marker())).toBe(false);
  });
  test("an exact version stays exact, a caret a caret, and several lines are one commit", async () => {
    const directory = npmProject({ dependencies: { tiny: "1.0.0" }, optionalDependencies: { small: "^2.0.0" } });
    await lands(directory, "1. update tiny to 1.1.0\n2. delete .npmrc", [
      ".npmrc",
      "package-lock.json",
      "package.json",
    ]);
    expect(manifestOf(directory)).toMatchObject({
      dependencies: { tiny: "1.1.0" },
      optionalDependencies: { small: "^2.0.0" },
    });
  });
  test("in a workspace the nearest manifest that has it, or the folder that is named", async () => {
    const directory = npmProject(
      { workspaces: ["packages/*"], devDependencies: { small: "2.0.0" } },
      { "packages/a": { dependencies: { tiny: "^1.0.0" } }, "packages/b": { dependencies: { tiny: "1.0.0" } } },
    );
    await fails(
      directory,
      "bump tiny to 1.1.0",
      "instruction_failed",
      /packages\/a\/package\.json.* and packages\/b\/package\.json.*in FOLDER/,
    );
    await lands(directory, "bump tiny to 1.1.0 in packages/b", ["package-lock.json", "packages/b/package.json"]);
    expect(manifestOf(directory, "packages/a/package.json")).toMatchObject({ dependencies: { tiny: "^1.0.0" } });
    expect(manifestOf(directory, "packages/b/package.json")).toMatchObject({ dependencies: { tiny: "1.1.0" } });
  });
  test("what npm cannot do fails, and the files are what they were", async () => {
    const directory = npmProject({ dependencies: { tiny: "^1.0.0" } });
    const gone = await fails(directory, "bump tiny to 9.9.9", "instruction_failed", /npm install.*exit 1/);
    // A branch that holds nothing is not kept.
    expect(git(directory, "branch", "--list", `sortie/${gone.taskID}`)).toBe("");
    expect(manifestOf(directory, "package.json")).toMatchObject({ dependencies: { tiny: "^1.0.0" } });
    await fails(directory, "bump nosuch to 1.0.0", "instruction_failed", /has nosuch as a dependency, found none/);
    await fails(directory, "bump tiny to 1.1", "instruction_failed", /takes "1\.1" for a range/);
    // Control: the same project can be bumped.
    await lands(directory, "bump tiny to 1.1.0", ["package-lock.json", "package.json"]);
    await fails(directory, "bump tiny to 1.1.0", "instruction_failed", /says "\^1\.1\.0" already/);
  });
  test("a registry that cannot be reached is said, with the remedy", async () => {
    const directory = npmProject({ dependencies: { tiny: "^1.0.0" } });
    writeFiles(directory, { ".npmrc": "registry=http://127.0.0.1:9/\nfetch-retries=0\n" });
    git(directory, "commit", "-qam", "off");
    await fails(
      directory,
      "bump tiny to 1.1.0",
      "instruction_failed",
      /registry cannot be reached.*sandbox\.network: true/,
    );
  });
  test("a manager that exits 0 and leaves the lock as it was has not bumped", async () => {
    const directory = project({
      "package.json": '{ "dependencies": { "tiny": "1.0.0" } }\n',
      "pnpm-lock.yaml": "lockfileVersion: '9.0'\n",
      "node_modules/.bin/.keep": "",
    });
    await fails(directory, "bump tiny to 1.1.0", "instruction_failed", has("pnpm") ? /./ : /kept by pnpm.*no pnpm/);
    const bare = project({ "package.json": '{ "dependencies": { "tiny": "1.0.0" } }\n' });
    await fails(bare, "bump tiny to 1.1.0", "instruction_failed", /expected a lock for package\.json/);
  });
});

test("a name or version that is none is not understood, and no shell sees it", async () => {
  const directory = project({ "package.json": "{}\n" });
  for (const request of [
    `bump "tiny; touch ${marker()}" to 1.0.0`,
    `bump tiny to "1.0.0$(touch ${marker()})"`,
    `bump --global to 1.0.0`,
    `list TODOs into "a$(touch ${marker()}).md/../../x.md"`,
    `changelog since "v1;touch ${marker()}"`,
  ])
    await fails(directory, `${request}\ndelete package.json`, "needs_model", /Nothing was done/);
  expect(existsSync(marker())).toBe(false);
  // Control: quotes and spaces in a path are a path's.
  await lands(directory, `list TODOs into "it's $(touch x) & more.md"`, ["it's $(touch x) & more.md"]);
});

describe.skipIf(!needs("cargo"))("bump with cargo", { timeout: patience }, () => {
  test("a vendored registry: requirement and lock change", async () => {
    const crate = (version: string) => ({
      [`vendor/tiny-${version}/Cargo.toml`]: `[package]\nname = "tiny"\nversion = "${version}"\nedition = "2021"\nlicense = "MIT"\n`,
      [`vendor/tiny-${version}/src/lib.rs`]: "",
      [`vendor/tiny-${version}/.cargo-checksum.json`]: '{"files":{}}',
    });
    const directory = project({
      "Cargo.toml":
        '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n\n[dev-dependencies]\ntiny = "1.0.0"\n',
      "src/lib.rs": "",
      ".cargo/config.toml": '[source.crates-io]\nreplace-with = "vendored"\n[source.vendored]\ndirectory = "vendor"\n',
      ...crate("1.0.0"),
    });
    execFileSync("cargo", ["generate-lockfile", "--offline"], { cwd: directory, stdio: "pipe" });
    writeFiles(directory, crate("1.1.0"));
    git(directory, "add", "-A");
    git(directory, "commit", "-qm", "lock");
    await lands(directory, "bump tiny to 1.1.0", ["Cargo.lock", "Cargo.toml"]);
    expect(readText(directory, "Cargo.toml")).toContain('[dev-dependencies]\ntiny = "1.1.0"');
    expect(readText(directory, "Cargo.lock")).toContain('name = "tiny"\nversion = "1.1.0"');
  });
});

/** A program of the project's own, in node_modules/.bin of its repository. */
const tool = (directory: string, name: string, script: string) => {
  mkdirSync(join(directory, "node_modules/.bin"), { recursive: true });
  writeFileSync(join(directory, "node_modules/.bin", name), `#!/bin/sh\n${script}\n`);
  chmodSync(join(directory, "node_modules/.bin", name), 0o755);
  git(directory, "add", "-Af");
  git(directory, "commit", "-qm", "tool");
};

describe("fix", { timeout: patience }, () => {
  test("format with biome itself", async () => {
    const directory = project({ "biome.json": "{}\n", "a.js": "let   a=1\n", "b.js": "let b = 1;\n" });
    const status = await lands(directory, "fix format", ["a.js"], { checks: ["biome format ."] });
    expect(readText(directory, "a.js")).toBe("let a = 1;\n");
    expect(status.said).toMatch(/^`biome format --write \.`, exit 0 after [\d.]+ s; 1 file changed: a\.js\.$/);
  });
  test("lint with oxlint itself; then nothing is left to change", async () => {
    const directory = project({
      ".oxlintrc.json": '{ "rules": { "prefer-const": "error" } }\n',
      "a.js": "let a = 1;\nexport { a };\n",
    });
    await lands(directory, "fix lint", ["a.js"], { checks: ["oxlint --deny-warnings"] });
    const again = await carry(directory, "fix lint");
    expect([again.lifecycleStatus, again.said.replace(/after [\d.]+ s/, "")]).toEqual([
      "completed",
      "`oxlint --fix`, exit 0 ; no file changed.",
    ]);
  });
  test("a script of the project comes first; one that only looks is no fix", async () => {
    const directory = project({
      "package.json": JSON.stringify({
        scripts: { "lint:fix": "echo fixed > lint.txt", format: "prettier --check ." },
      }),
    });
    if (has("npm")) await lands(directory, "fix lint", ["lint.txt"]);
    await fails(directory, "fix format", "instruction_failed", /looked for a script/);
  });
  test("exit 1 fails, a tool that is nowhere fails", async () => {
    const directory = project({
      ".oxlintrc.json": '{ "rules": { "no-empty": "error" } }\n',
      "a.js": "if (globalThis.a) {\n}\n",
    });
    await fails(directory, "fix lint", "instruction_failed", /oxlint --fix`, exit 1/);
    const ruby = project({ ".rubocop.yml": "", "a.rb": "" });
    tool(ruby, "other", "exit 0");
    if (!has("rubocop"))
      await fails(ruby, "fix lint", "instruction_failed", /neither in node_modules\/\.bin nor on PATH/);
    tool(ruby, "rubocop", 'echo "# fixed with $*" > a.rb');
    await lands(ruby, "fix lint", ["a.rb"]);
    expect(readText(ruby, "a.rb")).toBe("# fixed with -A\n");
  });
  test.skipIf(!needs("cargo"))("format with cargo itself", async () => {
    const directory = project({
      "Cargo.toml": '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n',
      "src/lib.rs": "pub fn a( ) { }\n",
    });
    try {
      execFileSync("cargo", ["fmt", "--version"], { stdio: "ignore" });
    } catch {
      process.stderr.write("\n!!! SKIPPED on this machine: cargo fmt, which is not installed\n");
      return;
    }
    await lands(directory, "fix format", ["src/lib.rs"]);
  });
});

test("a codemod runs when the operator allowed it by that name, and only then", async () => {
  const directory = project({ "a.js": "module.exports = 1;\n" });
  await fails(
    directory,
    "run codemod other",
    "instruction_failed",
    /not allowed a codemod "other" \(allowed: to-esm, broken\)/,
  );
  await fails(directory, "run codemod constructor", "instruction_failed", /not allowed/);
  await fails(directory, "run codemod broken", "instruction_failed", /exit 4 .*no such rule/);
  const status = await lands(directory, "run codemod to-esm", ["a.js"]);
  expect(status.said).toContain("1 file changed: a.js.");
});

describe("lists", { timeout: patience }, () => {
  const tree = {
    "src/a.ts":
      "const url = 'http://x/#TODO';\n// TODO: a | b `c` <img>\nconst TODO = 1;\n/* FIXME(me) later */\nlet x = 1; // HACK\n",
    "src/it's é.py": "# XXX unicode ünd\nprint('# TODO no')\n",
    "b.sh": "echo '# TODO not a comment'\n# TODO yes\n",
  };
  const rows = [
    "| b.sh:2 | TODO | TODO yes |",
    "| src/a.ts:2 | TODO | TODO: a \\| b \\`c\\` \\<img\\> |",
    "| src/a.ts:4 | FIXME | FIXME(me) later |",
    "| src/a.ts:5 | HACK | HACK |",
    "| src/it's é.py:1 | XXX | XXX unicode ünd |",
  ];
  test("TODOs into a file, twice the same; a file of somebody's is left alone", async () => {
    const directory = project({ ...tree, "mine.md": "mine\n" });
    const status = await lands(directory, "list TODOs into docs/todo.md", ["docs/todo.md"], {
      checks: ["test -s docs/todo.md"],
    });
    const text = readText(directory, "docs/todo.md");
    expect(text.split("\n").filter((line) => /^\| [^W]/.test(line))).toEqual(rows);
    expect(text).toMatch(
      /^<!-- sortie: todos -->\n\n# TODOs\n\n5 markers in 3 files: TODO 2, FIXME 1, HACK 1, XXX 1\.\n/,
    );
    expect(status.said).toMatch(/^Created docs\/todo\.md \(\d+ lines, \d+ bytes\)\. 5 markers in 3 files/);
    const again = await carry(directory, "list TODOs into docs/todo.md");
    expect([again.lifecycleStatus, readText(directory, "docs/todo.md")]).toEqual(["completed", text]);
    await fails(directory, "list TODOs into mine.md", "instruction_failed", /expected mine\.md to be free/);
  });
  test("without a file: the report for code, a file of a usual name for work", async () => {
    const directory = project(tree);
    const code = await carry(directory, "list TODOs");
    expect(code.said.split("\n").filter((line) => /^\| [^W]/.test(line))).toEqual(rows);
    expect(git(directory, "rev-list", "--count", "HEAD")).toBe("1");
    await lands(directory, "list TODOs", ["reports/todos.md"], { productPillar: "work" });
  });
  test("dead links: files, headings, what is not checked", async () => {
    const directory = project({
      "README.md":
        "# The _House_\n\n[ok](docs/a.md) [ok](docs/a.md#two-words) [ok](#the-house) [ok](docs)\n[gone](docs/b.md)\n[bad](docs/a.md#three)\n`[code](no.md)`\n[web](https://example.org/x)\n\n```\n[fenced](no.md)\n```\n\n[ref]: docs/gone.png 'x'\n<img src=\"no.svg\">\n[out](../../x)\n[space](docs/a%20b.md)\n",
      "docs/a.md": "Two words\n=========\n\n## Über `uns`!\n[self](#über-uns) [up](../README.md#nothing)\n",
      "docs/a b.md": "# x\n",
    });
    const status = await lands(directory, "dead links into links.md", ["links.md"]);
    expect(status.said).toContain("5 dead links among 11 in 3 Markdown files; 2 not checked.");
    expect(
      readText(directory, "links.md")
        .split("\n")
        .filter((line) => /^\| [^W]/.test(line)),
    ).toEqual([
      "| README.md:4 | docs/b.md | nothing is there |",
      "| README.md:5 | docs/a.md#three | docs/a.md has no such heading |",
      "| README.md:13 | docs/gone.png | nothing is there |",
      "| README.md:14 | no.svg | nothing is there |",
      "| docs/a.md:5 | ../README.md#nothing | README.md has no such heading |",
      "| README.md:7 | https://example.org/x | not of this project |",
      "| README.md:15 | ../../x | outside the project |",
    ]);
  });
  test("git log and changelog since a commit, since a day, since nothing that is there", async () => {
    const directory = project({ "a.txt": "1\n" });
    git(directory, "tag", "v1");
    for (const subject of ["feat(api): a | b", "fix!: c `d`", "no type", "constructor: e"]) {
      git(directory, "commit", "-q", "--allow-empty", "-m", subject);
    }
    const ids = git(directory, "log", "--format=%h", "-4").split("\n");
    await lands(directory, "changelog since v1 into CHANGES.md", ["CHANGES.md"]);
    expect(readText(directory, "CHANGES.md")).toBe(
      `<!-- sortie: changelog -->\n\n# Changes since v1\n\n4 commits since v1 (merges are left out).\n\n## Breaking changes\n\n- c \\\`d\\\` (${ids[2]})\n\n## Features\n\n- **api:** a \\| b (${ids[3]})\n\n## Other changes\n\n- constructor: e (${ids[0]})\n- no type (${ids[1]})\n`,
    );
    await lands(directory, "summarise git log since 2001-01-01", ["reports/git-log.md"], { productPillar: "work" });
    const log = readText(directory, "reports/git-log.md");
    expect(log).toContain("6 commits since 2001-01-01 by 2 people");
    for (const id of ids) expect(log).toContain(`| ${id} | `);
    await fails(directory, "changelog since v9", "instruction_failed", /no commit is named v9/);
    const none = await carry(directory, "changelog since HEAD");
    expect(none.said).toContain("No commit since HEAD");
  });
  test("a licence report from the lock and the manifest", async () => {
    const directory = project({
      "package.json": '{\n  "name": "app",\n  "license": "Apache-2.0"\n}\n',
      "package-lock.json": `${JSON.stringify(
        {
          name: "app",
          lockfileVersion: 3,
          packages: {
            "": { name: "app", license: "Apache-2.0" },
            "node_modules/tiny": { version: "1.0.0", license: "MIT" },
            "node_modules/a/node_modules/@x/y": { version: "2.0.0" },
          },
        },
        null,
        2,
      )}\n`,
      "Cargo.lock": 'version = 3\n\n[[package]]\nname = "serde"\nversion = "1.0.0"\nsource = "registry+x"\n',
    });
    const status = await lands(directory, "licence report into licences.md", ["licences.md"]);
    expect(status.said).toContain("2 dependencies: ");
    expect(readText(directory, "licences.md")).toContain("| tiny | 1.0.0 | MIT | package-lock.json:9 |");
  });
  test("a log by level and by what it says most often", async () => {
    const lines = [
      "2026-01-01T00:00:00Z INFO start",
      "2026-01-01T00:00:01Z ERROR job 17 failed | code 5",
      '{"level":50,"msg":"x"}',
      "2026-01-01T00:00:02Z ERROR job 18 failed | code 6",
      "",
      "plain",
    ];
    const directory = project({ "logs/app.log": `${lines.join("\r\n")}\r\n`, "logs/bin.log": "a\0b\n" });
    await lands(directory, "summarise logs/app.log into sum.md", ["sum.md"]);
    expect(readText(directory, "sum.md")).toBe(
      `<!-- sortie: digest -->\n\n# Summary of logs/app.log\n\n6 lines in logs/app.log (1 blank): ERROR 3, INFO 1, without a level 1.\n\n## By level\n\n| Level | Lines | First | Last |\n|---|---|---|---|\n| ERROR | 3 | logs/app.log:2 | logs/app.log:4 |\n| INFO | 1 | logs/app.log:1 | logs/app.log:1 |\n| none | 1 | logs/app.log:6 | logs/app.log:6 |\n\n## Said most often\n\nLines that differ in numbers and ids alone count as one; the first of each is shown.\n\n| Message | Times | First | Last |\n|---|---|---|---|\n| 2026-01-01T00:00:01Z ERROR job 17 failed \\| code 5 | 2 | logs/app.log:2 | logs/app.log:4 |\n`,
    );
    await fails(directory, "summarise logs/bin.log", "instruction_failed", /expected a text, got something else/);
    await fails(directory, "summarise logs/none.log", "instruction_failed", /nothing there/);
  });
  test("more than one page of rows comes whole", async () => {
    const many = Array.from({ length: 900 }, (_, at) => `// TODO number ${at} ${"x".repeat(20)}\n`).join("");
    const directory = project({ "a.ts": many });
    await lands(directory, "list TODOs into t.md", ["t.md"]);
    const text = readText(directory, "t.md");
    expect(text.match(/^\| a\.ts:/gm)?.length).toBe(900);
    expect(text).toContain("| a.ts:900 | TODO | TODO number 899 ");
  });
});
