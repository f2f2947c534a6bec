import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import { costOf } from "../../../src/model/provider/cost.ts";
import type { Frame } from "../../../src/protocol/event/frame.ts";
import type { TaskStatus } from "../../../src/protocol/task/status.ts";
import { makeProject, readText, temporary } from "../../harness/project.ts";
import {
  type MockProvider,
  type MockRequest,
  type MockTurn,
  startMockProvider,
  textOf,
} from "../../harness/double/mock-provider.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** What bounds a Task, over HTTP with a scripted model: each cap, and the brake on circles. */

type Client = ReturnType<typeof createServiceClient>;
type Create = NonNullable<Parameters<Client["task"]["create"]>[0]>["body"];
type Budget = NonNullable<Create["budget"]>;

const scripts: Record<string, MockTurn[]> = {};
const requests: Record<string, MockRequest[]> = {};
let provider: MockProvider;
let service: TestService;
let root: ReturnType<typeof temporary>;
let count = 0;

beforeAll(async () => {
  root = temporary("sortie-budget-");
  provider = await startMockProvider((request) => {
    const marker = /\[(\w+)\]/.exec(request.first)?.[1] ?? "";
    (requests[marker] ??= []).push(request);
    const turns = scripts[marker] ?? [];
    return turns[Math.min(request.turn, turns.length - 1)] ?? { text: "Nothing to say." };
  });
  const config = join(root.path, "config.jsonc");
  const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" };
  // The price table knows the second by its name.
  writeFileSync(config, JSON.stringify({ providers: { mock, deepseek: mock }, limits: { loopRepeats: 8 } }));
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

const start = async (turns: MockTurn[], body: { budget?: Budget; model?: string } = {}) => {
  const marker = `b${(count += 1)}`;
  scripts[marker] = turns;
  const directory = makeProject(join(root.path, marker), { "a.txt": "one\n" });
  const client = createServiceClient({ baseUrl: service.url, directory });
  const { data, error } = await client.task.create({
    body: { request: `do it [${marker}]`, productPillar: "code", model: "mock/large", ...body },
  });
  if (data === undefined) throw new Error(JSON.stringify(error));
  const { taskID } = data;
  return {
    directory,
    marker,
    async settled(): Promise<TaskStatus> {
      const { data: status } = await client.task.wait({ path: { taskID }, timeoutMs: 15_000 });
      if (status === undefined) throw new Error("no status");
      return status;
    },
    async raise(budget: Budget): Promise<void> {
      await client.task.update({ path: { taskID }, body: { budget } });
      await client.task.message({ path: { taskID }, body: { source: "test", text: "go on" } });
    },
    async events(): Promise<Frame[]> {
      const response = await fetch(`${service.url}/task/${taskID}/events?format=json&after=0&limit=1000`);
      return ((await response.json()) as { events: Frame[] }).events;
    },
    timeline: async () => (await client.task.board({ path: { taskID } })).data?.timeline ?? [],
  };
};

const shell = (command: string, more: Partial<MockTurn> = {}): MockTurn => ({
  calls: [{ tool: "shell", input: { command } }],
  ...more,
});
const steps = (usage: { input: number; output: number }): MockTurn[] => [
  ...["1", "2", "3", "4", "5", "6"].map((step) => shell(`echo ${step} >> marks.txt`, { usage })),
  { text: "Done.", usage },
];
const warned = (events: Frame[]) => events.flatMap((event) => (event.type === "budget.warned" ? [event.data] : []));

describe.concurrent("each cap: warned at 80 %, ended at the limit, continued where it stopped", () => {
  const each = { input: 900, output: 100 };
  const caps: [name: keyof Budget, model: string, perStep: () => Promise<number>][] = [
    ["maxSteps", "mock/large", () => Promise.resolve(1)],
    ["maxTokens", "mock/large", () => Promise.resolve(1000)],
    [
      "maxCostUSD",
      "deepseek/deepseek-chat",
      async () => {
        const tokens = { inputTokens: 900, outputTokens: 100, cacheReadTokens: 0, cacheWriteTokens: 0 };
        return (await costOf(tokens, "deepseek", "deepseek-chat")) ?? 0;
      },
    ],
  ];
  test.each(caps)("%s", async (name, model, perStep) => {
    const per = await perStep();
    expect(per).toBeGreaterThan(0);
    const task = await start(steps(each), { model, budget: { [name]: per * 5 } });
    const failed = await task.settled();
    expect(failed).toMatchObject({
      lifecycleStatus: "failed",
      errorInfo: { code: "budget_reached", retryable: false },
      usage: { modelCalls: 5, toolCalls: 5 },
      budgetWarnings: [{ name, cap: per * 5 }],
    });
    expect(failed.error).toContain(name);
    const used = expect.closeTo(per * 4, 6) as number;
    expect(warned(await task.events())).toEqual([{ name, used, cap: per * 5 }]);
    expect((await task.timeline()).find(({ type }) => type === "budget.warned")?.summary).toContain(name);

    // The model reads it in the next request, at its end, and never again anew.
    const asked = requests[task.marker] ?? [];
    const notes = asked.map(({ body }) => body.messages.filter((said) => textOf(said.content).startsWith("Note from")));
    expect(notes.map((list) => list.length)).toEqual([0, 0, 0, 0, 1]);
    expect(asked[4]?.body.messages.at(-1)).toEqual(notes[4]?.[0]);

    // One of them for the review.
    await task.raise({ [name]: per * 8 });
    const done = await task.settled();
    expect(done).toMatchObject({ lifecycleStatus: "completed", attempt: 2, usage: { modelCalls: 8, toolCalls: 7 } });
    // Everything that was said stands, and nothing was done twice.
    expect(asked[5]?.body.messages.slice(0, asked[4]?.body.messages.length)).toEqual(asked[4]?.body.messages);
    expect(textOf(asked[5]?.body.messages.at(-1)?.content)).toMatch(/Budget of the Task[^]*\n\ngo on$/);
    expect(readText(task.directory, "marks.txt")).toBe("1\n2\n3\n4\n5\n6\n");
    // Seven steps are more than 80 % of eight: once more, for the raised cap; none for the one before.
    expect(warned(await task.events()).map(({ cap }) => cap / per)).toEqual([5, 8]);
  });

  test("without a budget nothing is warned of and nothing stops", async () => {
    const task = await start(steps(each));
    expect(await task.settled()).toMatchObject({ lifecycleStatus: "completed", budgetWarnings: [] });
    expect(warned(await task.events())).toEqual([]);
  });
});

describe.concurrent("maxMinutes cuts what is under way", () => {
  const minutes = 0.05;
  const checkCut = async (task: Awaited<ReturnType<typeof start>>) => {
    const began = performance.now();
    const failed = await task.settled();
    expect(performance.now() - began).toBeLessThan(15_000);
    expect(failed).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "budget_reached" } });
    expect(failed.error).toContain("maxMinutes");
    const events = await task.events();
    const [warning, ...more] = warned(events);
    expect(more).toEqual([]);
    expect(warning).toMatchObject({ name: "maxMinutes", cap: minutes });
    expect(warning?.used).toBeGreaterThanOrEqual(minutes * 0.8 - 1e-6);
    return events;
  };

  test("a long command: ended, told as interrupted, not repeated", async () => {
    const task = await start(
      [shell("echo 1 >> marks.txt; sleep 60; echo late >> marks.txt"), shell("echo 2 >> marks.txt"), { text: "Done." }],
      { budget: { maxMinutes: minutes } },
    );
    const events = await checkCut(task);
    const ends = events.flatMap((event) => (event.type === "tool.finished" ? [event.data] : []));
    expect(ends).toMatchObject([{ outcome: "interrupted", output: expect.stringContaining("maxMinutes") }]);
    await task.raise({ maxMinutes: 1 });
    expect(await task.settled()).toMatchObject({ lifecycleStatus: "completed" });
    expect(readText(task.directory, "marks.txt")).toBe("1\n2\n");
  });

  test("a silent model, and one that is waited for", async () => {
    const budget = { maxMinutes: minutes };
    const silent = await start([{ text: "Hm", fault: "silent" }], { budget });
    // A model of its own: others would wait with it.
    const limited = { fail: { status: 429, headers: { "retry-after": "60" } } };
    const busy = await start([limited], { budget, model: "mock/limited" });
    await Promise.all([checkCut(silent), checkCut(busy)]);
    scripts[silent.marker] = [{ text: "Said." }];
    await silent.raise({ maxMinutes: 1 });
    expect(await silent.settled()).toMatchObject({ lifecycleStatus: "completed", usage: { modelCalls: 1 } });
  });

  test("a budget raised in time lets it go on", async () => {
    const task = await start([shell("sleep 4; echo 1 >> marks.txt"), { text: "Done." }], {
      budget: { maxMinutes: minutes },
    });
    await task.raise({ maxMinutes: 1 });
    expect(await task.settled()).toMatchObject({ lifecycleStatus: "completed", budgetWarnings: [] });
    expect(readText(task.directory, "marks.txt")).toBe("1\n");
  });
});

describe("circles", () => {
  const again = (turns: MockTurn[], times: number): MockTurn[] => Array.from({ length: times }, () => turns).flat();
  const told = (marker: string) =>
    (requests[marker] ?? []).at(-1)?.body.messages.filter(({ content }) => textOf(content).includes("[The same ")) ??
    [];

  test("the same call with the same result: told at three, ended at the limit, a message goes on", async () => {
    const task = await start(again([shell("false")], 12));
    const failed = await task.settled();
    expect(failed).toMatchObject({ errorInfo: { code: "loop_detected" }, usage: { toolCalls: 8 } });
    expect(failed.error).toContain("8 times");
    expect(textOf(told(task.marker)[0]?.content)).toContain("[The same call gave the same result 3 times in a row.");
    expect(told(task.marker)).toHaveLength(5);
    scripts[task.marker] = [{ text: "Stopped." }];
    await task.raise({});
    expect(await task.settled()).toMatchObject({ lifecycleStatus: "completed" });
  });

  test("two turns in turn are a circle; a result that changes is none", async () => {
    const task = await start(again([shell("echo a"), shell("echo b")], 12));
    const failed = await task.settled();
    expect(failed).toMatchObject({ errorInfo: { code: "loop_detected" }, usage: { toolCalls: 16 } });
    expect(failed.error).toContain("the same 2 turns with the same results 8 times");
    expect(textOf(told(task.marker)[0]?.content)).toContain(
      "[The same 2 turns gave the same results 3 times in a row.",
    );

    const counting = await start([...again([shell("echo x >> n; wc -l < n")], 12), { text: "Counted." }]);
    expect(await counting.settled()).toMatchObject({ lifecycleStatus: "completed", usage: { toolCalls: 13 } });
    expect(told(counting.marker)).toEqual([]);
  });
});
