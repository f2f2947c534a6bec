import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import { type MockProvider, type MockTurn, startMockProvider, textOf } from "../../harness/double/mock-provider.ts";
import { teamOf, writePackage } from "../../harness/double/squads.ts";
import { makeProject, temporary } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** A message to a Task while agents that were delegated to are at work: who reads it, when, and in which words. */

let provider: MockProvider;
let service: TestService;
let root: ReturnType<typeof temporary>;
/** Opens when the worker of this Task may give its first answer. */
const gates = new Map<string, PromiseWithResolvers<void>>();
const asked = new Map<string, () => void>();
let count = 0;

beforeAll(async () => {
  root = temporary("sortie-steering-");
  provider = await startMockProvider(async ({ first, turn }): Promise<MockTurn> => {
    const marker = /\[(\w+)\]/.exec(first)?.[1] ?? "";
    if (first.startsWith("You do")) {
      if (turn > 0) return { text: "Looked." };
      asked.get(marker)?.();
      await gates.get(marker)?.promise;
      return { calls: [{ tool: "read", input: { path: "a.txt" } }] };
    }
    return turn === 0
      ? { calls: [{ tool: "delegate", input: { agent: "scout", brief: `You do [${marker}]` } }] }
      : { text: "All done." };
  });
  const config = join(root.path, "config.jsonc");
  const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" };
  writeFileSync(config, JSON.stringify({ providers: { mock } }));
  writePackage(
    join(root.path, "data/squads"),
    teamOf("pair", { orchestrator: ["read, delegate", "delegates: [scout]\n"], scout: ["read"] }),
  );
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
});
afterAll(async () => {
  for (const gate of gates.values()) gate.resolve();
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

const played = async (onBusy: "auto" | "queue") => {
  const marker = `s${(count += 1)}`;
  const gate = Promise.withResolvers<void>();
  const began = Promise.withResolvers<void>();
  gates.set(marker, gate);
  asked.set(marker, began.resolve);
  const directory = makeProject(join(root.path, marker), { "a.txt": "a\n" });
  const client = createServiceClient({ baseUrl: service.url, directory });
  const { data: made } = await client.task.create({
    body: {
      request: `look [${marker}]`,
      productPillar: "code",
      promptProfile: "pair",
      model: "mock/large",
      checks: [],
    },
  });
  const path = { taskID: made?.taskID ?? "" };
  await began.promise;
  const { data: accepted } = await client.task.message({
    path,
    body: { source: "test", text: "Mind the gap.", onBusy },
  });
  gate.resolve();
  const { data: status } = await client.task.wait({ path, timeoutMs: 15_000 });
  expect(status, status?.error).toMatchObject({ lifecycleStatus: "completed" });
  const after = await client.task.message({ path, body: { source: "test", text: "And once more." } });
  await client.task.wait({ path, timeoutMs: 15_000 });
  const told = (agent: "worker" | "lead") =>
    provider.requests
      .filter(({ first }) => first.includes(`[${marker}]`) && first.startsWith("You do") === (agent === "worker"))
      .map(({ body }) =>
        body.messages.flatMap(({ role, content }) => (role === "user" ? [textOf(content)] : [])).slice(1),
      );
  const readers = (given: typeof accepted) => given?.readers.map(({ agent, when }) => `${agent} ${when}`);
  const { data: messages } = await client.task.messages({ path });
  return {
    readers: readers(accepted),
    afterwards: readers(after.data),
    worker: told("worker"),
    lead: told("lead").slice(0, 2),
    listed: messages?.messages.filter(({ text }) => text === "Mind the gap.").length,
  };
};

test("an agent at work reads it in its next turn, the one that waits for it afterwards; the answer says so", async () => {
  const said =
    "The user says to everybody who works on this Task; where it differs from your brief, it counts:\n\nMind the gap.";
  expect(await played("auto")).toEqual({
    readers: ["orchestrator after_delegates", "scout next_turn"],
    afterwards: ["orchestrator next_turn"],
    worker: [[], [said]],
    lead: [[], ["Mind the gap."]],
    listed: 1,
  });
});

test("control: one that is to wait is read by nobody but the lead, when it has finished", async () => {
  expect(await played("queue")).toMatchObject({
    readers: ["orchestrator when_done"],
    worker: [[], []],
    lead: [[], []],
    listed: 1,
  });
});
