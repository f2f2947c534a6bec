import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import { type MockProvider, type MockTurn, startMockProvider, textOf } from "../../harness/double/mock-provider.ts";
import { teamOf, writePackage } from "../../harness/double/squads.ts";
import { makeProject, temporary } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** What the agent that gave work away is told of it by the service, beside the words. */

let provider: MockProvider;
let service: TestService;
let root: ReturnType<typeof temporary>;

beforeAll(async () => {
  root = temporary("sortie-delegated-");
  const shell = (command: string) => ({ tool: "shell", input: { command } });
  provider = await startMockProvider(({ first, turn }): MockTurn => {
    const write = (path: string) => ({ tool: "write", input: { path, content: `${path}\n` } });
    const give = (agent: string, brief: string) => ({ tool: "delegate", input: { agent, brief } });
    if (first.startsWith("You polish")) return turn === 0 ? { calls: [write("polished.txt")] } : { text: "Polished." };
    if (first.startsWith("You lead")) {
      const two = [give("polisher", "You polish it."), give("polisher", "You build it.")];
      const calls = first.includes("twice") ? two : two.slice(0, 1);
      return turn === 0 ? { calls: [write("led.txt")] } : turn === 1 ? { calls } : { text: "Led." };
    }
    if (first.startsWith("Lead"))
      return turn === 0 ? { calls: [give("leader", `You l${first.slice(1)}`)] } : { text: "Done." };
    if (first.startsWith("You build")) {
      const calls = [
        shell("printf 'x\\ny\\n' > made.txt; rm b.txt"),
        { tool: "write", input: { path: "own.txt", content: "own\n" } },
      ];
      return turn === 0 ? { calls } : turn === 1 ? { calls: [shell("exit 3")] } : { text: "Built." };
    }
    if (turn === 0) return { calls: [{ tool: "write", input: { path: "lead.txt", content: "lead\n" } }] };
    return turn === 1
      ? { calls: [{ tool: "delegate", input: { agent: "builder", brief: "You build it." } }] }
      : { text: "All done." };
  });
  const config = join(root.path, "config.jsonc");
  const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" };
  writeFileSync(config, JSON.stringify({ providers: { mock } }));
  writePackage(
    join(root.path, "data/squads"),
    teamOf("pair", { orchestrator: ["write, delegate", "delegates: [builder]\n"], builder: ["write, shell"] }),
  );
  writePackage(
    join(root.path, "data/squads"),
    teamOf("chain", {
      orchestrator: ["write, delegate", "delegates: [leader]\n"],
      leader: ["write, delegate", "delegates: [polisher]\n"],
      polisher: ["write, shell"],
    }),
  );
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

const told = async (isolation: "worktree" | "directory") => {
  const directory = makeProject(join(root.path, isolation), { "a.txt": "a\n", "b.txt": "b\n" });
  const client = createServiceClient({ baseUrl: service.url, directory });
  const { data: made } = await client.task.create({
    body: {
      request: "have it built",
      productPillar: "code",
      promptProfile: "pair",
      model: "mock/large",
      checks: [],
      isolation,
    },
  });
  const { data: status } = await client.task.wait({ path: { taskID: made?.taskID ?? "" }, timeoutMs: 20_000 });
  expect(status, status?.error).toMatchObject({ lifecycleStatus: "completed" });
  const last = provider.requests.findLast(({ first, turn }) => first === "have it built" && turn === 2);
  return textOf(last?.body.messages.findLast(({ role }) => role === "tool")?.content);
};

const commands = "Commands it ran:\n- `printf 'x\\ny\\n' > made.txt; rm b.txt` exit 0\n- `exit 3` exit 3";

test("the files that it changed by whatever means, with their lines; none that others changed before", async () => {
  expect(await told("worktree")).toBe(
    `Built.\n\n[What the service saw]\nFiles it changed: made.txt (+2 -0), b.txt (+0 -1), own.txt (+1 -0).\n${commands}`,
  );
});

test("control: in place, where no commit tells, those that its calls named", async () => {
  expect(await told("directory")).toBe(
    `Built.\n\n[What the service saw]\nFiles it changed with tools: own.txt.\n${commands}`,
  );
});

test.each([
  ["one agent", "Lead it once", ["led.txt", "polished.txt"]],
  ["two agents at once", "Lead it twice", ["led.txt", "made.txt", "own.txt", "polished.txt"]],
])(
  "an agent that has the files delegates to %s that change them: nobody waits for itself",
  async (_who, request, made) => {
    const directory = makeProject(join(root.path, request.replaceAll(" ", "-")), { "a.txt": "a\n", "b.txt": "b\n" });
    const client = createServiceClient({ baseUrl: service.url, directory });
    const body = { request, productPillar: "code" as const, promptProfile: "chain", model: "mock/large", checks: [] };
    const { data: created } = await client.task.create({ body });
    const { data: status } = await client.task.wait({ path: { taskID: created?.taskID ?? "" }, timeoutMs: 15_000 });
    expect(status, status?.error).toMatchObject({ lifecycleStatus: "completed" });
    const files = readdirSync(directory).filter((name) => name.endsWith(".txt"));
    expect(files).toEqual(expect.arrayContaining(made));
  },
);
