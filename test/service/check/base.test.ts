import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { closing } from "../../../src/cli/task/follow.ts";
import { exitOf } from "../../../src/cli/resolve-id.ts";
import { createServiceClient } from "../../../src/client/client.ts";
import type { TaskStatus } from "../../../src/protocol/task/status.ts";
import { findProgram } from "../../../src/process/sandbox/sandbox.ts";
import {
  acceptance,
  isDescription,
  type MockProvider,
  type MockRequest,
  type MockTurn,
  startMockProvider,
  textOf,
} from "../../harness/double/mock-provider.ts";
import { makeProject, temporary } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** What agents know of the project's own checks before and beside their work, and when these run on the base. */

const root = temporary("sortie-base-");
const scripts: Record<string, MockTurn[]> = {};
const requests: Record<string, MockRequest[]> = {};
let provider: MockProvider;
let service: TestService;
let count = 0;
const briefs: string[] = [];

beforeAll(async () => {
  const script = (request: MockRequest): MockTurn => {
    if (isDescription(request)) return { text: "Nothing." };
    if (request.first.startsWith("# What was asked for")) {
      briefs.push(request.first);
      return acceptance(request);
    }
    const marker = /\[(\w+)\]/.exec(request.first)?.[1] ?? "";
    (requests[marker] ??= []).push(request);
    return scripts[marker]?.[request.turn] ?? { text: "Done." };
  };
  provider = await startMockProvider(script, { reviews: "script" });
  const config = join(root.path, "config.jsonc");
  const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" };
  writeFileSync(config, JSON.stringify({ providers: { mock }, limits: { projectCheckSeconds: 2 } }));
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

const project = (own: object, more: Record<string, string> = {}) =>
  makeProject(join(root.path, `project-${(count += 1)}`), {
    "a.txt": "one\n",
    "a.js": "1;\n",
    "package.json": JSON.stringify({ scripts: own }),
    ...more,
  });
const write = (path: string): MockTurn => ({ calls: [{ tool: "write", input: { path, content: "two\n" } }] });
const shell = (command: string): MockTurn => ({ calls: [{ tool: "shell", input: { command } }] });

/** A Task to its end: its status, its events, and the texts of each of its requests. */
const run = async (directory: string, turns: MockTurn[]) => {
  const client = createServiceClient({ baseUrl: service.url, directory });
  const marker = `b${(count += 1)}`;
  scripts[marker] = turns;
  const body = { request: `do it [${marker}]`, model: "mock/large" as const, productPillar: "code" as const };
  const taskID = (await client.task.create({ body })).data?.taskID ?? "";
  const { data: status } = await client.task.wait({ path: { taskID }, timeoutMs: 20_000 });
  expect(status?.lifecycleStatus, status?.error).toBe("completed");
  const response = await fetch(`${service.url}/task/${taskID}/events?format=json&after=0`);
  const { events } = (await response.json()) as { events: { type: string; data: { on?: string } }[] };
  const told = (requests[marker] ?? []).map(({ body: { messages } }) => messages.map(({ content }) => textOf(content)));
  return { status, told, types: events.map(({ type, data }) => `${type} ${data.on ?? ""}`.trim()) };
};

describe("a package manager that is not installed", () => {
  const isHere = findProgram("bun", process.env["PATH"] ?? "") !== undefined;

  test.skipIf(isHere)(
    "npm runs its scripts; what names it again is known not to run before the first request",
    async () => {
      const directory = project({ test: "grep -q . a.txt", build: "bun run build.ts" }, { "bun.lock": "" });
      const { status, told } = await run(directory, [write("a.txt")]);
      const system = told[0]?.[0] ?? "";
      expect(system).toContain("Built with bun, not installed here: npm runs its scripts.");
      expect(system).toContain("own commands: test = `npm test`. The service runs them on the whole result");
      expect(system).toContain(
        "build = `npm run build`: bun is not installed here. Prove by other commands what these would.",
      );
      expect(status?.checks.map(({ name, gates, state }) => [name, gates, state])).toEqual([
        ["npm test", true, "passed"],
        ["npm run build", false, "error"],
      ]);
      // It is known from the start, and not told again.
      expect(told.flat().join("\n")).not.toContain("on the project as it was");
    },
  );

  test("control: nothing of the kind where all are", async () => {
    const { told } = await run(project({ test: "grep -q . a.txt", build: "true" }), [write("a.txt")]);
    expect(told[0]?.[0]).toContain(
      "test = `npm test`, build = `npm run build`. The service runs them on the whole result",
    );
    expect(told[0]?.[0]).not.toContain("not installed");
  });
});

describe("a check that cannot say anything", () => {
  test("is told with the next result, once; the next Task knows from the start, until it ran", async () => {
    const directory = project({ test: "test -f fast || sleep 30", lint: "no-such-linter ." });
    const first = await run(directory, [write("a.txt"), shell("sleep 4"), shell("true"), shell("true")]);
    const news = first.told.map((texts) => texts.filter((text) => text.includes("on the project as it was")).length);
    expect(news).toEqual([0, 0, 1, 1, 1]);
    const told = first.told.at(-1)?.find((text) => text.includes("on the project as it was"));
    expect(told).toContain(
      "ran `npm test` on the project as it was: did not end within 2 s. It says nothing of your work",
    );
    expect(first.told[0]?.[0]).toContain("test = `npm test`, lint = `npm run lint`. The service runs them");

    const second = await run(directory, [write("fast"), shell("sleep 3")]);
    expect(second.told[0]?.[0]).toContain(
      "test = `npm test`: did not end within 2 s when it last ran here, before a change.",
    );
    expect(second.told[0]?.[0]).toContain("no-such-linter was not found when it last ran here");
    expect(second.told.flat().join("\n")).not.toContain("on the project as it was");

    await run(directory, [write("b.txt"), shell("sleep 3")]);
    const last = await run(directory, []);
    expect(last.told[0]?.[0]).toContain("own commands: test = `npm test`. The service runs them");
  });
});

describe("a check that does not end on the base", () => {
  test("is not run on the work, also where only another Task has seen it; the record says why", async () => {
    const directory = project({ test: "echo ran >> $LOG; sleep 30" });
    const durations = async (path: string, besides: MockTurn[], where: string) => {
      const { status, types } = await run(where, [write(path), ...besides]);
      // The command line says why nothing is verified, and the brief what was not run.
      const words = (text: string) => text;
      const colors = { bold: words, dim: words, green: words, red: words, yellow: words };
      const end = closing(status as TaskStatus, { colors } as Parameters<typeof closing>[1], "");
      expect(end).toContain("checks 0/1 (none had passed before the work)");
      expect(end).toContain("Not verified: npm test gave no result; before the work it did not finish.");
      expect(exitOf(status as TaskStatus)).toBe(0);
      expect(briefs.at(-1)).toContain("- check: npm test not run, because before the work it did not end within 2 s\n");
      return { check: status?.checks[0], types: types.filter((type) => type.startsWith("check")) };
    };
    // The base is known before the work is done, only asked for then, or at work for long.
    const others = project({ test: "echo 2; sleep 30" });
    for (const [path, besides, where] of [
      ["b.txt", [shell("sleep 4")], directory],
      ["c.txt", [], directory],
      ["b.txt", [shell("sleep 1.5")], others],
    ] as const) {
      const { check, types } = await durations(path, [...besides], where);
      expect(check).toMatchObject({ state: "error", durationMs: 0, gates: false, baseline: { state: "failed" } });
      expect(types.filter((type) => type === "check.finished base")).toHaveLength(1);
      expect(types.indexOf("check.finished base")).toBeLessThan(types.indexOf("check.started work"));
    }
  });

  test("control: one that ends there is run on the work, and waits for nothing", async () => {
    const { status } = await run(project({ test: "sleep 0.2" }), [write("b.txt")]);
    expect(status?.checks[0]).toMatchObject({ state: "passed", gates: true });
    expect(status?.checks[0]?.durationMs).toBeGreaterThan(150);
  });
});

describe("a check that is red on the base", () => {
  const red = { test: "grep -q . a.txt", lint: "echo 12 problems; exit 1" };
  const system = (told: string[][]) => told[0]?.[0] ?? "";
  const news = (told: string[][]) => told.flat().filter((text) => text.includes("on the project as it was"));

  test("is told beside the work, and to the next Task before its first request", async () => {
    const directory = project(red);
    const first = await run(directory, [write("b.txt"), shell("sleep 2"), shell("true")]);
    expect(system(first.told)).not.toContain("when it last ran");
    expect(new Set(news(first.told)).size).toBe(1);
    expect(news(first.told)[0]).toContain(
      "ran `npm run lint` on the project as it was: exit 1. It was red without you, and does not count against your work.",
    );
    const second = await run(directory, [write("c.txt"), shell("sleep 2")]);
    expect(system(second.told)).toContain("`npm run lint`: exit 1 when it last ran here, before a change.");
    expect(news(second.told).filter((text) => text.includes("lint"))).toEqual([]);
  });

  test("what is known of a tree is told to a Task that only reads, and nothing runs for it", async () => {
    const directory = project(red);
    await run(directory, [write("b.txt"), shell("sleep 2")]);
    const reading = await run(directory, [shell("cat a.txt"), shell("cat b.txt")]);
    expect(reading.types.filter((type) => type.startsWith("check"))).toEqual([]);
    expect(news(reading.told)[0]).toContain("ran `npm test` on the project as it was: it passed.");
    // The lint is known to be red from the first request on.
    expect(system(reading.told)).toContain("`npm run lint`: exit 1 when it last ran here");
  });

  test("control: nothing is told of a tree that nobody has run them on", async () => {
    const reading = await run(project(red), [shell("cat a.txt"), shell("true")]);
    expect(news(reading.told)).toEqual([]);
    expect(system(reading.told)).not.toContain("when it last ran");
  });
});

describe("the base is looked at", () => {
  const green = { test: "grep -q . a.txt" };

  test("once a file differs, and not for commands that only read", async () => {
    const reading = await run(project(green), [shell("ls; cat a.txt"), shell("grep -rn one .")]);
    expect(reading.types.filter((type) => type.startsWith("check"))).toEqual([]);

    const writing = await run(project(green), [shell("cat a.txt"), shell("echo two > b.txt"), shell("sleep 2")]);
    const begun = writing.types.indexOf("check.started base");
    const results = writing.types.flatMap((type, at) => (type === "tool.finished" ? [at] : []));
    expect(begun).toBeGreaterThan(results[1] ?? 0);
    // Beside the next call, not only for the end.
    expect(begun).toBeLessThan(results[2] ?? 0);
    expect(writing.status?.verified).toBe(true);
  });
});

describe("a proof by contrast", () => {
  test("has the time of one check for all of its runs together", async () => {
    const sum = (more: string) =>
      `import test from "node:test";\nimport assert from "node:assert";\nimport { add } from "./math.mjs";\n${more}`;
    const files = { "math.mjs": "export const add = (a, b) => a - b;\n", "math.test.mjs": sum("") };
    const change: MockTurn = {
      calls: Object.entries({
        "math.mjs": "export const add = (a, b) => a + b;\n",
        "math.test.mjs": sum(
          `test("sum", async () => {\n  await new Promise((done) => setTimeout(done, 1_050));\n  assert.equal(add(1, 2), 3);\n});\n`,
        ),
      }).map(([path, content]) => ({ tool: "write", input: { path, content } })),
    };
    const { status } = await run(project({}, files), [change]);
    const found = status?.goals[0]?.evidence.find(({ kind }) => kind === "contrast");
    expect(found?.contrast).toMatchObject({ result: "cannot-run", reason: "it took longer than 2 s" });
  });
});
