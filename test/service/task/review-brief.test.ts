import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { git, makeProject, temporary, writeFiles } from "../../harness/project.ts";
import { createTask, settledTask } from "../../harness/double/hostile-text.ts";
import { acceptance, type MockProvider, type MockTurn, startMockProvider } from "../../harness/double/mock-provider.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { teamOf } from "../../harness/double/squads.ts";

/** What the brief says of checks, and what stays of a slice's evidence when the next one begins. */

const root = temporary("sortie-brief-");
let provider: MockProvider;
let service: TestService;
let turns: MockTurn[] = [];
let briefs: string[] = [];

beforeAll(async () => {
  provider = await startMockProvider(
    (request) => {
      if (request.first.startsWith("# What was asked for")) {
        briefs.push(request.first);
        return acceptance(request);
      }
      return turns[request.turn] ?? { text: "Done.\n\nCommit: Add numbers, not strings" };
    },
    { reviews: "script" },
  );
  const data = join(root.path, "data");
  writeFiles(join(data, "squads"), teamOf("team", { orchestrator: ["read, write, shell"], reviewer: ["verdict"] }));
  const config = join(root.path, "config.jsonc");
  const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
  writeFileSync(config, JSON.stringify({ model: "mock/large", squad: "team", providers }));
  service = await startService(data, { SERVICE_CONFIG: config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

const write = (...files: [path: string, content: string][]): MockTurn => ({
  calls: files.map(([path, content]) => ({ tool: "write", input: { path, content } })),
});

test("what was red before says so, and checks that could not run are one line with their reason", async () => {
  const directory = makeProject(join(root.path, "checks"), { "a.txt": "one\n", "red.txt": "" });
  const check = (name: string, run: string) => ({ kind: "command", name, run, required: false, baseline: true });
  const long = `x${"y".repeat(60)}`;
  const build = `echo working; echo "Error: no disk"; echo at here; echo at there; exit 1`;
  briefs = [];
  turns = [write(["a.txt", "two\n"], ["green.txt", ""])];
  const taskID = await createTask(service.url, directory, {
    request: "Make it two.",
    checks: [
      check("tests", `${long} test`),
      check("lint", `${long} lint`),
      check("build", build),
      check("green", "test -e green.txt"),
      check("broken", "grep one a.txt"),
      check("same", "true"),
      { ...check("new", "false"), baseline: false },
    ],
  });
  expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
  const [brief = ""] = briefs;
  // The request stands there once.
  expect(brief.split("Make it two.")).toHaveLength(2);
  expect(brief).toContain(
    `- checks that could not run, before the work neither: lint, tests: exit 127, ${long} was not found: install it in the project or on this machine, on the PATH that the…\n`,
  );
  expect(brief.split(long)).toHaveLength(2);
  expect(brief).toContain(
    `- check: build failed: exit 1, before the work, too, run as \`${build}\`\n  | Error: no disk\n  | at here\n- `,
  );
  expect(brief).toContain("- check: green passed, failed before the work, run as `test -e green.txt`\n");
  expect(brief).toContain("- check: broken failed: exit 1, passed before the work, run as `grep one a.txt`\n");
  expect(brief).toContain("- check: same passed, run as `true`\n");
  expect(brief).toContain("- check: new failed: exit 1, run as `false`\n");
});

test("what a slice was accepted on stays with it when a follow-up is checked, and is none of the follow-up's", async () => {
  const sum = (more: string) =>
    `import test from "node:test";\nimport assert from "node:assert";\nimport { add } from "./math.mjs";\ntest("sum", () => assert.equal(add(1, 2), 3));\n${more}`;
  const directory = makeProject(join(root.path, "kept"), {
    "package.json": JSON.stringify({ scripts: { test: "node --test" } }),
    "math.mjs": "export const add = (a, b) => a - b;\n",
    "math.test.mjs": sum("").replace("3)", "3, 'on the base')").replace("test(", "test.skip("),
  });
  const check = { kind: "command", name: "tests", run: "node --test" };
  briefs = [];
  turns = [
    write(["math.mjs", "export const add = (a, b) => a + b;\n"], ["math.test.mjs", sum("")]),
    { text: "Done.\n\nCommit: Add for real" },
    write(["math.mjs", "export const add = (a, b) => Number(a) + Number(b);\n"]),
  ];
  const taskID = await createTask(service.url, directory, { request: "Mend add.", checks: [check] });
  const before = (await settledTask(service.url, taskID)).goals[0]?.evidence ?? [];
  expect(before.map(({ kind }) => kind).toSorted()).toEqual(["change", "check", "contrast"]);
  const landed = git(directory, "rev-parse", "HEAD");
  await fetch(`${service.url}/task/${taskID}/message`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-service-directory": directory },
    body: JSON.stringify({ text: `Strings of digits, too.${" Yes.".repeat(4000)} That is all.`, source: "user" }),
  });
  const status = await settledTask(service.url, taskID);
  expect(status, status.error).toMatchObject({ lifecycleStatus: "completed" });
  expect(status.goals).toHaveLength(2);
  expect(status.goals[0]?.evidence).toEqual(before);
  const now = status.goals[1]?.evidence ?? [];
  expect(now.map(({ kind, stale, commit }) => ({ kind, stale, commit }))).toEqual([
    { kind: "change", stale: false, commit: git(directory, "rev-parse", "HEAD") },
    { kind: "check", stale: false, commit: git(directory, "rev-parse", "HEAD") },
  ]);
  expect(briefs[1]).toContain(
    `# What was accepted before, and must still hold where later words do not change it\n- ${landed.slice(0, 12)} "Add for real" landed on main: 2 files, +`,
  );
  expect(briefs[1]).not.toContain("contrast");
  // A message is bounded as a request is: its beginning and its end are there, once.
  expect(briefs[1]?.split("Strings of digits, too. Yes.")).toHaveLength(2);
  expect(briefs[1]).toMatch(/\n… \d{4} characters left out; the rest is not shown …\n[^]{7000,8000} That is all\./);
});
