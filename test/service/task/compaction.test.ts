import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import type { Frame } from "../../../src/protocol/event/frame.ts";
import { startProcess } from "../../crash/process.ts";
import { makeProject, temporary } from "../../harness/project.ts";
import {
  type MockMessage,
  type MockProvider,
  type MockRequest,
  type MockTurn,
  startMockProvider,
  textOf,
} from "../../harness/double/mock-provider.ts";
import { startService } from "../../harness/service.ts";

/** Conversations longer than the model's window, with a model that counts what it is sent. */

/** Four times what handbook and tools take, so that these tests speak of conversations, not of that. */
let windowTokens = 0;
let provider: MockProvider;
let root: ReturnType<typeof temporary>;
let count = 0;
/** Of the first request of all. */
let firstTokens = 0;

/** How the model behaves, by the marker in the request. */
type Manner = { turns: number; summary: MockTurn; longest?: number };
const manners: Record<string, Manner> = {};
const requests: Record<string, MockMessage[][]> = {};

const isSummarising = (messages: readonly MockMessage[]) =>
  textOf(messages.at(-1)?.content).startsWith(
    "Note from the service, not from the user: this conversation is about to",
  );

/**
 * The next file to read is one after the newest that stands in the conversation: in a call, or in the summary. The
 * handbook, which names the files at the project's root, is left out.
 */
const nextFile = (messages: readonly MockMessage[]): number => {
  const named = [...JSON.stringify(messages.filter(({ role }) => role !== "system")).matchAll(/part-(\d+)\.txt/g)].map(
    ([, number]) => Number(number),
  );
  return Math.max(0, ...named) + 1;
};

const answer = ({ first, body }: MockRequest): MockTurn => {
  const marker = /\[(\w+)\]/.exec(first)?.[1] ?? "";
  const manner = manners[marker];
  if (manner === undefined) return { fail: { status: 400, message: "no such script" } };
  (requests[marker] ??= []).push(body.messages);
  const input = Math.ceil(JSON.stringify(body).length / 4);
  if (firstTokens === 0) firstTokens = input;
  if (input > (manner.longest ?? Number.POSITIVE_INFINITY))
    return { fail: { status: 400, message: `This model's maximum context length is ${manner.longest} tokens` } };
  const usage = { input, output: 20 };
  const next = nextFile(body.messages);
  if (isSummarising(body.messages))
    return {
      usage,
      ...manner.summary,
      ...(manner.summary.text === undefined ? {} : { text: `${manner.summary.text} Read up to part-${next - 1}.txt.` }),
    };
  if (next > manner.turns) return { text: "All read.", usage };
  if (next === 2 && !JSON.stringify(body.messages).includes("plan B"))
    return { calls: [{ tool: "note", input: { text: "plan B: read every part" } }], usage };
  return { calls: [{ tool: "read", input: { path: `part-${next}.txt` } }], usage };
};

beforeAll(async () => {
  root = temporary("sortie-compact-");
  provider = await startMockProvider(answer);
  const config = (models: unknown[]) =>
    writeFileSync(
      join(root.path, "config.jsonc"),
      JSON.stringify({
        providers: { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none", models } },
      }),
    );
  config(["small"]);
  {
    await using service = await startService(join(root.path, "data-0"), {
      SERVICE_CONFIG: join(root.path, "config.jsonc"),
    });
    await settled(await start(service.url, { turns: 0, summary: {} }));
  }
  windowTokens = 4 * firstTokens;
  config([{ id: "small", contextWindow: windowTokens }, "large"]);
}, 30_000);
afterAll(async () => {
  await provider.close();
  root[Symbol.dispose]();
});

/** Each is a sixteenth of the window. */
const parts = () => {
  const lines = `${"word ".repeat(100)}\n`.repeat(Math.round(windowTokens / 4 / 500));
  return Object.fromEntries(
    Array.from({ length: 40 }, (_, index) => [`part-${index + 1}.txt`, `part ${index + 1}: ${lines}`]),
  );
};
const directoryOf = (marker: string) => makeProject(join(root.path, marker), parts());

const start = async (url: string, manner: Manner, model = "mock/small") => {
  const marker = `c${(count += 1)}`;
  manners[marker] = manner;
  const client = createServiceClient({ baseUrl: url, directory: directoryOf(marker) });
  const request = `Read every part [${marker}]`;
  const { data, error } = await client.task.create({ body: { request, productPillar: "work", model } });
  if (data === undefined) throw new Error(JSON.stringify(error));
  return { taskID: data.taskID, marker, request, client };
};
const settled = async ({ client, taskID }: Awaited<ReturnType<typeof start>>) =>
  (await client.task.wait({ path: { taskID }, timeoutMs: 15_000 })).data;
const eventsOf = async (url: string, taskID: string): Promise<Frame[]> =>
  ((await (await fetch(`${url}/task/${taskID}/events?format=json&after=0&limit=1000`)).json()) as { events: Frame[] })
    .events;
const summariesIn = (events: Frame[]) =>
  events.flatMap((event) => (event.type === "conversation.compacted" ? [event.data] : []));

describe("with a service", () => {
  test("older turns become a summary by the same model; request and note stay word for word", async () => {
    await using service = await startService(join(root.path, "data-1"), {
      SERVICE_CONFIG: join(root.path, "config.jsonc"),
    });
    const task = await start(service.url, {
      turns: 30,
      summary: { text: "The parts so far were read and understood." },
    });
    const status = await settled(task);
    expect(status).toMatchObject({ lifecycleStatus: "completed" });

    const events = await eventsOf(service.url, task.taskID);
    const summaries = summariesIn(events);
    expect(summaries.length).toBeGreaterThan(2);
    for (const { by, before, after, note } of summaries) {
      expect({ by, note }).toEqual({ by: "mock/small", note: "plan B: read every part" });
      expect(before).toBeGreaterThan(windowTokens * 0.8);
      expect(after).toBeLessThan(windowTokens * 0.6);
    }
    // Counted like every other call, and told to people.
    expect(status?.usage.modelCalls).toBe(requests[task.marker]?.length);
    const { data: board } = await task.client.task.board({ path: { taskID: task.taskID } });
    expect(board?.timeline.find(({ type }) => type === "conversation.compacted")?.summary).toContain("mock/small");

    const asked = (requests[task.marker] ?? []).filter((messages) => !isSummarising(messages));
    for (const messages of asked) expect(JSON.stringify(messages).length / 4).toBeLessThan(windowTokens);
    const after = asked.filter((messages) => textOf(messages[2]?.content).includes("# Summary"));
    expect(after.length).toBeGreaterThan(10);
    for (const messages of after) {
      expect(textOf(messages[1]?.content)).toBe(task.request);
      const summary = textOf(messages[2]?.content);
      expect(summary).toContain("The parts so far were read and understood. Read up to part-");
      expect(summary).toContain("# Your note\n\nplan B: read every part");
    }
    // Between two summaries each request is the one before and more: a provider's cache keeps it.
    const grown = asked.slice(1).filter((messages, index) => {
      const before = asked[index] ?? [];
      return JSON.stringify(messages.slice(0, before.length)) === JSON.stringify(before);
    });
    expect(grown.length).toBe(asked.length - 1 - summaries.length);

    // The log and the messages keep everything.
    const { data: page } = await task.client.task.messages({ path: { taskID: task.taskID } });
    const read = page?.messages.flatMap(({ calls }) => calls).filter(({ tool }) => tool === "read") ?? [];
    expect(read.map(({ input }) => (input as { path: string }).path)).toEqual(
      Array.from({ length: 30 }, (_, index) => `part-${index + 1}.txt`),
    );
    expect(read.every(({ output }) => output?.includes("word word"))).toBe(true);
  });

  test("a model that cannot summarise, and one whose window is smaller than we think", async () => {
    await using service = await startService(join(root.path, "data-2"), {
      SERVICE_CONFIG: join(root.path, "config.jsonc"),
    });
    const dumb = await start(service.url, { turns: 25, summary: { fail: { status: 400, message: "no" } } });
    const calling = await start(service.url, {
      turns: 25,
      summary: { calls: [{ tool: "read", input: { path: "part-1.txt" } }] },
    });
    const tight = await start(
      service.url,
      {
        turns: 25,
        summary: { text: "The parts so far were read and understood." },
        longest: Math.floor(windowTokens * 0.75),
      },
      "mock/large",
    );
    const hopeless = await start(service.url, { turns: 25, summary: {}, longest: 500 });
    const [a, b, c, d] = await Promise.all([dumb, calling, tight, hopeless].map(settled));
    expect([a, b, c].map((status) => status?.lifecycleStatus)).toEqual(["completed", "completed", "completed"]);
    expect(d).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "context_too_long" } });
    for (const task of [dumb, calling]) {
      const summaries = summariesIn(await eventsOf(service.url, task.taskID));
      expect(new Set(summaries.map(({ by }) => by))).toEqual(new Set(["service"]));
      expect(summaries[0]?.summary).toContain('called read {"path":"part-1.txt"}');
    }
    const forced = summariesIn(await eventsOf(service.url, tight.taskID));
    expect(forced.length).toBeGreaterThan(1);
    expect(forced.every(({ by }) => by === "mock/large")).toBe(true);
  });
});

test("killed around a summary, the model is asked exactly what it would have been", { timeout: 60_000 }, async () => {
  const env = (folder: string) => ({
    SERVICE_DATA_DIR: join(root.path, folder),
    SERVICE_CONFIG: join(root.path, "config.jsonc"),
    HOME: root.path,
  });
  const manner: Manner = { turns: 16, summary: { text: "The parts so far were read and understood." } };
  /** Without the ids that differ from run to run. */
  const plain = (marker: string) =>
    (requests[marker] ?? []).map((messages) =>
      JSON.stringify(messages)
        .replaceAll(new RegExp(`\\b${marker}\\b`, "g"), "m")
        .replaceAll(/call_[0-9a-z]+/g, "call"),
    );
  const whole = await (async () => {
    await using service = await startProcess(env("whole"));
    const task = await start(service.url, manner);
    await settled(task);
    return { events: await eventsOf(service.url, task.taskID), asked: plain(task.marker) };
  })();
  const at = whole.events.findIndex(({ type }) => type === "conversation.compacted") + 1;
  expect(at).toBeGreaterThan(10);
  // Right after the summary is recorded, and in the turn after it.
  await Promise.all(
    [at, at + 2].map(async (version) => {
      const folder = `killed-${version}`;
      let task: Awaited<ReturnType<typeof start>>;
      {
        await using service = await startProcess({ ...env(folder), TEST_KILL_AT: String(version) });
        task = await start(service.url, manner);
        await service.gone;
      }
      await using again = await startProcess(env(folder));
      const client = createServiceClient({ baseUrl: again.url });
      expect(await settled({ ...task, client })).toMatchObject({ lifecycleStatus: "completed" });
      expect([version, [...new Set(plain(task.marker))]]).toEqual([version, whole.asked]);
    }),
  );
});
