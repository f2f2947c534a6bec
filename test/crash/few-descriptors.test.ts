import { spawnSync } from "node:child_process";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeLab } from "../harness/double/hostile-text.ts";
import { startProcess } from "./process.ts";

/** A service that has no descriptor to spare for a moment: what it could not load then, it loads later. */

let lab: Awaited<ReturnType<typeof makeLab>>;
beforeAll(async () => {
  lab = await makeLab();
});
afterAll(() => lab[Symbol.asyncDispose]());

/** Over one connection, which is open before there are no more. */
const createCaller = (url: string) => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  return (method: string, path: string, body?: object): Promise<{ status: number; text: string }> =>
    new Promise((resolve, reject) => {
      const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
      const sent = request(new URL(path, url), { agent, method, headers }, (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
        response.once("end", () => resolve({ status: response.statusCode ?? 0, text }));
      });
      sent.once("error", reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
};

const listTools = { jsonrpc: "2.0", id: 1, method: "tools/list", params: {} };

test("metrics, the document, MCP and a provider come after a moment without descriptors", async ({ skip }) => {
  if (spawnSync("prlimit", ["--version"]).status !== 0) return skip("prlimit is not here");
  const env = { SERVICE_DATA_DIR: join(lab.root, "data"), SERVICE_CONFIG: lab.config, HOME: lab.root };
  await using service = await startProcess(env);
  const call = createCaller(service.url);
  const all = async () => {
    const statuses: (number | string)[] = [
      (await call("GET", "/metrics")).status,
      (await call("GET", "/openapi.json")).status,
      (await call("POST", "/mcp", listTools)).status,
    ];
    const { text } = await call("POST", "/model/test", { model: "mock/large" });
    const { failure } = JSON.parse(text) as { failure: { code: string } | null };
    return [...statuses, failure?.code ?? "answered"];
  };
  expect((await call("GET", "/health")).status).toBe(200);
  const limit = (soft: string) =>
    expect(spawnSync("prlimit", ["--pid", String(service.child.pid), `--nofile=${soft}:`]).status).toBe(0);
  limit("3");
  expect(await all()).toEqual([500, 500, 500, "provider_unavailable"]);
  limit("1024");
  expect(await all()).toEqual([200, 200, 200, "answered"]);
  expect(service.child.exitCode).toBeNull();
});
