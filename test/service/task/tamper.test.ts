import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { browserHere } from "../../harness/browser.ts";
import { createTask, logOf, post, settledTask, shell } from "../../harness/double/hostile-text.ts";
import { type MockProvider, startMockProvider, textOf } from "../../harness/double/mock-provider.ts";
import { teamOf } from "../../harness/double/squads.ts";
import { makeProject, temporary, writeFiles } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** Wherever commands of an agent's run, or what an agent wrote, the user's repository is watched over. */

const root = temporary("sortie-tamper-");
/** Commands do their worst only where this file is, so that each test can say where that is. */
const armed = join(root.path, "armed");
const plant = (config: string) => `[ ! -e ${armed} ] || git config -f ${config} core.editor evil`;
let provider: MockProvider;
let service: TestService;
/** Without a setup: only then agents work beside each other. */
let plain: TestService;

beforeAll(async () => {
  provider = await startMockProvider(({ body, first, turn }) => {
    const project = /project at (\S+)/.exec(first)?.[1] ?? "";
    const isBuilder = body.messages.some(({ content }) => textOf(content).includes("You are the builder."));
    if (isBuilder) return turn === 0 ? shell(plant(`${project}/.git/config`)) : { text: "Built." };
    if (turn > 0) return { text: "Done." };
    if (first.includes("[forks]"))
      return {
        calls: ["one", "two"].map((name) => ({
          tool: "delegate",
          input: { agent: "builder", brief: `Build ${name} of the project at ${project} now.` },
        })),
      };
    if (first.includes("[setup]")) return shell(`echo "${plant(`${project}/.git/config`)}" > prepare.sh`);
    return shell("echo x > x.txt");
  });
  const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
  const start = (name: string, workspace: object) => {
    const data = join(root.path, name);
    const config = join(root.path, `${name}.jsonc`);
    const settings = { model: "mock/large", squad: "team", providers, workspace, sandbox: { tier: 3 } };
    const team = { orchestrator: ["shell, delegate", "delegates: [builder]"], builder: ["shell"] } as const;
    writeFiles(join(data, "squads"), teamOf("team", team));
    writeFileSync(config, JSON.stringify(settings));
    return startService(data, { SERVICE_CONFIG: config });
  };
  service = await start("data", { setup: "sh prepare.sh" });
  plain = await start("plain", {});
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await plain[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

let count = 0;
const server = `import { createServer } from "node:http";
createServer((request, response) => response.end("x")).listen(Number(process.argv[2]), "127.0.0.1");
`;
const run = async (name: string, checks: object[] = []) => {
  const { url } = name === "forks" ? plain : service;
  const files = { "prepare.sh": ":\n", "server.mjs": server };
  const directory = makeProject(join(root.path, `project-${(count += 1)}`), files);
  const config = join(directory, ".git/config");
  const before = readFileSync(config, "utf8");
  const request = `Do it [${name}] for the project at ${directory} now.`;
  const taskID = await createTask(url, directory, { request, checks });
  return {
    log: () => logOf(url, taskID),
    directory,
    taskID,
    status: await settledTask(url, taskID),
    isWhole: () => readFileSync(config, "utf8") === before,
  };
};

test.each([
  ["a command of an agent that works beside others", "forks", []],
  ["the setup before a check, over what the agent wrote", "setup", ["true"]],
])("%s: found, put back, and the Task ends; control: without the change it lands", async (_name, name, checks) => {
  expect((await run(name, checks as never)).status).toMatchObject({ lifecycleStatus: "completed" });
  writeFileSync(armed, "");
  try {
    const { log, status, isWhole } = await run(name, checks as never);
    expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "git_tampered" } });
    expect(isWhole()).toBe(true);
    const frames = await log();
    expect(frames.filter(({ type }) => type === "git.tampered").length).toBeGreaterThan(0);
    const forks = frames.filter((frame) => frame.type === "session.started" && frame.data.fork !== undefined);
    expect(forks).toHaveLength(name === "forks" ? 2 : 0);
  } finally {
    rmSync(armed);
  }
});

test.runIf(browserHere !== undefined)(
  "the server of a screenshot: found, put back, and there is no picture",
  { timeout: 60_000 },
  async () => {
    const port = 18_300 + (process.pid % 90);
    const serve = (config: string) => `${plant(config)}; exec node server.mjs ${port}`;
    const config = join(root.path, `project-${count + 1}`, ".git/config");
    const check = { kind: "http", start: serve(config), url: `http://127.0.0.1:${port}/`, timeoutSeconds: 20 };
    const { taskID, directory, status, isWhole } = await run("page", [check]);
    expect(status).toMatchObject({ lifecycleStatus: "completed" });
    const capture = () => post(service.url, `/task/${taskID}/preview/capture`, directory, {});
    expect((await capture()).status).toBe(200);
    writeFileSync(armed, "");
    try {
      const refused = await capture();
      expect([refused.status, refused.body["code"]]).toEqual([422, "preview_failed"]);
      expect(String(refused.body["message"])).toContain(".git/config (changed; restored");
      expect([isWhole(), existsSync(`${config}.found-by-${taskID}`)]).toEqual([true, true]);
    } finally {
      rmSync(armed);
    }
  },
);
