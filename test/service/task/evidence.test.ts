import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { TaskBoard } from "../../../src/protocol/task/board.ts";
import { makeProject, temporary, writeFiles } from "../../harness/project.ts";
import { createTask, logOf, settledTask } from "../../harness/double/hostile-text.ts";
import { acceptance, type MockProvider, type MockTurn, startMockProvider } from "../../harness/double/mock-provider.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { teamOf } from "../../harness/double/squads.ts";
import { unpack } from "../../harness/zip-reader.ts";

/** What of an agent's commands is evidence, and on which files it was seen: everywhere the same. */

const root = temporary("sortie-evidence-");
/** Of the provider. */
const key = "sk-evidence-0123456789abcdef";
let provider: MockProvider;
let service: TestService;
let turns: (MockTurn | (() => MockTurn))[] = [];
let briefs: string[] = [];
let told: string[] = [];

beforeAll(async () => {
  provider = await startMockProvider(
    (request) => {
      if (request.first.startsWith("# What was asked for")) {
        briefs.push(request.first);
        return acceptance(request);
      }
      told = request.body.messages.filter(({ role }) => role === "tool").map(({ content }) => JSON.stringify(content));
      const turn = turns[request.turn] ?? { text: "Done." };
      return typeof turn === "function" ? turn() : turn;
    },
    { reviews: "script" },
  );
  const data = join(root.path, "data");
  writeFiles(
    join(data, "squads"),
    teamOf("team", { orchestrator: ["read, write, shell, git, artifact, slice"], reviewer: ["verdict"] }),
  );
  const config = join(root.path, "config.jsonc");
  const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: key } };
  const limits = { projectCheckSeconds: 0 };
  writeFileSync(config, JSON.stringify({ model: "mock/large", squad: "team", providers, limits }));
  service = await startService(data, { SERVICE_CONFIG: config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

const write = (content: string): MockTurn => ({ calls: [{ tool: "write", input: { path: "a.js", content } }] });
const run = (...commands: (string | object)[]): MockTurn => ({
  calls: commands.map((command) => ({
    tool: "shell",
    input: typeof command === "string" ? { command } : command,
  })),
});

describe("evidence", () => {
  test("is what the manifest names or was run for a slice; the tree says whether it is stale", async () => {
    const scripts = { test: "node --test" };
    const directory = makeProject(join(root.path, "project"), {
      "package.json": JSON.stringify({ scripts }),
      "a.test.js": 'require("node:test")("says it", () => {\n  require("./a.js");\n});\n',
      "a.js": "\n",
    });
    const look = { tool: "git", input: { action: "status" } };
    const count = "NO_COLOR=1 node --test --test-reporter=tap a.test.js | grep -E '^# (pass|fail)'";
    briefs = [];
    turns = [
      write("// one\n"),
      run(count, "ls -la", "git log --oneline | head -5"),
      write("throw new Error('two');\n"),
      run(`: ${"x".repeat(700)}; ${count}`),
      write("// one\n"),
      { calls: [look] },
      run({ command: "wc -l a.js", proves: "request" }, { command: "wc -l a.js", proves: "slice_1" }),
      run("ls", "git diff"),
      run("node -e 'throw new Error(`no rule`)'; node --test --test-reporter=tap a.test.js; ls"),
    ];
    const taskID = await createTask(service.url, directory, { request: "Change a.js." });
    const status = await settledTask(service.url, taskID);
    expect(status.lifecycleStatus).toBe("completed");
    expect(told.find((text) => text.includes("No open slice of yours is called"))).toMatch(
      /Exit code 0 .*so this counts for all that you work on\. Yours: slice_\w+/,
    );

    const evidence = status.goals[0]?.evidence ?? [];
    expect(evidence.map(({ kind, stale, lastLines }) => ({ kind, stale, lastLines }))).toEqual([
      { kind: "command", stale: false, lastLines: "# pass 1\n# fail 0" },
      { kind: "command", stale: true, lastLines: "# pass 0\n# fail 1" },
      { kind: "command", stale: false, lastLines: "1 a.js" },
      // Of a slice that there is not: it counts for all.
      { kind: "command", stale: false, lastLines: "1 a.js" },
      {
        kind: "command",
        stale: false,
        lastLines: expect.stringMatching(/Error: no rule\n[\s\S]*# pass 1\n# fail 0\n[\s\S]*package\.json$/),
      },
      { kind: "change", stale: false, lastLines: null },
    ]);
    const [first, long, proven, , three] = evidence.map(({ summary }) => summary);
    expect([first, proven]).toEqual([`\`${count}\` exit 0`, "`wc -l a.js` exit 0, run to prove it"]);
    // What went wrong before the last command is not taken for a success of all.
    expect(three).toMatch(/; ls` exit 0 of its last command$/);
    // A pipe fails with its first part, and the end of a long command is there.
    expect(long?.endsWith(`${count}\` exit 1`)).toBe(true);

    // The brief, the ledger and the archive say the same.
    const [brief = ""] = briefs;
    for (const { summary } of evidence.filter(({ stale }) => !stale)) expect(brief).toContain(`${summary}\n`);
    expect(brief).toContain("  | # pass 1\n  | # fail 0");
    // What was seen before the last change is a line: both ends of the command, the counts, and what was edited since.
    expect(brief).toMatch(
      /\nSeen before the last change, a line each:\n- command: `: x+ … x*; NO_COLOR=1 node [^\n]*` exit 1: # pass 0, # fail 1; edited since: a\.js\n\n#/,
    );
    expect(brief).not.toMatch(/ {2}\| # fail 1|another tree/);
    expect(brief).not.toContain("ls -la");
    const zip = await fetch(`${service.url}/task/${taskID}/project-archive?directory=${encodeURIComponent(directory)}`);
    const files = unpack(Buffer.from(await zip.arrayBuffer()));
    const archived = JSON.parse(String(files.get("execution-flow/task.json"))) as typeof status;
    expect(archived.goals[0]?.evidence).toEqual(evidence);
    for (const board of [
      await (await fetch(`${service.url}/task/${taskID}/board`)).json(),
      JSON.parse(String(files.get("execution-flow/board.json"))),
    ] as TaskBoard[])
      expect(board.task.goals[0]?.evidence).toEqual(evidence);
    const ledger = String(files.get("execution-flow/ledger.jsonl"))
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { kind: string; tree?: string })
      .flatMap(({ kind, tree }) => (kind === "call" && tree !== undefined ? [tree] : []));
    expect(ledger.map((tree) => tree === status.git.landedTree)).toEqual([true, false, true, true, true]);
    const started = (await logOf(service.url, taskID)).filter(({ type }) => type === "tool.started");
    expect(started.find(({ data }) => (data as { tool: string }).tool === "git")?.data).toMatchObject({
      effect: "none",
    });
  });

  test("is of the slice that it was run for, by its id or its title, and of no other one", async () => {
    const directory = makeProject(join(root.path, "sliced"), { "a.js": "\n" });
    const slices = ["First", "Second"].map((title) => ({
      title,
      objective: `The ${title}.`,
      acceptance: ["a.js is there"],
    }));
    const idOf = (title: string) => new RegExp(`(slice_\\w+) \\\\?"${title}`).exec(told.join("\n"))?.[1] ?? "";
    briefs = [];
    turns = [
      { calls: [{ tool: "slice", input: { plan: slices } }] },
      write("// one\n"),
      () =>
        run(
          { command: "wc -l a.js", proves: idOf("First") },
          { command: "wc -c a.js", proves: "second" },
          "wc -w a.js",
        ),
    ];
    const { goals, lifecycleStatus } = await settledTask(
      service.url,
      await createTask(service.url, directory, { request: "Change a.js." }),
    );
    expect(lifecycleStatus).toBe("completed");
    const commands = goals.map(({ contract, evidence }) => [
      contract.title,
      ...evidence.flatMap(({ kind, summary }) => (kind === "command" ? [summary] : [])),
    ]);
    expect(commands).toEqual([
      ["First", "`wc -l a.js` exit 0, run to prove it"],
      ["Second", "`wc -c a.js` exit 0, run to prove it"],
    ]);
    const [, first = "", second = ""] = (briefs[0] ?? "").split(/^# Part \d: /m);
    expect([first.includes("wc -l"), first.includes("wc -c")]).toEqual([true, false]);
    expect([second.includes("wc -l"), second.includes("wc -c")]).toEqual([false, true]);
    expect(briefs[0]).not.toContain("wc -w");
  });

  test("has no secret of the service's, nor the half of one that a cut leaves", async () => {
    const line = (before: number) => `${"x".repeat(before)}=${key}`;
    const directory = makeProject(join(root.path, "secret"), {
      "a.js": "\n",
      "long.txt": `${line(225)}\n${line(5)}\n`,
    });
    briefs = [];
    turns = [write("// one\n"), run({ command: `cat long.txt; : ${line(270)} ${"y".repeat(400)}`, proves: "request" })];
    const status = await settledTask(
      service.url,
      await createTask(service.url, directory, { request: "Change a.js." }),
    );
    const [seen] = status.goals[0]?.evidence ?? [];
    expect(seen).toMatchObject({
      kind: "command",
      lastLines: expect.stringContaining("\nxxxxx=[redacted:mock-key]") as string,
    });
    // Control: it is all there but for the secret.
    expect(seen?.lastLines?.split("\n")).toHaveLength(2);
    for (const text of [JSON.stringify(seen), briefs[0] ?? ""]) expect(text).not.toContain(key.slice(0, 6));
  });

  test("in place, where nothing is committed, the tree says it as well: looking and taking back make nothing stale", async () => {
    const files = {
      "package.json": JSON.stringify({ scripts: { test: "node --test" } }),
      "a.test.js": 'require("node:test")("says it", () => {\n  require("./a.js");\n});\n',
      "a.js": "\n",
    };
    const test = "NO_COLOR=1 node --test --test-reporter=tap a.test.js";
    turns = [
      write("// one\n"),
      run(test),
      write("throw new Error('two');\n"),
      run(test, "printf '// one\\n' >a.js", "ls -la"),
      { calls: [{ tool: "artifact", input: { path: "a.js", title: "The end" } }] },
      run("ls -la"),
    ];
    const seen = async (directory: string) => {
      const taskID = await createTask(service.url, directory, { request: "Change a.js.", isolation: "directory" });
      const { lifecycleStatus, goals } = await settledTask(service.url, taskID);
      const evidence = goals[0]?.evidence ?? [];
      return [
        lifecycleStatus,
        ...evidence.map(({ lastLines, stale }) => [/# fail (\d)/.exec(lastLines ?? "")?.[1], stale]),
      ];
    };
    const project = makeProject(join(root.path, "in-place"), files);
    expect(await seen(project)).toEqual(["completed", ["0", false], ["1", true], [undefined, false]]);

    // Control: without Git nothing but the calls can tell, and each may have changed something.
    const plain = join(root.path, "plain");
    writeFiles(plain, files);
    expect(await seen(plain)).toEqual(["completed", ["0", true], ["1", true], [undefined, true]]);
  });
});
