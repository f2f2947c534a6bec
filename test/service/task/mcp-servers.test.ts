import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { packageRoot } from "../../../src/package-root.ts";
import { createTask, logOf, makeLab, settledTask } from "../../harness/double/hostile-text.ts";
import type { MockTurn } from "../../harness/double/mock-provider.ts";
import { freePort } from "../../harness/port.ts";
import { git, makeProject, until } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/**
 * The reference servers of the protocol, over standard input and output and over HTTP, and addresses that mean no good.
 */

const entry = (name: string) =>
  join(packageRoot, "node_modules/@modelcontextprotocol", `server-${name}`, "dist/index.js");
const stdio = (name: string, ...args: string[]) => ({ command: process.execPath, args: [entry(name), ...args] });

let lab: Awaited<ReturnType<typeof makeLab>>;
let service: TestService;
let directory: string;
let everything: ReturnType<typeof spawn>;
const web = new AsyncDisposableStack();
/** Of each request that came to an address, by its path. */
const seen: Record<string, IncomingHttpHeaders[]> = {};
const secret = "canary-3333-4444-secret";
const token = "Bearer canary-0815-4711-token";

/** JSON-RPC over HTTP as a server answers it that keeps no session. `/away` sends elsewhere, `/huge` says too much. */
const startAddress = async (): Promise<string> => {
  const server = createServer((request, response) => {
    const path = request.url ?? "";
    (seen[path] ??= []).push(request.headers);
    let body = "";
    request.on("data", (chunk: Buffer) => (body += String(chunk)));
    request.on("end", () => {
      const base = `http://127.0.0.1:${request.socket.localPort}`;
      const json = (value: object, status = 200) =>
        response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
      const issuer = path.includes("stray") ? base.replace("127.0.0.1", "localhost") : base;
      if (path.startsWith("/.well-known/oauth-protected-resource"))
        return json({ resource: `${base}${path.slice(path.lastIndexOf("/"))}`, authorization_servers: [issuer] });
      if (path.startsWith("/.well-known/"))
        return json({
          issuer: base,
          authorization_endpoint: `${base}/authorize`,
          token_endpoint: `${base}/token`,
          response_types_supported: ["code"],
          grant_types_supported: ["client_credentials"],
          token_endpoint_auth_methods_supported: ["client_secret_basic"],
        });
      if (path === "/token")
        return json({ access_token: "granted-to-a-machine", token_type: "Bearer", expires_in: 600 });
      if (/^\/(?:machine|stray)$/.test(path) && request.headers.authorization !== "Bearer granted-to-a-machine")
        return response
          .writeHead(401, {
            "www-authenticate": `Bearer resource_metadata="${base}/.well-known/oauth-protected-resource${path}"`,
          })
          .end();
      if (path === "/away")
        return response.writeHead(307, { location: `http://localhost:${request.socket.localPort}/elsewhere` }).end();
      const { id, method, params } = JSON.parse(body || "{}") as {
        id?: number;
        method?: string;
        params?: { protocolVersion?: string };
      };
      if (id === undefined) return response.writeHead(202).end();
      const text =
        path === "/huge" ? "z".repeat(10 * 1024 * 1024) : `for ${String(request.headers.authorization === token)}`;
      const results: Record<string, object> = {
        initialize: {
          protocolVersion: params?.protocolVersion,
          capabilities: { tools: {} },
          serverInfo: { name: "w", version: "1" },
        },
        "tools/list": { tools: [{ name: "do", inputSchema: { type: "object" } }] },
        "tools/call": { content: [{ type: "text", text }] },
      };
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ jsonrpc: "2.0", id, result: results[method ?? ""] ?? {} }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  web.defer(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
};

beforeAll(async () => {
  lab = await makeLab();
  const port = await freePort();
  everything = spawn(process.execPath, [entry("everything"), "streamableHttp"], {
    env: { ...process.env, PORT: String(port) },
    stdio: "ignore",
  });
  const url = `http://127.0.0.1:${port}/mcp`;
  await until(
    () =>
      fetch(url).then(
        () => true,
        () => false,
      ),
    (up) => up,
    60_000,
  );
  const base = await startAddress();
  const mcpServers = {
    memory: { ...stdio("memory"), env: { MEMORY_FILE_PATH: "/tmp/memory.json" } },
    files: stdio("filesystem", "."),
    everything: stdio("everything"),
    remote: { type: "http", url },
    trusted: { url: `${base}/trusted`, headers: { Authorization: "env:MCP_TOKEN" } },
    machine: { url: `${base}/machine`, auth: { issuer: base, clientID: "sortie", clientSecret: "env:MCP_SECRET" } },
    stray: { url: `${base}/stray`, auth: { issuer: base, clientID: "sortie", clientSecret: "env:MCP_SECRET" } },
    huge: { url: `${base}/huge` },
    away: { url: `${base}/away`, headers: { Authorization: "env:MCP_TOKEN" } },
    nobody: { url: "http://127.0.0.1:9/mcp" },
  };
  const config = JSON.parse(readFileSync(lab.config, "utf8")) as object;
  writeFileSync(lab.config, JSON.stringify({ ...config, mcpServers, sandbox: { paths: [packageRoot] } }));
  service = await startService(join(lab.root, "data"), {
    SERVICE_CONFIG: lab.config,
    MCP_TOKEN: token,
    MCP_SECRET: secret,
  });
  directory = makeProject(lab.folder(), { "a.txt": "one\n" });
}, 120_000);
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  everything.kill();
  await web.disposeAsync();
  await lab[Symbol.asyncDispose]();
});

const call = (tool: string, input: object): MockTurn => ({ calls: [{ tool, input }] });

test("filesystem, memory and everything, over both ways: found, called, and what they wrote lands", {
  timeout: 120_000,
}, async () => {
  const turns = [
    call("mcp__files__write_file", { path: "made.txt", content: "by a server\n" }),
    call("mcp__memory__create_entities", {
      entities: [{ name: "Ada", entityType: "person", observations: ["counts"] }],
    }),
    call("mcp__memory__read_graph", {}),
    call("mcp_tools", { query: "echo message" }),
    call("mcp_tools", { tool: "mcp__everything__echo", arguments: { message: "near" } }),
    call("mcp__remote__echo", { message: "far" }),
    call("mcp__trusted__do", {}),
    call("mcp__huge__do", {}),
    call("mcp__machine__do", {}),
    { text: "Done.\n\nCommit: Add made.txt" },
  ];
  const taskID = await createTask(service.url, directory, { ...lab.request(turns), checks: [] });
  const task = await settledTask(service.url, taskID, 100_000);
  const log = await logOf(service.url, taskID);
  const outputs = log.flatMap(({ type, data }) =>
    type === "tool.finished" ? [typeof data.output === "string" ? data.output : data.output.head] : [],
  );
  const listed = Object.fromEntries(
    log.flatMap(({ type, data }) => (type === "mcp.listed" ? [[data.server, data]] : [])),
  );
  expect(
    Object.entries(listed)
      .flatMap(([name, { problem }]) => (problem === null ? [] : [name]))
      .toSorted(),
  ).toEqual(["away", "nobody", "stray"]);
  expect(outputs[2]).toContain("counts");
  expect(outputs[3]).toContain("mcp__everything__echo");
  expect(outputs[4]).toContain("near");
  expect(outputs[5]).toContain("far");
  expect(outputs[6]).toContain("for true");
  expect(outputs[7]).toContain("MCP server huge failed");
  // A token for the credentials, of the issuer that the operator named; a server that names another one gets nothing.
  expect(outputs[8]).toContain("for false");
  const basic = `Basic ${Buffer.from(`sortie:${secret}`).toString("base64")}`;
  expect(new Set(seen["/token"]?.map(({ authorization }) => authorization))).toEqual(new Set([basic]));
  expect(seen["/machine"]?.at(-1)?.authorization).toBe("Bearer granted-to-a-machine");
  expect(JSON.stringify(log)).not.toContain(secret);
  expect(task.lifecycleStatus).toBe("completed");
  expect(git(directory, "show", `${task.git.landedCommit}:made.txt`)).toBe("by a server");

  // A credential goes to the address that it was given for: not where that sends to, and not to others.
  expect(seen["/trusted"]?.every(({ authorization }) => authorization === token)).toBe(true);
  expect(seen["/huge"]?.some(({ authorization }) => authorization !== undefined)).toBe(false);
  expect(seen["/elsewhere"]).toBeUndefined();
  expect(JSON.stringify(log)).not.toContain("canary-0815");

  // More than 10 KB of tools: the first request has one that finds them.
  const first = lab.provider.requests.find(({ turn }) => turn === 0);
  const told = first?.body.tools?.map(({ function: { name } }) => name) ?? [];
  expect(told.filter((name) => name.startsWith("mcp"))).toEqual(["mcp_tools"]);
  expect(JSON.stringify(first?.body.tools).length + JSON.stringify(first?.body.messages).length).toBeLessThan(
    16 * 1024,
  );
});
