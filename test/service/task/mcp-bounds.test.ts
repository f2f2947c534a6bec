import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { packageRoot } from "../../../src/package-root.ts";
import { createTask, logOf, makeLab, post, settledTask } from "../../harness/double/hostile-text.ts";
import type { MockTurn } from "../../harness/double/mock-provider.ts";
import { makeProject } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** How much of MCP servers a model is told, how often one is started, and who has none of them. */

const web = createServer((request, response) => {
  const [, path = "", count = "0"] = /^\/(\w+)\/(\d+)/.exec(request.url ?? "") ?? [];
  let body = "";
  request.on("data", (chunk: Buffer) => (body += String(chunk)));
  request.on("end", () => {
    const { id, method, params } = JSON.parse(body || "{}") as {
      id?: number;
      method?: string;
      params?: { protocolVersion?: string };
    };
    if (id === undefined) return response.writeHead(202).end();
    const results: Record<string, object> = {
      initialize: {
        protocolVersion: params?.protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: path, version: "1" },
      },
      "tools/list": {
        tools: Array.from({ length: Number(count) }, (_, at) => ({
          name: `find-${at}`,
          description: `Finds what is kept in ${path} number ${at}. `.padEnd(
            count === "1" ? 300 : 480,
            "It takes words and gives lines. ",
          ),
          inputSchema: { type: "object", properties: { query: { type: "string", description: "Words" } } },
        })),
      },
      "tools/call": { content: [{ type: "text", text: `from ${path}` }] },
    };
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ jsonrpc: "2.0", id, result: results[method ?? ""] ?? {} }));
  });
});

let lab: Awaited<ReturnType<typeof makeLab>>;
let base: string;
const services: TestService[] = [];
const directories: string[] = [];

/** A service with these servers of ours by address, and those programs. */
const serve = async (mcpServers: object): Promise<{ service: TestService; directory: string }> => {
  const config = JSON.parse(readFileSync(lab.config, "utf8")) as object;
  const file = join(lab.root, `config-${services.length}.json`);
  writeFileSync(file, JSON.stringify({ ...config, mcpServers, sandbox: { paths: [packageRoot] } }));
  const service = await startService(join(lab.root, `data-${services.length}`), { SERVICE_CONFIG: file });
  services.push(service);
  const directory = makeProject(lab.folder(), { "a.txt": "one\n" });
  directories.push(directory);
  return { service, directory };
};
/** `count` servers of `tools` tools each, with names as long as they may be. */
const serverAt = (at: number): string => `a-server-with-a-long-name-${at}-`.padEnd(32, "x");
const nameOf = (at: number, tool: string): string => `mcp__${serverAt(at)}__${tool}`;
const addresses = (count: number, tools: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [serverAt(at), { url: `${base}/server${at}/${tools}` }]));

beforeAll(async () => {
  lab = await makeLab({ commandSeconds: 10 });
  await new Promise<void>((resolve) => web.listen(0, "127.0.0.1", resolve));
  base = `http://127.0.0.1:${(web.address() as AddressInfo).port}`;
});
afterAll(async () => {
  for (const service of services) await service[Symbol.asyncDispose]();
  web.close();
  await lab[Symbol.asyncDispose]();
});

const call = (tool: string, input: object = {}): MockTurn => ({ calls: [{ tool, input }] });
const done: MockTurn = { text: "Done." };

/** Plays a Task; its first request as the model had it. */
const play = async ({ service, directory }: Awaited<ReturnType<typeof serve>>, turns: MockTurn[]) => {
  const before = lab.provider.count();
  const taskID = await createTask(service.url, directory, { ...lab.request([...turns, done]), checks: [] });
  const task = await settledTask(service.url, taskID, 100_000);
  const log = await logOf(service.url, taskID);
  const outputs = log.flatMap(({ type, data }) =>
    type === "tool.finished" ? [typeof data.output === "string" ? data.output : data.output.head] : [],
  );
  const listed = log.flatMap(({ type, data }) => (type === "mcp.listed" ? [data] : []));
  const asked = lab.provider.requests.slice(before - lab.provider.count());
  const first = asked.find(({ turn }) => turn === 0);
  const names = (first?.body.tools ?? [])
    .map(({ function: { name } }) => name)
    .filter((name) => name.startsWith("mcp"));
  const lists = new Set(asked.map(({ body }) => JSON.stringify(body.tools)));
  const bytes = Buffer.byteLength(JSON.stringify(first?.body));
  return { taskID, task, outputs, listed, names, bytes, lists: lists.size };
};

test("the first request with the tools of twenty servers has at most 16 KB", { timeout: 120_000 }, async () => {
  const tools = 12;
  const at = await serve(addresses(20, tools));
  const { task, listed, names, bytes, outputs } = await play(at, [
    call("mcp_tools", { tool: nameOf(7, "find-0"), arguments: {} }),
  ]);
  expect(task.lifecycleStatus).toBe("completed");
  expect(listed.map(({ count, problem }) => [count, problem])).toEqual(Array.from({ length: 20 }, () => [tools, null]));
  expect(outputs[0]).toContain("from server7");
  expect({ names: names.length, fits: bytes <= 16 * 1024 ? "16 KB" : bytes }).toEqual({ names: 1, fits: "16 KB" });
});

test("twenty servers' tools that need few words leave the first request at 16 KB, too; of ten they are told by name", {
  timeout: 120_000,
}, async () => {
  const many = await play(await serve(addresses(20, 1)), [
    call("mcp_tools", { query: "number" }),
    call("mcp_tools", { tool: nameOf(19, "find-0"), arguments: {} }),
  ]);
  const bytes = many.listed.reduce((sum, { tools }) => sum + Buffer.byteLength(JSON.stringify(tools)), 0);
  expect([many.listed.length, bytes > 9000 && bytes < 20_000]).toEqual([20, true]);
  expect(many.outputs[1]).toContain("from server19");
  // What a provider has cached of a session stays good.
  expect({ names: many.names, lists: many.lists, fits: many.bytes <= 16 * 1024 ? "16 KB" : many.bytes }).toEqual({
    names: ["mcp_tools"],
    lists: 1,
    fits: "16 KB",
  });
  const few = await play(await serve(addresses(10, 1)), [call(nameOf(9, "find-0"))]);
  expect(few.outputs[0]).toContain("from server9");
  expect([few.names.length, few.names.includes("mcp_tools"), few.lists]).toEqual([10, false, 1]);
});

test("a program that dies is started five times in a turn, each time named, and no more; the next attempt starts it again", {
  timeout: 120_000,
}, async () => {
  const program = (how: string) => ({
    command: process.execPath,
    args: [join(packageRoot, "test/fixtures/mcp/hostile.mjs"), how],
  });
  const at = await serve({ dies: program("dies"), good: program("good") });
  const seven = Array.from({ length: 7 }, () => call("mcp__dies__do"));
  const { taskID, task, outputs, names } = await play(at, [
    ...seven,
    call("mcp__good__do", { text: "hello" }),
    done,
    call("mcp__dies__do"),
  ]);
  expect(task.lifecycleStatus).toBe("completed");
  // Control: few tools are told by their names.
  expect(names).toEqual(["mcp__dies__do", "mcp__good__do"]);
  const dead = outputs.slice(0, 7);
  for (const output of dead) expect(output).toContain("The MCP server dies failed");
  expect(
    dead.map((output) => /out of luck|it ended 5 times in this run and is not started again/.exec(output)?.[0]),
  ).toEqual([
    ...Array(5).fill("out of luck"),
    ...Array(2).fill("it ended 5 times in this run and is not started again"),
  ]);
  expect(outputs[7]).toContain("do hello");
  await post(at.service.url, `/task/${taskID}/message`, at.directory, { source: "api", text: "Again." });
  await settledTask(at.service.url, taskID, 60_000);
  const log = await logOf(at.service.url, taskID);
  const last = log.findLast(({ type }) => type === "tool.finished");
  expect(last?.type === "tool.finished" && JSON.stringify(last.data.output)).toContain("out of luck");
});
