import { execFileSync } from "node:child_process";
import { homedir } from "node:os";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { LLMock } from "@copilotkit/aimock";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import type { TaskStatus } from "../../../src/protocol/task/status.ts";
import { javascript } from "../../fixtures/trade/javascript.ts";
import { edit, type Job, read, shell, type Turn, write } from "../../fixtures/trade/job.ts";
import { other } from "../../fixtures/trade/other.ts";
import { git, makeProject, readText, temporary } from "../../harness/project.ts";
import { acceptReviews } from "../../harness/double/reviews.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { sampleByDay } from "../../harness/night.ts";

/**
 * Twenty small real Tasks in several languages, each from the pattern of a well-known kind of defect, scripted as an
 * able model would go about it, over the wire formats of six providers: red before, green after, landed. Then some that
 * have to fail, and say why.
 */

const wires = [
  { id: "anthropic", provider: { kind: "anthropic" }, path: "/v1", model: "claude-sonnet-4-5" },
  { id: "openai", provider: { kind: "openai" }, path: "/v1", model: "gpt-5.4" },
  { id: "chat", provider: { kind: "openai", api: "chat" }, path: "/v1", model: "gpt-4.1" },
  { id: "acme", provider: { kind: "openai-compatible" }, path: "/v1", model: "large" },
  { id: "openrouter", provider: { kind: "openrouter" }, path: "/api/v1", model: "x/large" },
  { id: "google", provider: { kind: "google" }, path: "/v1beta", model: "gemini-2.5-pro" },
] as const;

const jobs = [...javascript, ...other];
let mock: LLMock;
let root: ReturnType<typeof temporary>;
let service: TestService;
let count = 0;

beforeAll(async () => {
  root = temporary("sortie-trade-");
  mock = new LLMock({ port: 0, host: "127.0.0.1", logLevel: "silent" });
  acceptReviews(mock);
  await mock.start();
  const config = join(root.path, "config.jsonc");
  const providers = Object.fromEntries(
    wires.map(({ id, provider, path }) => [id, { ...provider, baseURL: `${mock.url}${path}`, apiKey: "env:THE_KEY" }]),
  );
  writeFileSync(config, JSON.stringify({ providers }));
  service = await startService(join(root.path, "data"), {
    SERVICE_CONFIG: config,
    THE_KEY: "sk-of-this-test-only",
    HOME: homedir(),
  });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await mock.stop();
  root[Symbol.dispose]();
});

/** A turn is due when the request holds as many assistant messages as there were turns before it. */
const script = (marker: string, turns: readonly Turn[]): void => {
  for (const [index, { text = "", calls = [] }] of turns.entries())
    mock.on(
      {
        predicate: ({ messages }) =>
          messages.some(({ role, content }) => role === "user" && JSON.stringify(content).includes(marker)) &&
          // One format sends the words and the calls of a reply apart.
          messages.filter(({ role }, at) => role === "assistant" && messages[at - 1]?.role !== "assistant").length ===
            index,
      },
      calls.length === 0
        ? // As agents are told to end; who does not is asked once more.
          { content: `${text}\n\nCommit: Do the job` }
        : { content: text, toolCalls: calls.map(([name, input]) => ({ name, arguments: JSON.stringify(input) })) },
    );
};

/** Found as a Task's commands find it, whose launchers are told where their toolchains stand. */
const has = (program: string): boolean => {
  try {
    execFileSync(program, ["--version"], { stdio: "ignore", env: { PATH: process.env["PATH"], HOME: homedir() } });
    return true;
  } catch {
    return false;
  }
};

type Ended = { status: TaskStatus; directory: string; taskID: string };

const run = async (job: Pick<Job, "files" | "request" | "turns"> & Partial<Job>, more: object = {}): Promise<Ended> => {
  const number = (count += 1);
  const directory = makeProject(join(root.path, `job-${number}`), job.files);
  const marker = `(job ${number})`;
  script(marker, job.turns);
  const wire = wires[number % wires.length] ?? wires[0];
  const client = createServiceClient({ baseUrl: service.url, directory });
  const created = await client.task.create({
    body: {
      request: `${job.request}\n\n${marker}`,
      productPillar: job.pillar ?? "code",
      model: `${wire.id}/${wire.model}`,
      checks: (job.checks ?? []).map((command) => ({ kind: "command" as const, run: command, baseline: true })),
      ...more,
    },
  });
  if (created.data === undefined) throw new Error(JSON.stringify(created.error));
  const { taskID } = created.data;
  const { data: status, error } = await client.task.wait({ path: { taskID }, timeoutMs: 30_000 });
  if (status === undefined) throw new Error(JSON.stringify(error));
  return { status, directory, taskID };
};

/** By day every other one; all of them at night. */
const chosen = sampleByDay("real work", jobs, Math.ceil(jobs.length / 3));

describe("small tasks", () => {
  expect(jobs).toHaveLength(20);
  for (const job of chosen) {
    const missing = (job.needs ?? []).filter((program) => !has(program));
    if (missing.length > 0) process.stderr.write(`!!! SKIPPED: "${job.name}" needs ${missing.join(", ")}\n`);
    test.skipIf(missing.length > 0)(`${job.language}: ${job.name}`, { timeout: 40_000 }, async () => {
      const { status, directory, taskID } = await run(job);
      expect(status.error).toBeUndefined();
      expect(status).toMatchObject({
        lifecycleStatus: "completed",
        // One for the review.
        usage: { modelCalls: job.turns.length + 1 },
        checks: job.checks.map(() => ({ state: "passed", stale: false })),
      });
      const events = await fetch(`${service.url}/task/${taskID}/events?format=json&after=0`);
      const log = (await events.json()) as { events: { type: string; data: { on?: string; state?: string } }[] };
      const before = log.events.filter(({ type, data }) => type === "check.finished" && data.on === "base");
      expect(before.some(({ data }) => data.state !== "passed")).toBe(true);
      expect(git(directory, "show", "--format=", "--name-only", "HEAD").split("\n").toSorted()).toEqual(job.landed);
      expect(git(directory, "status", "--porcelain")).toBe("");
      expect(git(directory, "fsck", "--no-progress")).not.toMatch(/error|missing|corrupt/);
    });
  }
});

describe("what has to fail, and says so", () => {
  const files = { "package.json": "{}\n", "a.js": "export const answer = 41;\n" };
  const check = "node -e 'import(\"./a.js\").then((m) => process.exit(m.answer === 42 ? 0 : 1))'";
  const untouched = (directory: string) => {
    expect(git(directory, "rev-list", "--count", "HEAD")).toBe("1");
    expect(git(directory, "status", "--porcelain")).toBe("");
  };

  test("a model that only says it is done", { timeout: 40_000 }, async () => {
    const turns = Array.from({ length: 4 }, () => ({ text: "Done, all checks pass." }));
    const { status, directory } = await run({ files, request: "answer must be 42", checks: [check], turns });
    expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "checks_failed" } });
    expect(status.error).toContain("exit 1");
    untouched(directory);
  });

  test("work that is wrong in every round is kept on its branch and lands nowhere", { timeout: 40_000 }, async () => {
    const turns: Turn[] = [40, 43, 44, 45].flatMap((answer) => [
      { calls: [write("a.js", `export const answer = ${answer};\n`)] },
      { text: `It is ${answer} now.` },
    ]);
    const { status, directory, taskID } = await run({ files, request: "answer must be 42", checks: [check], turns });
    expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "checks_failed" } });
    expect(status.checks[0]).toMatchObject({ state: "failed", round: 3 });
    expect(git(directory, "show", `sortie/${taskID}:a.js`)).toContain("45");
    untouched(directory);
  });

  test("a check that the machine cannot run is not passed", { timeout: 40_000 }, async () => {
    const turns = Array.from({ length: 4 }, () => ({ text: "The compiler is not on this machine." }));
    const { status, directory } = await run({ files, request: "x", checks: ["no-such-compiler a.js"], turns });
    expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "checks_failed" } });
    expect(status.error).toContain("exit 127");
    untouched(directory);
  });

  test("a budget that is used up keeps everything and lands nothing", { timeout: 40_000 }, async () => {
    const turns: Turn[] = [
      { calls: [edit("a.js", ["41", "42"])] },
      { calls: [read("a.js")] },
      { calls: [shell("true")] },
    ];
    const { status, directory } = await run({ files, request: "x", turns }, { budget: { maxSteps: 2 } });
    expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "budget_reached" } });
    expect(status.usage.modelCalls).toBe(2);
    untouched(directory);
  });

  test("a model that turns in circles is stopped", { timeout: 40_000 }, async () => {
    const turns: Turn[] = Array.from({ length: 60 }, () => ({ calls: [read("a.js")] }));
    const { status, directory } = await run({ files, request: "x", turns });
    expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "loop_detected" } });
    untouched(directory);
    expect(readText(directory, "a.js")).toBe(files["a.js"]);
  });
});
