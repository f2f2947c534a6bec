import { execFileSync, spawnSync } from "node:child_process";
import {
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { defaultLimits } from "../../src/protocol/limit.ts";
import { createCatalog } from "../../src/squad/catalog/catalog.ts";
import { selectTools, toolSpecs, tools } from "../../src/tool/registry.ts";
import { truncateMiddle } from "../../src/tool/result.ts";
import type { Tool, ToolContext, ToolResult } from "../../src/tool/tool.ts";
import { createProcesses } from "../../src/process/service.ts";
import type { Workspace } from "../../src/workspace/workspace.ts";
import { createWorkspaces } from "../../src/workspace/service.ts";
import { callContext } from "../harness/project.ts";
import { seededRandom } from "../harness/random.ts";
import { fairMs } from "../harness/pace.ts";

/** The tools on real folders, with the real file access, git and processes. */

const temp = realpathSync(mkdtempSync(join(tmpdir(), "sortie-tool-")));
const processes = createProcesses({
  folder: join(temp, "record"),
  keepEnv: process.env,
  log: silent,
});
const workspaces = createWorkspaces({
  dataDir: join(temp, "data"),
  projectRoots: [],
  processes,
  limits: defaultLimits,
  log: silent,
});
afterAll(async () => {
  await processes.stop();
  rmSync(temp, { recursive: true, force: true });
});

const sh = (cwd: string, ...args: string[]) => execFileSync("git", args, { cwd, encoding: "utf8", stdio: "pipe" });

let serial = 0;
let root: string;
let context: ToolContext;

const contextOf = (workspace: Workspace): ToolContext => ({
  ...callContext,
  workspace,
  limits: { ...defaultLimits },
  signal: new AbortController().signal,
  onOutput: () => undefined,
});

/** The workspace of a Task in a folder. `git: false`: the same without a repository. */
const open = async (
  directory: string,
  { git = true, isolation = "directory" }: { git?: boolean; isolation?: "worktree" | "directory" } = {},
): Promise<ToolContext> => {
  const taskID = `task_${(serial += 1)}`;
  const workspace = await workspaces.prepare({ taskID, directory, isolation, landing: "none" });
  return contextOf(git ? workspace : { ...workspace, git: undefined });
};

const put = (path: string, content: string | Buffer, folder = root) => {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), content);
};
const get = (path: string, folder = root) => readFileSync(join(folder, path), "utf8");
const there = (path: string, folder = root) => existsSync(join(folder, path));
const commitAll = (folder = root) => {
  sh(folder, "add", "-A");
  sh(folder, "-c", "user.name=T", "-c", "user.email=t@t", "commit", "--allow-empty", "-qm", "state");
};

const edit = (path: string, old: string, fresh: string, all?: boolean) =>
  call("edit", { path, edits: [{ old, new: fresh, ...(all === undefined ? {} : { all }) }] });

const call = async (name: string, input: unknown, on = context): Promise<ToolResult> => {
  const [tool] = selectTools([name]);
  if (tool === undefined) throw new Error(`no tool ${name}`);
  const parsed = tool.input.safeParse(input);
  if (!parsed.success)
    return {
      outcome: "error",
      output: `invalid: ${parsed.error.issues.map((i) => `${i.path.join(".")}: ${i.message}`).join("; ")}`,
    };
  return tool.run(parsed.data, on);
};

beforeEach(async () => {
  root = join(temp, `w${(serial += 1)}`);
  mkdirSync(root);
  sh(root, "init", "-q", "-b", "main");
  put("src/sum.js", "export const sum = (a, b) => a - b;\nexport const one = 1;\n");
  put("README.md", "# Sums\n\nAdds numbers.\n");
  put(".gitignore", "node_modules/\n*.log\n");
  commitAll();
  context = await open(root);
});

const lines = (count: number, text = (n: number) => `line ${n}`) =>
  Array.from({ length: count }, (_, at) => `${text(at + 1)}\n`).join("");

/** A killed process may still stand in the table until somebody reaps it. */
const alive = (pid: number): boolean => {
  const { stdout } = spawnSync("ps", ["-o", "stat=", "-p", String(pid)], { encoding: "utf8" });
  return stdout.trim() !== "" && !stdout.trim().startsWith("Z");
};

describe("specs", () => {
  test("a list is what its tools are, whichever lists were made before, in whatever order", () => {
    const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
    console.log(`lists of tools: TEST_SEED=${seed}`);
    const random = seededRandom(seed);
    // Others that take the same, as Missions have them.
    const all = Object.values(tools).flatMap((tool) => [
      tool,
      { ...tool, name: `other_${tool.name}` },
      { ...tool, description: `Another ${tool.description}` },
    ]);
    for (let round = 0; round < 200; round += 1) {
      const chosen = all.filter(() => random.below(3) === 0).toSorted(() => random.below(3) - 1);
      const listed = toolSpecs(chosen);
      const has = ([other]: [string, string]) => chosen.some(({ name }) => name === other);
      expect(listed.map(({ name, description }) => [name, description])).toEqual(
        chosen.map(({ name, description, beside = {} }) => [
          name,
          [description, ...Object.entries(beside).flatMap((one) => (has(one) ? one[1] : []))].join(" "),
        ]),
      );
      expect(toolSpecs(chosen)).toEqual(listed);
      for (const [at, { parameters }] of listed.entries())
        expect(parameters).toEqual(toolSpecs([chosen[at] as Tool])[0]?.parameters);
    }
  });
  test("what an agent reads of its tools names no tool that it lacks", async () => {
    const squads = await Promise.all(
      ["base", "advanced", "docs", "research"].map((id) =>
        createCatalog({ dataDir: "/nonexistent", external: [] }).find(id),
      ),
    );
    const agents = squads.flatMap((found) => [found?.squad.orchestrator, ...(found?.squad.agents ?? [])]);
    const packaged = agents.flatMap((agent) =>
      agent === undefined ? [] : [selectTools(agent.tools.filter((name) => name !== "verdict"))],
    );
    expect(packaged.length).toBeGreaterThan(12);
    const others = Object.keys(tools).map((name) => selectTools([name]));
    const unknown = (chosen: readonly Tool[]) => {
      const names = chosen.map(({ name }) => name);
      return toolSpecs(chosen).flatMap(({ name, description, parameters }) => {
        const { action } = (parameters as { properties?: Record<string, { enum?: string[] }> }).properties ?? {};
        const said = [...JSON.stringify([description, parameters]).matchAll(/`(\w+)`/g)].flatMap(
          ([, word = ""]) => word,
        );
        return said.flatMap((word) =>
          Object.hasOwn(tools, word) && !names.includes(word) && action?.enum?.includes(word) !== true
            ? [`${name} of ${names.join(", ")}: ${word}`]
            : [],
        );
      });
    };
    expect([...packaged, ...others].flatMap(unknown)).toEqual([]);
    const of = (...names: string[]) => toolSpecs(selectTools(names))[0]?.description;
    expect(of("write")).not.toContain("edit");
    expect(of("write", "edit")).toContain("use `edit`");
    // Control: one that names another is found.
    expect(unknown([{ ...(tools["read"] as Tool), description: "Or use `list`." }])).toHaveLength(1);
  });
  test("every tool is an object schema with its required fields, made once", () => {
    const specs = toolSpecs(Object.values(tools));
    expect(specs.map(({ name }) => name)).toEqual([
      "read",
      "list",
      "search",
      "write",
      "edit",
      "apply_patch",
      "shell",
      "process",
      "git",
      "note",
      "artifact",
      "ask",
      "web_fetch",
      "skill",
      "slice",
      "delegate",
      "verdict",
    ]);
    for (const { parameters, description } of specs) {
      expect(parameters).toMatchObject({ type: "object" });
      expect(JSON.stringify(parameters)).not.toMatch(/additionalProperties|untold/);
      expect(parameters).not.toHaveProperty("anyOf");
      expect(description.length).toBeGreaterThan(60);
    }
    expect(specs[4]?.parameters).toMatchObject({ required: ["path", "edits"] });
    expect(toolSpecs(selectTools(["edit"]))[0]).toBe(specs[4]);
    // Another tool that takes the same keeps its own words.
    const remember = { ...selectTools(["note"])[0], name: "remember", description: "Another." } as Tool;
    expect(toolSpecs([remember])[0]).toMatchObject({ name: "remember", description: "Another." });
    expect(Object.values(tools).map(({ effect }) => effect)).toEqual([
      "none",
      "none",
      "none",
      "workspace",
      "workspace",
      "workspace",
      "unknown",
      "unknown",
      "workspace",
      "log",
      "log",
      "log",
      "none",
      "none",
      "log",
      "log",
      "log",
    ]);
  });
  test("what the base squad's model is told of its tools stays short", async () => {
    const base = await createCatalog({ dataDir: "/nonexistent", external: [] }).find("base");
    // Told of only where the project has skills.
    const names = base?.squad.orchestrator.tools.filter((name) => name !== "skill") ?? [];
    expect(names).toContain("web_fetch");
    const told = JSON.stringify(toolSpecs(selectTools(names)));
    expect(Buffer.byteLength(told)).toBeLessThan(9500);
    expect(told).not.toContain("web_fetch");
  });
  test("an unknown name throws, also one of Object.prototype", () => {
    expect(() => selectTools(["read", "constructor"])).toThrow('got "constructor"');
  });
  test("fit keeps head and tail and says what is missing", () => {
    expect(truncateMiddle("a".repeat(50) + "b".repeat(50), "x", 10)).toBe(
      `aaaaa\n… 90 characters left out; x …\nbbbbb`,
    );
  });
});

describe("note", () => {
  test("its fact goes with the result; one that is too long is refused with the bound", async () => {
    expect(await call("note", { text: "1. read 2. write" })).toEqual({
      outcome: "ok",
      output: "Noted.",
      facts: [{ type: "note.written", data: { sessionID: "ses_1", callID: "call_1", text: "1. read 2. write" } }],
    });
    expect(await call("note", { text: "é".repeat(4096) })).toMatchObject({ outcome: "ok" });
    const { outcome, output } = await call("note", { text: "é".repeat(4097) });
    expect(outcome).toBe("error");
    expect(output).toContain("Expected at most 8192 bytes, got 8194");
  });
});

describe("read", () => {
  test("numbers lines and reads a part", async () => {
    put("long.txt", lines(3000));
    expect(await call("read", { path: "src/sum.js" })).toEqual({
      outcome: "ok",
      output: "1\texport const sum = (a, b) => a - b;\n2\texport const one = 1;",
    });
    const { output } = await call("read", { path: "long.txt" });
    expect(output).toMatch(/… lines 1 to \d+ of 3000; more: offset \d+ …$/);
    expect(output.length).toBeLessThan(30_000);
    expect((await call("read", { path: "long.txt", offset: 2999 })).output).toBe("2999\tline 2999\n3000\tline 3000");
    expect((await call("read", { path: "long.txt", offset: 10, limit: 1 })).output).toBe(
      "10\tline 10\n… lines 10 to 10 of 3000; more: offset 11 …",
    );
    expect(await call("read", { path: "long.txt", offset: 3001 })).toMatchObject({
      outcome: "error",
      output: expect.stringContaining("at most 3000"),
    });
  });
  test("names binary and empty files", async () => {
    put("logo.png", Buffer.from([0x89, 0x50, 0, 1, 2]));
    put("latin.txt", Buffer.from([0x66, 0xfc, 0x72]));
    put("empty.txt", "");
    expect((await call("read", { path: "logo.png" })).output).toBe("logo.png is a binary file of 5 bytes.");
    expect((await call("read", { path: "latin.txt" })).output).toBe(
      "latin.txt is a file of 3 bytes that is not UTF-8 text, perhaps Latin-1; see it with `shell`: iconv -f latin1 -t utf8.",
    );
    expect((await call("read", { path: "empty.txt" })).output).toBe("empty.txt is empty.");
  });
  test("suggests near names for a miss, and list for a folder", async () => {
    expect(await call("read", { path: "src/sums.js" })).toMatchObject({
      outcome: "error",
      output: expect.stringContaining("Near names: src/sum.js"),
    });
    expect((await call("read", { path: "lib/sum.js" })).output).toContain("src/sum.js");
    expect((await call("read", { path: "src" })).output).toContain("Use `list`");
  });
  test.each(["../x", "/etc/passwd", ".git/config", "a/../../x", ".env", "src/\0", ""])("refuses %j", async (path) => {
    put(".env", "SECRET=1");
    expect(await call("read", { path })).toMatchObject({ outcome: "error" });
  });
  test("does not follow a link out of the project; one inside it, it does", async () => {
    writeFileSync(join(temp, "outside.txt"), "outside\n");
    symlinkSync(join(temp, "outside.txt"), join(root, "out"));
    symlinkSync("README.md", join(root, "in"));
    expect(await call("read", { path: "out" })).toMatchObject({
      outcome: "error",
      output: expect.not.stringContaining("outside\n"),
    });
    expect((await call("read", { path: "in" })).output).toContain("# Sums");
  });
  test("names with spaces, quotes and newlines", async () => {
    for (const path of ["a b.txt", `q"u'o.txt`, "new\nline.txt"]) {
      put(path, "text\n");
      expect((await call("read", { path })).output).toBe("1\ttext");
    }
  });
});

describe("list", () => {
  test("lists a folder, deeper on demand, a file as itself, and never .git", async () => {
    expect((await call("list", {})).output).toBe(".gitignore  20\nREADME.md  22\nsrc/");
    expect((await call("list", { depth: 2 })).output).toContain("src/sum.js  58");
    expect((await call("list", { path: "src/sum.js" })).output).toBe("src/sum.js  58");
    expect(await call("list", { path: "none" })).toMatchObject({ outcome: "error" });
    expect(await call("list", { path: ".git" })).toMatchObject({ outcome: "error" });
    expect(await call("list", { path: "../" })).toMatchObject({ outcome: "error" });
  });
  test("is bounded, and shows odd names on one line", async () => {
    for (let at = 0; at < 600; at += 1) put(`many/f${at}`, "");
    put("odd/new\nline", "");
    expect((await call("list", { path: "many" })).output).toMatch(
      /… entries 1 to 500; more: offset 501, or list a folder below …$/,
    );
    expect((await call("list", { path: "odd" })).output).toBe('"odd/new\\nline"  0');
  });
});

describe("search", () => {
  test("finds lines, files and counts", async () => {
    put("src/more.js", "sum sum\nsum\n");
    expect((await call("search", { pattern: "sum" })).output).toBe(
      "src/more.js\n  1: sum sum\n  2: sum\nsrc/sum.js\n  1: export const sum = (a, b) => a - b;",
    );
    expect((await call("search", { pattern: "sum", mode: "files" })).output).toBe("src/more.js\nsrc/sum.js");
    expect((await call("search", { pattern: "sum", mode: "count" })).output).toBe("3\tsrc/more.js\n1\tsrc/sum.js");
    expect((await call("search", { pattern: "one", context: 1 })).output).toBe(
      "src/sum.js\n  1- export const sum = (a, b) => a - b;\n  2: export const one = 1;",
    );
    expect((await call("search", { pattern: "(a, b)", literal: true, glob: "*.js" })).output).toContain("src/sum.js");
    expect((await call("search", { pattern: "sum", path: "README.md" })).output).toBe("No match in README.md.");
    // A glob that fits nothing is another thing than a pattern that matches nothing.
    expect((await call("search", { pattern: "sum", path: "src", glob: "{math,other}/*.nope" })).output).toBe(
      "No file in src fits the glob `{math,other}/*.nope`, so nothing was searched. One with a `/` in it begins at the project's root.",
    );
    expect((await call("search", { pattern: "zebra", glob: "*.md" })).output).toMatch(/^No match/);
  });
  test("hidden files yes; ignored, binary, secret files and .git no", async () => {
    put(".hidden/a.txt", "needle\n");
    put("node_modules/x/a.txt", "needle\n");
    put("x.log", "needle\n");
    put("bin.dat", Buffer.from("needle\0"));
    put(".env", "needle\n");
    put(".git/needle.txt", "needle\n");
    expect((await call("search", { pattern: "needle", mode: "files" })).output).toBe(".hidden/a.txt");
  });
  test("a pattern that looks like an option, a wrong pattern, a path that is none", async () => {
    put("a.txt", "--files x\n");
    expect((await call("search", { pattern: "--files" })).output).toBe("a.txt\n  1: --files x");
    expect(await call("search", { pattern: "(" })).toMatchObject({
      outcome: "error",
      output: expect.stringContaining("regex"),
    });
    expect(await call("search", { pattern: "x", path: "--files" })).toMatchObject({ outcome: "error" });
    expect(await call("search", { pattern: "root", path: "/etc" })).toMatchObject({ outcome: "error" });
  });
  test("stays inside: no link is followed, not as the path either", async () => {
    mkdirSync(join(temp, "outer"), { recursive: true });
    writeFileSync(join(temp, "outer/o.txt"), "needle\n");
    symlinkSync(join(temp, "outer"), join(root, "out"));
    symlinkSync(join(temp, "outer/o.txt"), join(root, "o.txt"));
    put("in.txt", "needle\n");
    symlinkSync("src", join(root, "again"));
    expect((await call("search", { pattern: "sum", mode: "files" })).output).toBe("src/sum.js");
    expect((await call("search", { pattern: "needle", mode: "files" })).output).toBe("in.txt");
    for (const path of ["out", "o.txt", "out/o.txt"])
      expect(await call("search", { pattern: "needle", path })).toMatchObject({
        outcome: "error",
        output: expect.not.stringContaining("needle"),
      });
  });
  test("output is bounded in lines, bytes and width", async () => {
    put("wide.txt", `needle ${"x".repeat(100_000)}\n`);
    put(
      "big.txt",
      lines(200_000, (n) => `needle ${n}`),
    );
    const { output } = await call("search", { pattern: "needle" });
    expect(output.length).toBeLessThan(60_000);
    expect(output).toContain("narrow it with path, glob or type");
  });
  test("names with newlines are told apart", async () => {
    put("a\n1:b.txt", "needle\n");
    expect((await call("search", { pattern: "needle", mode: "files" })).output).toBe('"a\\n1:b.txt"');
  });
  test("an abort ends it", async () => {
    const controller = new AbortController();
    controller.abort(new Error("stop"));
    await expect(call("search", { pattern: "x" }, { ...context, signal: controller.signal })).rejects.toThrow("stop");
  });
});

describe("write and edit", () => {
  test("write creates with folders and replaces", async () => {
    expect(await call("write", { path: "new/deep/a.txt", content: "a\nb\n" })).toEqual({
      outcome: "ok",
      output: "Created new/deep/a.txt (2 lines, 4 bytes).",
    });
    expect(await call("write", { path: "new/deep/a.txt", content: "" })).toEqual({
      outcome: "ok",
      output: "Replaced new/deep/a.txt (0 lines, 0 bytes).",
    });
    expect(get("new/deep/a.txt")).toBe("");
  });
  test.each(["../x", "/tmp/x", ".git/hooks/pre-commit", ".env", "src", ""])("write refuses %j", async (path) => {
    expect(await call("write", { path, content: "x" })).toMatchObject({ outcome: "error" });
  });
  test("writes through no link, symbolic or hard", async () => {
    writeFileSync(join(temp, "victim.txt"), "safe");
    symlinkSync(join(temp, "victim.txt"), join(root, "soft"));
    linkSync(join(temp, "victim.txt"), join(root, "hard"));
    symlinkSync(temp, join(root, "folder"));
    for (const path of ["soft", "hard", "folder/victim.txt"]) {
      expect(await call("write", { path, content: "x" })).toMatchObject({ outcome: "error" });
      expect(await edit(path, "safe", "x")).toMatchObject({ outcome: "error" });
    }
    expect(readFileSync(join(temp, "victim.txt"), "utf8")).toBe("safe");
    rmSync(join(temp, "victim.txt"));
  });
  test("edit replaces the one match and shows its line", async () => {
    const result = await edit("src/sum.js", "a - b", "a + b");
    expect(result.outcome).toBe("ok");
    expect(result.output).toBe(
      "Replaced 1 match in src/sum.js (+1 -1).\n1\texport const sum = (a, b) => a + b;\n2\texport const one = 1;",
    );
    expect(get("src/sum.js")).toContain("a + b");
  });
  test("edit: several matches need all; $ and regex characters mean themselves", async () => {
    put("m.txt", "x.y\nx.y\nxzy\n");
    expect(await edit("m.txt", "x.y", "$&")).toMatchObject({
      outcome: "error",
      output: expect.stringContaining("got 2, at lines 1, 2"),
    });
    expect((await edit("m.txt", "x.y", "$&", true)).output).toContain("Replaced 2 matches");
    expect(get("m.txt")).toBe("$&\n$&\nxzy\n");
  });
  test("edit: a miss shows the nearest lines and changes nothing", async () => {
    put("code.ts", "function add(left, right) {\n\treturn left + right;\n}\n");
    const spacing = await edit("code.ts", "function add(left,  right) {\n  return left + right;\n}", "x");
    expect(spacing.outcome).toBe("error");
    expect(spacing.output).toContain("1\tfunction add(left, right) {\n2\t\treturn left + right;\n3\t}");
    expect(spacing.output).toContain("white space only");
    expect((await edit("code.ts", "return left * right;", "x")).output).toContain("2\t\treturn left + right;");
    expect((await edit("code.ts", "zzzzqqqq", "x")).output).toContain("Nothing in the file is like it");
    expect(get("code.ts")).toBe("function add(left, right) {\n\treturn left + right;\n}\n");
  });
  test("edit: CRLF files keep their line ends; binary, missing and same are refused", async () => {
    put("win.txt", "one\r\ntwo\r\nthree\r\n");
    expect((await edit("win.txt", "one\ntwo", "1\n2")).outcome).toBe("ok");
    expect(get("win.txt")).toBe("1\r\n2\r\nthree\r\n");
    put("b.bin", Buffer.from([1, 0, 2]));
    expect((await edit("b.bin", "x", "y")).output).toContain("binary");
    expect((await edit("none.txt", "x", "y")).outcome).toBe("error");
    expect((await edit("win.txt", "x", "x")).output).toContain("are the same");
  });
  test("edit: a large file and a hopeless miss stay quick", async () => {
    put(
      "big.txt",
      lines(100_000, (n) => `const value${n} = compute(${n}, "some text that repeats");`),
    );
    const started = performance.now();
    expect(
      (
        await edit(
          "big.txt",
          lines(60, (n) => `const other${n} = compte(${n}, "some text that repeat");`),
          "",
        )
      ).outcome,
    ).toBe("error");
    expect((await edit("big.txt", "compute", "c", true)).output).toContain("Replaced 100000 matches");
    expect(performance.now() - started).toBeLessThan(fairMs(5000));
  });
});

describe("shell", () => {
  test("says exit code, time and output; a failing command is an error with its code", async () => {
    expect(await call("shell", { command: "echo out; echo err >&2" })).toMatchObject({
      outcome: "ok",
      exitCode: 0,
      output: expect.stringMatching(/^Exit code 0 after \d+\.\d s\.\n(out\nerr|err\nout)$/),
    });
    expect(await call("shell", { command: "exit 7" })).toMatchObject({
      outcome: "error",
      exitCode: 7,
      output: expect.stringMatching(/^Exit code 7 after .*\n\(no output\)$/),
    });
    expect((await call("shell", { command: "pwd", cwd: "src" })).output).toContain(join(root, "src"));
  });

  test("a pipe fails with any part of it, and says so of one that was cut off", async () => {
    expect(tools["shell"]?.description).toContain("(`pipefail`)");
    expect(await call("shell", { command: "false | cat" })).toMatchObject({ outcome: "error", exitCode: 1 });
    expect(await call("shell", { command: "true | cat" })).toMatchObject({ outcome: "ok", exitCode: 0 });
    const cut = await call("shell", { command: "yes | head -n 1" });
    expect([cut.exitCode, cut.output]).toEqual([141, expect.stringMatching(/^Exit code 141 .*`head`.*\ny$/s)]);
    // As without: a heredoc, a comment, several lines, an error that counts lines.
    const script = "# first\ncat <<E\ninside\nE\nnowhere-to-be-found";
    expect((await call("shell", { command: script })).output).toMatch(/inside\n.*line 5: nowhere-to-be-found/s);
  });

  test("output is what one reads in a terminal", async () => {
    const command = "printf '\\033[31mred\\033[0m\\n 10 %%\\r100 %%\\nab\\bc\\n'";
    expect((await call("shell", { command })).output).toMatch(/\nred\n100 %\nac$/);
  });
  test("a folder outside or none is refused before anything runs", async () => {
    symlinkSync(temp, join(root, "away"));
    for (const cwd of ["..", "/", "none", "away", "README.md"])
      expect(await call("shell", { command: "touch ran", cwd })).toMatchObject({ outcome: "error" });
    expect(there("ran")).toBe(false);
  });
  test("a time-out ends the whole group and says so", async () => {
    const result = await call("shell", { command: "echo begun; sleep 30 & sleep 30", timeoutSeconds: 1 });
    expect(result).toMatchObject({
      outcome: "error",
      output: expect.stringMatching(/^Timed out after 1 s: .*\nbegun$/),
    });
    expect(result.exitCode).toBeUndefined();
  });
  test("the operator's limit holds", async () => {
    const limited = { ...context, limits: { ...context.limits, commandMaxSeconds: 1 } };
    expect((await call("shell", { command: "sleep 20", timeoutSeconds: 500 }, limited)).output).toContain(
      "Timed out after 1 s",
    );
  });
  test("a background child does not outlive the shell, nor hold it up", async () => {
    const started = performance.now();
    const result = await call("shell", { command: "(sleep 3; touch late) & echo $!" });
    expect(result).toMatchObject({ outcome: "ok", exitCode: 0 });
    expect(performance.now() - started).toBeLessThan(2500);
    const pid = Number(result.output.split("\n")[1]);
    expect(pid).toBeGreaterThan(1);
    expect([alive(process.pid), alive(pid)]).toEqual([true, false]);
  });
  test("killed by a signal of its own", async () => {
    expect((await call("shell", { command: "kill -9 $$" })).outcome).toBe("error");
  });
  test("long output keeps head and tail", async () => {
    const { output } = await call("shell", { command: "seq 1 200000" });
    expect(output).toMatch(/^Exit code 0/);
    expect(output).toContain("characters left out");
    expect(output.trimEnd().endsWith("200000")).toBe(true);
    expect(output.length).toBeLessThan(26_000);
  });
  test("output goes out as it comes; an abort rejects", async () => {
    const controller = new AbortController();
    let seen = "";
    const running = call(
      "shell",
      { command: "echo live; sleep 20" },
      {
        ...context,
        signal: controller.signal,
        onOutput: (text) => {
          seen += text;
          controller.abort(new Error("cancelled"));
        },
      },
    );
    await expect(running).rejects.toThrow("cancelled");
    expect(seen).toBe("live\n");
  });
});

describe("git", () => {
  test("status, diff, log, add, commit", async () => {
    put("src/sum.js", "changed\n");
    put("new file.txt", "x\n");
    expect((await call("git", { action: "status" })).output).toBe('## main\n M src/sum.js\n?? "new file.txt"');
    expect((await call("git", { action: "diff", stat: true })).output).toContain("1 file changed");
    expect((await call("git", { action: "diff", paths: ["README.md"] })).output).toContain("No difference");
    expect((await call("git", { action: "add", paths: ["new file.txt"] })).outcome).toBe("ok");
    expect((await call("git", { action: "diff", staged: true })).output).toContain("+x");
    expect((await call("git", { action: "commit", message: "Add a file" })).outcome).toBe("ok");
    expect((await call("git", { action: "log", limit: 1 })).output).toMatch(/^\w+ \d{4}-\d\d-\d\d Sortie: Add a file$/);
    expect((await call("git", { action: "commit", message: "Nothing" })).outcome).toBe("error");
  });
  test("what an action needs is said; options cannot be smuggled in", async () => {
    expect((await call("git", { action: "commit" })).output).toContain("Expected `message`");
    expect((await call("git", { action: "diff", revision: "--output=x" })).output).toContain("invalid");
    expect((await call("git", { action: "diff", revision: "nosuch" })).outcome).toBe("error");
    expect((await call("git", { action: "add", paths: ["../x"] })).outcome).toBe("error");
    expect((await call("git", { action: "add", paths: ["--all"] })).outcome).toBe("error");
    for (const action of ["push", "fetch", "pull", "clone", "remote", "config", "submodule", "hook", "gc", "checkout"])
      expect((await call("git", { action })).output).toContain("invalid");
  });
  test("show and restore; in the user's own directory nothing is restored", async () => {
    expect((await call("git", { action: "show", stat: true })).output).toMatch(/README\.md\s+\| 3 \+\+\+/);
    put("src/sum.js", "the user's\n");
    expect((await call("git", { action: "restore", paths: ["src/sum.js"] })).output).toContain("Expected a worktree");
    expect(get("src/sum.js")).toBe("the user's\n");
    const own = await open(root, { isolation: "worktree" });
    const before = get("README.md", own.workspace.root);
    writeFileSync(join(own.workspace.root, "README.md"), "x");
    expect((await call("git", { action: "restore", paths: ["README.md"] }, own)).output).toBe(
      "Restored README.md from HEAD.",
    );
    expect(get("README.md", own.workspace.root)).toBe(before);
    for (const paths of [["../x"], ["/etc/passwd"], [".git/config"], ["nosuch"]])
      expect([paths, (await call("git", { action: "restore", paths }, own)).outcome]).toEqual([paths, "error"]);
    expect((await call("git", { action: "restore" }, own)).output).toContain("Expected `paths`");
  });
  test("grep counts in tracked files by glob", async () => {
    put("src/a.md", "needle\nneedle needle\n");
    put("doc/b.md", "needle\n");
    put('odd"\n.md', "needle\n");
    commitAll();
    put("untracked.md", "needle\n");
    put("x.log", "needle\n");
    expect((await call("git", { action: "grep", pattern: "needle" })).output).toBe(
      '1\tdoc/b.md\n1\t"odd\\"\\n.md"\n2\tsrc/a.md',
    );
    expect((await call("git", { action: "grep", pattern: "needle", glob: "src/*.md" })).output).toBe("2\tsrc/a.md");
    expect((await call("git", { action: "grep", pattern: "needle", glob: "doc" })).output).toBe("1\tdoc/b.md");
    expect((await call("git", { action: "grep", pattern: "needle", glob: "b*.md" })).output).toBe("1\tdoc/b.md");
    expect((await call("git", { action: "grep", pattern: "needle", untracked: true })).output).toContain(
      "1\tuntracked.md",
    );
    expect((await call("git", { action: "grep", pattern: "n.edle" })).output).toBe("No match.");
    expect((await call("git", { action: "grep", pattern: "x", glob: "../*" })).outcome).toBe("error");
  });
  test("mv: file, folder, into a folder; staged as git mv does", async () => {
    put("src/lib/a b.js", "a\n");
    commitAll();
    expect((await call("git", { action: "mv", from: "src/sum.js", to: "src/add.js" })).output).toBe(
      "Moved src/sum.js to src/add.js.",
    );
    expect(sh(root, "status", "--short")).toBe("R  src/sum.js -> src/add.js\n");
    expect((await call("git", { action: "mv", from: "src", to: "code" })).output).toBe("Moved src to code (2 files).");
    expect(there("src")).toBe(false);
    expect((await call("git", { action: "mv", from: "README.md", to: "code" })).output).toBe(
      "Moved README.md to code/README.md.",
    );
    expect(get("code/lib/a b.js")).toBe("a\n");
  });
  test("mv refuses: missing, taken, outside, into itself, through a link", async () => {
    symlinkSync(temp, join(root, "away"));
    for (const [from, to] of [
      ["none", "x"],
      ["src/sum.js", "README.md"],
      ["src/sum.js", "../x.js"],
      ["../x", "y"],
      ["src", "src/deep"],
      ["src/sum.js", "away/sum.js"],
      ["src/sum.js", ".git/x"],
      ["src/sum.js", ".env"],
      [".", "x"],
    ])
      expect(await call("git", { action: "mv", from, to }), `${from} → ${to}`).toMatchObject({ outcome: "error" });
    expect(there("sum.js", temp)).toBe(false);
    expect(sh(root, "status", "--short")).toBe("?? away\n");
  });
  test("rm: file and folder; nothing when one is missing; a link itself, not its target", async () => {
    put("old/deep/a.txt", "a\n");
    put("old/deep/ignored.log", "a\n");
    put("keep/k.txt", "k\n");
    sh(root, "add", "old/deep/a.txt");
    symlinkSync("keep", join(root, "link"));
    expect((await call("git", { action: "rm", paths: ["README.md", "none"] })).outcome).toBe("error");
    expect(there("README.md")).toBe(true);
    expect((await call("git", { action: "rm", paths: ["README.md", "old"] })).output).toBe(
      "Removed README.md, old (3 files).",
    );
    expect(there("old")).toBe(false);
    expect((await call("git", { action: "rm", paths: ["link"] })).outcome).toBe("ok");
    expect(there("keep/k.txt")).toBe(true);
    expect((await call("git", { action: "rm", paths: [".git"] })).outcome).toBe("error");
    expect((await call("git", { action: "rm", paths: [".git/config"] })).outcome).toBe("error");
    expect(sh(root, "status", "--short")).toBe("D  README.md\n?? keep/\n");
  });
});

const fix = `diff --git a/src/sum.js b/src/sum.js
--- a/src/sum.js
+++ b/src/sum.js
@@ -1,2 +1,2 @@
-export const sum = (a, b) => a - b;
+export const sum = (a, b) => a + b;
 export const one = 1;
`;

describe.each([
  ["in a repository", true],
  ["without Git", false],
])("apply %s", (_, git) => {
  beforeEach(async () => {
    context = await open(root, { git });
  });
  test("applies, reports, and knows when it is there already", async () => {
    expect((await call("apply_patch", { patch: fix, mode: "check" })).output).toBe(
      "The patch applies; it changes 1 file.",
    );
    expect((await call("apply_patch", { patch: fix, mode: "check-applied" })).outcome).toBe("error");
    expect(get("src/sum.js")).toContain("a - b");
    expect(await call("apply_patch", { patch: fix })).toEqual({
      outcome: "ok",
      output: "Applied the patch to 1 file.\nM src/sum.js (+1 -1)",
    });
    expect(get("src/sum.js")).toContain("a + b");
    expect((await call("apply_patch", { patch: fix, mode: "check-applied" })).outcome).toBe("ok");
    expect((await call("apply_patch", { patch: fix })).outcome).toBe("error");
  });
  test("without prefixes, moved lines, no newline at the end, CRLF file", async () => {
    put("src/sum.js", `// one\n// two\n${get("src/sum.js")}`);
    expect(
      (
        await call("apply_patch", {
          patch: fix
            .replaceAll(/\b[ab]\/(?=src)/g, "")
            .replace(/^diff.*\n/, "")
            .trimEnd(),
        })
      ).outcome,
    ).toBe("ok");
    put("win.txt", "one\r\ntwo\r\n");
    const crlf = "--- a/win.txt\n+++ b/win.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n";
    expect((await call("apply_patch", { patch: crlf })).outcome).toBe("ok");
    expect(get("win.txt")).toBe("one\r\n2\r\n");
  });
  test("creates, deletes, renames, modes, names with spaces and quotes", async () => {
    put('q"uote.txt', "old\n");
    const patch = [
      "diff --git a/new dir/a b.txt b/new dir/a b.txt",
      "new file mode 100755",
      "--- /dev/null",
      "+++ b/new dir/a b.txt",
      "@@ -0,0 +1 @@",
      "+hello",
      "diff --git a/README.md b/README.md",
      "deleted file mode 100644",
      "--- a/README.md",
      "+++ /dev/null",
      "@@ -1,3 +0,0 @@",
      "-# Sums",
      "-",
      "-Adds numbers.",
      "diff --git a/src/sum.js b/src/add.js",
      "similarity index 100%",
      "rename from src/sum.js",
      "rename to src/add.js",
      'diff --git "a/q\\"uote.txt" "b/q\\"uote.txt"',
      '--- "a/q\\"uote.txt"',
      '+++ "b/q\\"uote.txt"',
      "@@ -1 +1 @@",
      "-old",
      "+new",
      "",
    ].join("\n");
    expect(await call("apply_patch", { patch })).toMatchObject({
      outcome: "ok",
      output: expect.stringContaining("5 files"),
    });
    expect(get("new dir/a b.txt")).toBe("hello\n");
    expect(execFileSync("stat", ["-c", "%a", join(root, "new dir/a b.txt")], { encoding: "utf8" })).toMatch(/^7/);
    expect([there("README.md"), there("src/sum.js"), there("src/add.js")]).toEqual([false, false, true]);
    expect(get('q"uote.txt')).toBe("new\n");
    expect((await call("apply_patch", { patch, mode: "check-applied" })).outcome).toBe("ok");
  });
  test("a conflict names the hunk and what stands there, and changes nothing of any file", async () => {
    put("src/sum.js", "export const sum = (a, b) => a * b;\nexport const one = 1;\n");
    const two = `${fix}--- a/README.md\n+++ b/README.md\n@@ -1,1 +1,1 @@\n-# Sums\n+# Adds\n`;
    for (const patch of [
      two,
      two
        .split(/(?=--- a\/README)/)
        .reverse()
        .join("")
        .replace(/diff --git.*\n/, ""),
    ]) {
      const result = await call("apply_patch", { patch });
      expect(result.outcome).toBe("error");
      expect(result.output).toContain("Rejected: src/sum.js, hunk 1 of 1");
      expect(result.output).toContain("a * b");
      expect(get("README.md")).toContain("# Sums");
    }
  });
  test.each([
    ["outside", "--- a/../x\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n"],
    ["absolute", "--- /dev/null\n+++ /tmp/x-sortie\n@@ -0,0 +1 @@\n+x\n"],
    ["in .git", "--- /dev/null\n+++ b/.git/hooks/pre-commit\n@@ -0,0 +1 @@\n+x\n"],
    ["a secret", "--- /dev/null\n+++ b/.env\n@@ -0,0 +1 @@\n+x\n"],
    ["through a link", "--- /dev/null\n+++ b/away/x-sortie\n@@ -0,0 +1 @@\n+x\n"],
    [
      "a link",
      "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n",
    ],
    ["rename out", "diff --git a/README.md b/../R\nrename from README.md\nrename to ../R\n"],
    ["no diff", "just text\n"],
    ["onto a file that is there", "--- /dev/null\n+++ b/README.md\n@@ -0,0 +1 @@\n+x\n"],
    ["of a missing file", "--- a/none\n+++ b/none\n@@ -1 +1 @@\n-x\n+y\n"],
  ])("refuses a patch: %s", async (_name, patch) => {
    symlinkSync(temp, join(root, "away"));
    expect(await call("apply_patch", { patch })).toMatchObject({ outcome: "error" });
    expect([existsSync("/tmp/x-sortie"), there("x-sortie", temp), there("l"), there(".env")]).toEqual([
      false,
      false,
      false,
      false,
    ]);
    expect(sh(root, "status", "--short")).toBe("?? away\n");
  });
});

describe("apply three-way", () => {
  /** A patch made from the committed version while the file has moved on. */
  const prepare = (folder: string) => {
    put("f.txt", lines(12), folder);
    commitAll(folder);
    put(
      "f.txt",
      lines(12, (n) => (n === 5 ? "FIVE" : `line ${n}`)),
      folder,
    );
    const patch = sh(folder, "diff", "--relative", "--full-index");
    sh(folder, "checkout", "-q", "--", ".");
    return patch;
  };
  test("where the context changed, by the versions Git has; uncommitted edits stay", async () => {
    const patch = prepare(root);
    const now = lines(12, (n) => (n === 3 ? "three changed" : `line ${n}`)).replace("line 1\n", "line 1\nmore\n");
    put("f.txt", now);
    // Control: exactly it does not fit.
    expect((await call("apply_patch", { patch }, await open(root, { git: false }))).outcome).toBe("error");
    expect((await call("apply_patch", { patch })).output).toBe(
      "Applied the patch to 1 file, three-way.\nM f.txt (+1 -1)",
    );
    expect(get("f.txt")).toBe(now.replace("line 5", "FIVE"));
    expect(sh(root, "diff", "--cached", "--name-only")).toBe("");
    expect((await call("apply_patch", { patch })).output).toContain("Nothing to change");
  });
  test("a real conflict changes nothing", async () => {
    const patch = prepare(root);
    put(
      "f.txt",
      lines(12, (n) => (n === 5 ? "other five" : `line ${n}`)),
    );
    const result = await call("apply_patch", { patch });
    expect(result.outcome).toBe("error");
    expect(result.output).toContain("Rejected: f.txt, hunk 1 of 1");
    expect(result.output).toContain("conflicts in f.txt");
    expect(get("f.txt")).toContain("other five");
    expect(get("f.txt")).not.toContain("<<<<");
  });
  test("in a folder of a repository paths are the folder's", async () => {
    mkdirSync(join(root, "pkg"));
    const inner = join(root, "pkg");
    const patch = prepare(inner);
    put(
      "f.txt",
      lines(12, (n) => (n === 3 ? "three changed" : `line ${n}`)),
      inner,
    );
    const sub = await open(inner);
    expect((await call("apply_patch", { patch }, sub)).output).toBe(
      "Applied the patch to 1 file, three-way.\nM f.txt (+1 -1)",
    );
    expect(get("f.txt", inner)).toContain("FIVE");
    expect(there("f.txt")).toBe(false);
    expect((await call("git", { action: "grep", pattern: "FIVE" }, sub)).output).toBe("1\tf.txt");
    expect((await call("git", { action: "mv", from: "f.txt", to: "g.txt" }, sub)).outcome).toBe("ok");
    expect(sh(root, "status", "--short")).toBe("R  pkg/f.txt -> pkg/g.txt\n");
  });
  test("binary patches", async () => {
    put("logo.bin", Buffer.from([0, 1, 2, 3]));
    commitAll();
    put("logo.bin", Buffer.from([0, 9, 9, 9, 9]));
    const patch = sh(root, "diff", "--binary");
    sh(root, "checkout", "-q", "--", ".");
    expect((await call("apply_patch", { patch })).outcome).toBe("ok");
    expect(readFileSync(join(root, "logo.bin"))).toEqual(Buffer.from([0, 9, 9, 9, 9]));
  });
});

test("without a Git worktree, git says so and search works", async () => {
  const plain = await open(root, { git: false });
  expect((await call("git", { action: "status" }, plain)).output).toContain("Not a Git worktree");
  expect((await call("git", { action: "mv", from: "README.md", to: "R.md" }, plain)).outcome).toBe("ok");
  expect((await call("git", { action: "rm", paths: ["R.md"] }, plain)).outcome).toBe("ok");
});

describe.each(["", "pkg"])("in a Task's own worktree of the folder %j", (folder) => {
  test("every tool works there and the project stays as it is", async () => {
    for (const path of ["src/sum.js", "README.md"]) put(join(folder, path), get(path));
    commitAll();
    context = await open(join(root, folder), { isolation: "worktree" });
    const work = context.workspace.root;
    expect(work.startsWith(root)).toBe(false);
    const at = (path: string) => get(path, work);

    expect((await call("apply_patch", { patch: fix })).outcome).toBe("ok");
    expect(at("src/sum.js")).toContain("a + b");
    expect((await call("write", { path: "docs/a.md", content: "sums\n" })).outcome).toBe("ok");
    expect((await edit("README.md", "# Sums", "# Adds")).outcome).toBe("ok");
    expect((await call("git", { action: "mv", from: "src/sum.js", to: "src/add.js" })).outcome).toBe("ok");
    expect((await call("git", { action: "grep", pattern: "a + b" })).output).toBe("1\tsrc/add.js");
    expect((await call("search", { pattern: "sums", mode: "files" })).output).toBe("docs/a.md");
    expect((await call("read", { path: "src/add.js", limit: 1 })).output).toContain("a + b");
    expect((await call("list", { path: "src" })).output).toContain("src/add.js");
    expect((await call("shell", { command: "pwd; git rev-parse --abbrev-ref HEAD" })).output).toContain(
      `${work}\nHEAD`,
    );
    // Of the whole Task, tracked or not, and the same once the service has committed.
    const whole = async () => {
      const status = (await call("git", { action: "status" })).output;
      expect(status).toBe("M README.md\nA docs/a.md\nA src/add.js\nD src/sum.js");
      const { output } = await call("git", { action: "diff" });
      for (const part of ["+# Adds", "+sums", "+++ b/src/add.js"]) expect(output).toContain(part);
      expect((await call("git", { action: "diff", stat: true })).output).toMatch(/docs\/a\.md +\| +1 \+/);
      expect((await call("git", { action: "diff", paths: ["docs"] })).output).not.toContain("Adds");
    };
    await whole();
    const committed = await context.workspace.commit("Half of it\n");
    await whole();
    const two = { action: "diff", revision: `${committed?.parent} ${committed?.commit}`, stat: true };
    expect((await call("git", two)).output).toContain("docs/a.md");
    expect((await call("git", { action: "diff", revision: "HEAD --output=x" })).output).toContain("invalid");
    expect((await call("git", { action: "diff", paths: ["README.md"] })).output).toContain("+# Adds");
    expect((await call("git", { action: "rm", paths: ["README.md"] })).outcome).toBe("ok");
    expect(await call("write", { path: ".git", content: "gitdir: /tmp\n" })).toMatchObject({ outcome: "error" });
    expect(sh(root, "status", "--short")).toBe("");

    const commit = await context.workspace.commit("work");
    expect(commit).toMatchObject({ files: 4, omitted: [] });
  });
  test("three-way", async () => {
    const file = join(folder, "f.txt");
    put(file, lines(12));
    commitAll();
    put(
      file,
      lines(12, (n) => (n === 5 ? "FIVE" : `line ${n}`)),
    );
    const patch = sh(join(root, folder), "diff", "--relative", "--full-index");
    sh(root, "checkout", "-q", "--", ".");
    put(
      file,
      lines(12, (n) => (n === 3 ? "three changed" : `line ${n}`)),
    );
    commitAll();
    context = await open(join(root, folder), { isolation: "worktree" });
    expect((await call("apply_patch", { patch })).output).toContain("1 file, three-way");
    expect(get("f.txt", context.workspace.root)).toContain("three changed\nline 4\nFIVE");
  });
});
