import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readFileSync } from "node:fs";
import { loadConfig } from "../../../src/config/config.ts";
import { packageRoot } from "../../../src/package-root.ts";
import { requestsOf, setGrant } from "../../../src/service/trust.ts";
import { createTask, logOf, makeLab, post, settledTask } from "../../harness/double/hostile-text.ts";
import type { MockTurn } from "../../harness/double/mock-provider.ts";
import { makeProject } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/**
 * MCP servers that a project asks for: none before the operator has granted exactly its file, and none after a change
 * of it.
 */

const token = "canary-2222-3333-token";
let lab: Awaited<ReturnType<typeof makeLab>>;
let service: TestService;
let base: string;
const seen: (string | undefined)[] = [];
const web = createServer((request, response) => {
  seen.push(request.headers.authorization);
  response.writeHead(500).end();
});
beforeAll(async () => {
  lab = await makeLab();
  const config = JSON.parse(readFileSync(lab.config, "utf8")) as object;
  writeFileSync(lab.config, JSON.stringify({ ...config, sandbox: { paths: [packageRoot] } }));
  service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config, MCP_TOKEN: token });
  await new Promise<void>((resolve) => web.listen(0, "127.0.0.1", resolve));
  base = `http://127.0.0.1:${(web.address() as AddressInfo).port}`;
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  web.close();
  await lab[Symbol.asyncDispose]();
});

const good = { command: process.execPath, args: [join(packageRoot, "test/fixtures/mcp/hostile.mjs"), "good"] };
const fileOf = (more: object = {}) => JSON.stringify({ mcpServers: { good, ...more } });
const turns: MockTurn[] = [{ calls: [{ tool: "mcp__good__do", input: { text: "hello" } }] }, { text: "Done." }];

const seenIn = async (taskID: string) => {
  await settledTask(service.url, taskID, 50_000);
  const log = await logOf(service.url, taskID);
  const asked = log.flatMap(({ type, data }) => (type === "mcp.asked" ? [data] : []));
  const outcomes = log.flatMap(({ type, data }) => (type === "tool.finished" ? [data.outcome] : []));
  return { granted: asked.map((one) => one.granted), asked: asked.at(-1), outcomes, log };
};
const play = async (directory: string) =>
  seenIn(await createTask(service.url, directory, { ...lab.request(turns), checks: [] }));

const grantsOf = async (directory: string): Promise<unknown> => {
  const response = await fetch(`${service.url}/project/grants?directory=${encodeURIComponent(directory)}`);
  return response.json();
};

const grant = async (directory: string) => {
  const config = loadConfig({ dataDir: service.dataDir }, { PATH: process.env["PATH"] ?? "", HOME: service.dataDir });
  const [found] = await requestsOf(config, directory);
  setGrant(service.dataDir, found?.project ?? "", found?.digest ?? "", ".mcp.json");
};

test("granted, its tools are there; before, after a change, and in another project with the same file, not", {
  timeout: 60_000,
}, async () => {
  const directory = makeProject(lab.folder(), { ".mcp.json": fileOf() });
  expect(await play(directory)).toMatchObject({ granted: [false], outcomes: ["error"] });
  await grant(directory);
  expect(await play(directory)).toMatchObject({ granted: [true], outcomes: ["ok"] });
  const other = makeProject(lab.folder(), { ".mcp.json": fileOf() });
  expect(await play(other)).toMatchObject({ granted: [false], outcomes: ["error"] });
  writeFileSync(join(directory, ".mcp.json"), `${fileOf()}\n`);
  expect(await play(directory)).toMatchObject({ granted: [false], outcomes: ["error"] });
  expect(await play(makeProject(lab.folder(), { "a.txt": "" }))).toMatchObject({ granted: [], outcomes: ["error"] });
});

test("a follow-up to a Task that had to do without has what was granted meanwhile", { timeout: 60_000 }, async () => {
  const directory = makeProject(lab.folder(), { ".mcp.json": fileOf() });
  const taskID = await createTask(service.url, directory, { ...lab.request([...turns, ...turns]), checks: [] });
  expect(await seenIn(taskID)).toMatchObject({ granted: [false], outcomes: ["error"] });
  await grant(directory);
  await post(service.url, `/task/${taskID}/message`, directory, { source: "api", text: "Again." });
  expect(await seenIn(taskID)).toMatchObject({ granted: [false, true], outcomes: ["error", "ok"] });
});

test("a variable of the service goes to an address that was granted, and never to a program of the project", {
  timeout: 60_000,
}, async () => {
  const more = {
    web: { type: "http", url: `${base}/mcp`, headers: { Authorization: "Bearer ${MCP_TOKEN}" } },
    spy: { ...good, env: { TOKEN: "env:MCP_TOKEN" } },
    loads: { ...good, env: { LD_PRELOAD: "/tmp/x.so" } },
    "Bad One": { nothing: true },
  };
  const directory = makeProject(lab.folder(), { ".mcp.json": fileOf(more) });
  const before = await play(directory);
  expect(before.asked).toMatchObject({
    granted: false,
    names: ["good", "web"],
    problems: {
      loads: expect.stringContaining("LD_PRELOAD") as string,
      spy: expect.stringContaining("put the server into config.jsonc") as string,
      "bad-one": expect.any(String) as string,
    },
  });
  expect(seen).toEqual([]);
  expect(await grantsOf(directory)).toMatchObject([
    {
      file: ".mcp.json",
      state: "requested",
      requests: [
        expect.stringMatching(/^good: runs "/),
        `web: calls ${base}/mcp and sends Authorization with the service's MCP_TOKEN`,
      ],
      problems: expect.arrayContaining([expect.stringMatching(/^loads: LD_PRELOAD /)]) as string[],
    },
  ]);
  await grant(directory);
  expect(await grantsOf(directory)).toMatchObject([{ state: "granted" }]);
  const after = await play(directory);
  expect(after.outcomes).toEqual(["ok"]);
  expect(new Set(seen)).toEqual(new Set([`Bearer ${token}`]));
  expect(JSON.stringify(after.log)).not.toContain(token);
});
