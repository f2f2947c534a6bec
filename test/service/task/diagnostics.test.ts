import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { packageRoot } from "../../../src/package-root.ts";
import { createTask, logOf, makeLab, settledTask } from "../../harness/double/hostile-text.ts";
import type { MockTurn } from "../../harness/double/mock-provider.ts";
import { makeProject } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/**
 * What the project's own checkers say of an edit stands in its result: of errors that the edit brought, not of those
 * that were there. In projects of three languages, where the machine has their tools.
 */

const has = (program: string): boolean => {
  try {
    execFileSync("sh", ["-c", `command -v ${program}`], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
};

const modules = realpathSync(join(packageRoot, "node_modules"));

let lab: Awaited<ReturnType<typeof makeLab>>;
let service: TestService;
/** Projects whose environment the configuration says. */
let off: string;
let own: string;
let slow: string;
beforeAll(async () => {
  lab = await makeLab();
  off = withCompiler(makeProject(lab.folder(), typescript.files));
  own = makeProject(lab.folder(), { "notes.txt": "fine\nbad: old\n" });
  slow = makeProject(lab.folder(), { "notes.txt": "fine\n", "stuck.md": "fine\n", "broken.csv": "fine\n" });
  const config = JSON.parse(readFileSync(lab.config, "utf8")) as object;
  const grep = `grep -n bad {files} /dev/null | sed 's/:bad/:1: bad/'; exit 0`;
  writeFileSync(
    lab.config,
    JSON.stringify({
      ...config,
      sandbox: { paths: [modules] },
      environments: {
        [off]: { diagnostics: false },
        [own]: { diagnostics: [{ name: "words", run: grep, extensions: ["txt"] }] },
        [slow]: {
          diagnostics: [
            { name: "late", run: `sleep 2.5; ${grep}`, extensions: ["txt"] },
            { name: "stuck", run: "sleep 1000", extensions: ["md"], stays: { ends: "never" } },
            { name: "broken", run: "./nowhere", extensions: ["csv"] },
            { name: "loud", run: "yes bad: loud", extensions: ["csv"] },
          ],
        },
      },
    }),
  );
  service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await lab[Symbol.asyncDispose]();
});

/** Programs of this repository as the project's own. */
const withPrograms = (project: string, programs: Record<string, string>): string => {
  const bin = join(project, "node_modules/.bin");
  mkdirSync(bin, { recursive: true });
  for (const [name, path] of Object.entries(programs)) {
    writeFileSync(join(bin, name), `#!/bin/sh\nexec ${process.execPath} ${realpathSync(join(modules, path))} "$@"\n`);
    chmodSync(join(bin, name), 0o755);
  }
  return project;
};

const withCompiler = (project: string): string => withPrograms(project, { tsc: "@typescript/native/bin/tsc" });

type Fixture = {
  files: Record<string, string>;
  first: string;
  /** The edit that brings an error, the one that brings none, and where the error stands. */
  edit(at: number): { path: string; old: string; bad: string; good: string; line: number };
};

const places = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

const typescript: Fixture = {
  first: "src/f0.ts",
  files: {
    ".gitignore": "node_modules/\n",
    "package.json": JSON.stringify({ type: "module" }),
    "tsconfig.json": JSON.stringify({
      compilerOptions: { strict: true, module: "nodenext", target: "es2022", types: [], incremental: true },
      include: ["src"],
    }),
    "src/old.ts": "export const before: string = 1;\n",
    ...Object.fromEntries(
      places.map((at) => [
        `src/f${at}.ts`,
        `/** ${at} */\nexport const f${at} = (): number => {\n  return ${at};\n};\n`,
      ]),
    ),
  },
  edit: (at) => ({
    path: `src/f${at}.ts`,
    old: `return ${at};`,
    bad: `return "${at}";`,
    good: `return ${at} + 1;`,
    line: 3,
  }),
};

const python: Fixture = {
  first: "f0.py",
  files: {
    "pyproject.toml": "[tool.mypy]\nstrict = true\n",
    "old.py": "before: str = 1\n",
    ...Object.fromEntries(places.map((at) => [`f${at}.py`, `# ${at}\ndef f${at}() -> int:\n    return ${at}\n`])),
  },
  edit: (at) => ({
    path: `f${at}.py`,
    old: `return ${at}\n`,
    bad: `return "${at}"\n`,
    good: `return ${at} + 1\n`,
    line: 3,
  }),
};

const go: Fixture = {
  first: "p0/p.go",
  files: {
    "go.mod": "module example.org/x\n\ngo 1.19\n",
    "old/old.go": "package old\n\nvar Before string = 1\n",
    ...Object.fromEntries(places.map((at) => [`p${at}/p.go`, `package p${at}\n\nfunc F() int {\n\treturn ${at}\n}\n`])),
  },
  edit: (at) => ({
    path: `p${at}/p.go`,
    old: `return ${at}\n`,
    bad: `return "${at}"\n`,
    good: `return ${at} + 1\n`,
    line: 4,
  }),
};

const work = async (project: string, turns: MockTurn[]) => {
  const asked = lab.request([...turns, { text: "Done." }]);
  const taskID = await createTask(service.url, project, { ...asked, checks: [] });
  const end = await settledTask(service.url, taskID, 60_000);
  expect(end).toMatchObject({ lifecycleStatus: "completed" });
  const log = await logOf(service.url, taskID);
  return log.flatMap(({ type, data }) =>
    type === "tool.finished" ? [{ ...data, output: typeof data.output === "string" ? data.output : "" }] : [],
  );
};

const editing = (path: string, old: string, fresh: string): NonNullable<MockTurn["calls"]> => [
  { tool: "edit", input: { path, edits: [{ old, new: fresh }] } },
];

const languages = [
  { name: "TypeScript", fixture: typescript, isThere: true },
  { name: "Python", fixture: python, isThere: has("mypy") },
  { name: "Go", fixture: go, isThere: has("go") },
];
for (const { name, isThere } of languages)
  if (!isThere) console.warn(`TESTS SKIPPED: the checker of ${name} is not installed here.`);

describe.each(languages.filter(({ isThere }) => isThere))("$name", ({ name, fixture }) => {
  test("an edit's type error stands in its result", { timeout: 120_000 }, async () => {
    const made = makeProject(lab.folder(), fixture.files);
    const project = name === "TypeScript" ? withCompiler(made) : made;
    const turns = places.map((at): MockTurn => {
      const { path, old, bad, good } = fixture.edit(at);
      // As long as a model needs to say its first edit, at least.
      return {
        calls: editing(path, old, at === 9 ? good : bad),
        ...(at === 0 ? { latencyMs: 4000 } : {}),
      };
    });
    const last = fixture.edit(9);
    turns.push({ calls: editing(last.path, last.good, last.bad) });
    const results = await work(project, [{ calls: [{ tool: "read", input: { path: fixture.first } }] }, ...turns]);
    const edits = results.filter(({ tool }) => tool === "edit");
    expect(edits).toHaveLength(11);
    expect(edits[9]?.output).not.toContain("[");
    const bad = edits.filter((_, at) => at !== 9);
    const seen = bad.filter(({ output, durationMs }, at) => {
      const { path, line } = fixture.edit(at);
      return output.includes(`\n${path}:${line}:`) && durationMs < 2000;
    });
    console.info(`${name}: ${seen.length} of 10, ms: ${edits.map(({ durationMs }) => durationMs).join(" ")}`);
    expect(seen.length, bad.map(({ output }) => output).join("\n---\n")).toBeGreaterThanOrEqual(9);
    for (const { output } of edits) expect(output).not.toMatch(/old\.(?:ts|py|go)|before/i);
  });
});

test("linters and formatters look at the edited file; what it had before is not told, nor what is removed", {
  timeout: 60_000,
}, async () => {
  const project = withPrograms(
    makeProject(lab.folder(), {
      ".gitignore": "node_modules/\n",
      ".oxlintrc.json": JSON.stringify({ rules: { "no-debugger": "error", "no-empty": "error" } }),
      "biome.json": JSON.stringify({ linter: { enabled: false }, formatter: { indentStyle: "space" } }),
      "a.js": "export const a = () => {\n  debugger;\n};\n",
      "b.js": "debugger;\n",
    }),
    { oxlint: ".bin/oxlint", biome: ".bin/biome" },
  );
  const results = await work(project, [
    { calls: [{ tool: "read", input: { path: "a.js" } }] },
    { calls: editing("a.js", "};\n", "};\nexport const b = () => {\n  if (a) {\n  }\n};\n"), latencyMs: 1500 },
    { calls: editing("a.js", "if (a) {\n  }", "a( );") },
    { calls: [{ tool: "apply_patch", input: { patch: "*** Begin Patch\n*** Delete File: b.js\n*** End Patch" } }] },
  ]);
  const [, lint = "", format = "", gone = ""] = results.map(({ output }) => output);
  expect(lint).toMatch(/\[oxlint: new with this edit\]\na\.js:5:\d+ .*[Ee]mpty/);
  expect(lint).not.toContain("a.js:2:");
  expect(format).toContain("is not formatted as the project's biome does it");
  expect(format).not.toContain("oxlint");
  expect(gone).not.toContain("[");
});

test("nothing starts for a path that is refused; control: for a file that was read it does", {
  timeout: 60_000,
}, async () => {
  const project = withCompiler(makeProject(lab.folder(), typescript.files));
  const run = `for at in 1 2 3 4 5; do sleep 0.3; n=$(cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c -- '[-]-watch'); done; echo "watching: $n"`;
  const read = (path: string): MockTurn => ({ calls: [{ tool: "read", input: { path } }] });
  const look: MockTurn = { calls: [{ tool: "shell", input: { command: run } }] };
  const results = await work(project, [
    read("../f0.ts"),
    read("/etc/f0.ts"),
    read("src/f99.ts"),
    look,
    read("src/f0.ts"),
    look,
  ]);
  const seen = results.flatMap(({ output }) => /watching: (\d+)/.exec(output)?.[1] ?? []);
  expect(seen[0]).toBe("0");
  expect(Number(seen[1])).toBeGreaterThan(0);
});

test("nothing looks where the environment says so", { timeout: 60_000 }, async () => {
  const { path, old, bad } = typescript.edit(0);
  const results = await work(off, [
    { calls: [{ tool: "read", input: { path } }] },
    { calls: editing(path, old, bad), latencyMs: 1500 },
  ]);
  expect(results.at(-1)?.output).not.toContain("tsc");
});

test("a command of the configuration looks instead, and what was there is not told", { timeout: 60_000 }, async () => {
  const results = await work(own, [
    { calls: [{ tool: "read", input: { path: "notes.txt" } }] },
    { calls: editing("notes.txt", "fine\n", "bad: new\n"), latencyMs: 500 },
    { calls: editing("notes.txt", "bad: new\n", "good\n") },
  ]);
  expect(results[1]?.output).toContain("[words: new with this edit]\nnotes.txt:1:1 bad: new");
  expect(results[1]?.output).not.toContain("notes.txt:2:1");
  expect(results[2]?.output).not.toContain("words");
});

test("who is late is told of once and stands in a later result; who never ends, fails or floods holds nothing up", {
  timeout: 60_000,
}, async () => {
  const results = await work(slow, [
    { calls: editing("notes.txt", "fine\n", "bad: new\n") },
    { calls: [{ tool: "list", input: {} }], latencyMs: 3500 },
    { calls: editing("stuck.md", "fine\n", "better\n") },
    { calls: editing("stuck.md", "better\n", "best\n") },
    { calls: editing("broken.csv", "fine\n", "better\n") },
    { calls: editing("broken.csv", "better\n", "best\n") },
  ]);
  const texts = results.map(({ output }) => output);
  expect(texts[0]?.match(/not ready yet/g)).toHaveLength(1);
  expect(texts[0]).toContain("[late: not ready yet; what is found stands in a later result]");
  expect(texts[0]).not.toContain("bad: new\n[");
  expect(texts[1]).toContain("[late: new with earlier edits, some perhaps there before]\nnotes.txt:1:1 bad: new");
  expect(texts[2]).toContain("[stuck: not ready yet");
  expect(texts[3]).not.toContain("stuck:");
  expect(texts.slice(4).join("\n")).not.toMatch(/broken:|bad: loud/);
  for (const { outcome, durationMs } of results) {
    expect(outcome).toBe("ok");
    expect(durationMs).toBeLessThan(2500);
  }
});

test("who was late and finds nothing says so, once", { timeout: 60_000 }, async () => {
  const results = await work(slow, [
    { calls: editing("notes.txt", "bad: new\n", "better\n") },
    { calls: [{ tool: "list", input: {} }], latencyMs: 3500 },
    { calls: [{ tool: "list", input: {} }] },
  ]);
  const [first, second, third] = results.map(({ output }) => output);
  expect(first).toContain("[late: not ready yet");
  expect(second).toContain("[late: ready, nothing new]");
  expect(third).not.toContain("late:");
});
