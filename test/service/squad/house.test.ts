import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import {
  acceptance,
  type MockProvider,
  type MockRequest,
  startMockProvider,
  textOf,
} from "../../harness/double/mock-provider.ts";
import { makeProject, temporary } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** The rules of the house come from the service, whoever wrote a squad's package and whatever that says. */

const reads = "read, list, search";
const agents = {
  orchestrator: `${reads}, write, shell, delegate, slice`,
  builder: `${reads}, write, edit`,
  runner: `${reads}, shell`,
  reader: reads,
  reviewer: `${reads}, verdict`,
};
/** A package of which no handbook says anything of the house. */
const strangers = Object.fromEntries([
  [
    ".sortie/squads/strange/squad.json",
    JSON.stringify({
      id: "strange",
      version: "1.0.0",
      name: "Strange",
      summary: "Made elsewhere.",
      notFor: "Anything else.",
      pillars: ["code"],
      owns: {},
      agents: ["builder", "runner", "reader", "reviewer"],
      skills: [],
    }),
  ],
  [".sortie/squads/strange/README.md", "# Strange\n"],
  ...Object.entries(agents).map(([name, tools]) => [
    `.sortie/squads/strange/agents/${name}.md`,
    `---\nname: ${name}\ndescription: The ${name}.\ntools: [${tools}]\n${
      name === "orchestrator" ? "delegates: [builder, runner, reader]\n" : ""
    }---\n\nYou are the ${name} of this trade.\n`,
  ]),
]) as Record<string, string>;

let provider: MockProvider;
let service: TestService;
let root: ReturnType<typeof temporary>;
/** The first request of each agent, by a word of its handbook. */
const asked = new Map<string, MockRequest["body"]>();

beforeAll(async () => {
  root = temporary("sortie-house-");
  const calls = ["builder", "runner", "reader"].map((agent) => ({
    tool: "delegate",
    input: { agent, brief: "Look." },
  }));
  provider = await startMockProvider(
    (request) => {
      const { body, turn } = request;
      const [, agent = ""] = /You are the (\w+) of this trade/.exec(textOf(body.messages[0]?.content)) ?? [];
      if (!asked.has(agent)) asked.set(agent, body);
      if (agent === "reviewer") return acceptance(request);
      if (agent !== "orchestrator") return { text: "Done." };
      return turn === 0
        ? { calls: [...calls, { tool: "write", input: { path: "b.txt", content: "two\n" } }] }
        : { text: "Wrote b.txt.\n\nCommit: Add b.txt" };
    },
    { reviews: "script" },
  );
  const config = join(root.path, "config.jsonc");
  const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" };
  writeFileSync(config, JSON.stringify({ providers: { mock } }));
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
  const directory = makeProject(join(root.path, "project"), { "a.txt": "one\n", ...strangers });
  const client = createServiceClient({ baseUrl: service.url, directory });
  const { data } = await client.task.create({
    body: { request: "Add b.txt", productPillar: "code", model: "mock/large", promptProfile: "strange" },
  });
  const { data: status } = await client.task.wait({ path: { taskID: data?.taskID ?? "" }, timeoutMs: 30_000 });
  expect(status?.lifecycleStatus).toBe("completed");
}, 60_000);
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

const rules = {
  material: "are material",
  commits: "Do not commit, push or switch branches",
  checks: "what is red or rejected comes back",
  weaken: "Never weaken, skip or special-case a test or a check",
  commands: "Commands have no terminal and no input",
  last: "Your last message is for somebody who has not watched",
  answer: "is all that is kept of your work",
  claim: "Claim only what you have seen",
  verdict: "Answer with one call of `verdict`, for every part",
  rejection: "that were weakened, skipped or special-cased to pass are a rejection",
} as const;

test.each<[agent: keyof typeof agents, told: (keyof typeof rules)[]]>([
  ["orchestrator", ["material", "commits", "checks", "weaken", "commands", "last", "claim"]],
  ["builder", ["material", "commits", "weaken", "answer", "claim"]],
  ["runner", ["material", "commands", "answer", "claim"]],
  ["reader", ["material", "answer", "claim"]],
  ["reviewer", ["material", "verdict", "rejection"]],
])("the %s of a package without them is told the rules that concern it, once, and no others", (agent, told) => {
  const system = textOf(asked.get(agent)?.messages[0]?.content);
  const times = Object.fromEntries(
    Object.entries(rules).map(([name, words]) => [name, system.split(words).length - 1]),
  );
  const expected = Object.fromEntries(
    Object.keys(rules).map((name) => [name, told.includes(name as keyof typeof rules) ? 1 : 0]),
  );
  expect(times).toEqual(expected);
});

test("who runs commands has the tool that reads those left running; who runs none has neither", () => {
  const toolsOf = (agent: string) => asked.get(agent)?.tools?.map((tool) => tool.function.name) ?? [];
  expect(toolsOf("orchestrator").filter((name) => ["shell", "process"].includes(name))).toEqual(["shell", "process"]);
  expect(toolsOf("runner")).toEqual(["read", "list", "search", "shell", "process"]);
  expect(toolsOf("reader")).toEqual(["read", "list", "search"]);
});

test("the shipped packages say the trade: none of them repeats a rule of the house", () => {
  const squads = fileURLToPath(new URL("../../../squads", import.meta.url));
  const handbooks = readdirSync(squads, { recursive: true, encoding: "utf8" }).filter((path) =>
    /agents\/.*\.md$/.test(path),
  );
  expect(handbooks.length).toBeGreaterThan(15);
  const said = handbooks.flatMap((path) => {
    const text = readFileSync(join(squads, path), "utf8");
    return Object.entries(rules).flatMap(([name, words]) => (text.includes(words) ? [`${path}: ${name}`] : []));
  });
  expect(said).toEqual([]);
});
