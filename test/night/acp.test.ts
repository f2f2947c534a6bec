import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createServiceClient } from "../../src/client/client.ts";
import type { Frame } from "../../src/protocol/event/frame.ts";
import { processesOf } from "../crash/process.ts";
import { git, makeProject, readText, temporary, until } from "../harness/project.ts";
import { type MockProvider, startMockProvider } from "../harness/double/mock-provider.ts";
import { startService, type TestService } from "../harness/service.ts";

/** A whole Task of a real agent from npm (Qwen Code) over ACP, against the mock model. */

let root: ReturnType<typeof temporary>;
let provider: MockProvider;
let service: TestService;
let tree = "";

beforeAll(async () => {
  root = temporary("sortie-qwen-");
  const agents = join(root.path, "agents");
  execFileSync(
    "npm",
    ["install", "--no-audit", "--no-fund", "--omit=optional", "--prefix", agents, "@qwen-code/qwen-code@0.24.4"],
    {
      stdio: "ignore",
      timeout: 110_000,
    },
  );
  provider = await startMockProvider(({ turn }) => {
    if (turn === 0)
      return {
        text: "I write it.",
        calls: [{ tool: "write_file", input: { file_path: join(tree, "hello.txt"), content: "hello\n" } }],
      };
    if (turn === 1)
      return {
        calls: [
          { tool: "run_shell_command", input: { command: "cat hello.txt", description: "look", is_background: false } },
        ],
      };
    return { text: "hello.txt says hello." };
  });
  const config = join(root.path, "config.jsonc");
  const command = `exec ${process.execPath} ${agents}/node_modules/@qwen-code/qwen-code/cli.js --acp --auth-type openai --openai-base-url ${provider.baseURL} --openai-api-key none -m mock-1`;
  writeFileSync(config, JSON.stringify({ agents: { qwen: { command } }, sandbox: { paths: [agents] } }));
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
}, 120_000);
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

test("it writes, runs, answers; its work is checked and lands; nothing of it is left", async () => {
  const directory = makeProject(join(root.path, "project"), { "a.txt": "one\n" });
  const client = createServiceClient({ baseUrl: service.url, directory });
  tree = directory;
  const { data, error } = await client.task.create({
    body: {
      request: "Write hello.txt",
      productPillar: "code",
      promptProfile: "acp-qwen",
      checks: ["grep hello hello.txt"],
    },
  });
  if (data === undefined) throw new Error(JSON.stringify(error));
  const status = (await client.task.wait({ path: { taskID: data.taskID }, timeoutMs: 60_000 })).data;
  expect(status, status?.error).toMatchObject({ lifecycleStatus: "completed", checks: [{ state: "passed" }] });
  expect(readText(directory, "hello.txt")).toBe("hello\n");
  expect(git(directory, "show", "--format=", "--name-only", "HEAD")).toBe("hello.txt");
  const response = await fetch(`${service.url}/task/${data.taskID}/events?format=json&after=0`);
  const { events } = (await response.json()) as { events: Frame[] };
  expect(events.find(({ type }) => type === "agent.attached")).toMatchObject({
    data: { about: expect.stringContaining("qwen-code") },
  });
  const calls = events.filter((event) => event.type === "tool.finished");
  expect(calls.map(({ data: call }) => [call.tool, call.outcome])).toEqual([
    ["edit", "ok"],
    ["execute", "ok"],
  ]);
  // Its sandbox closes behind the end of the run.
  await until(
    () => Promise.resolve(processesOf(service.dataDir)),
    (left) => left.length === 0,
  );
});
