import { spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTask, expectWhole, makeLab, settledTask, shell } from "../harness/double/hostile-text.ts";
import { missionOf } from "../harness/double/missions.ts";
import { makeProject, readText, until } from "../harness/project.ts";
import { type ServiceProcess, startProcess } from "./process.ts";

/** A service that has no descriptor to spare for a moment: what it could not load then, it loads later. */

let lab: Awaited<ReturnType<typeof makeLab>>;
beforeAll(async () => {
  // What a check is held by stands outside of its tree.
  lab = await makeLab({}, 3);
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

/** Descriptors that the service may have from now on. */
const limitOf =
  ({ child }: ServiceProcess) =>
  (soft: string): void =>
    expect(spawnSync("prlimit", ["--pid", String(child.pid), `--nofile=${soft}:`]).status).toBe(0);

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
  const limit = limitOf(service);
  limit("3");
  expect(await all()).toEqual([500, 500, 500, "provider_unavailable"]);
  limit("1024");
  expect(await all()).toEqual([200, 200, 200, "answered"]);
  expect(service.child.exitCode).toBeNull();
});

test("a Task that lands and a Mission that begins meanwhile go on once there are descriptors; control: both met the want", {
  timeout: 60_000,
}, async ({ skip }) => {
  if (spawnSync("prlimit", ["--version"]).status !== 0) return skip("prlimit is not here");
  const directory = makeProject(lab.folder(), { "a.txt": "one\n" });
  const other = makeProject(lab.folder(), { "a.txt": "one\n" });
  const env = { SERVICE_DATA_DIR: join(lab.root, "landing"), SERVICE_CONFIG: lab.config, HOME: lab.root };
  await using service = await startProcess(env);
  const { url } = service;
  const call = createCaller(url);
  const limit = limitOf(service);
  const taskID = await createTask(url, directory, {
    ...lab.request([shell("echo two > a.txt")]),
    checks: [
      { id: "c", kind: "test", run: `touch ${lab.root}/checked; while [ ! -e ${lab.root}/go ]; do sleep 0.02; done` },
    ],
  });
  const stopped = async (path: string, at: string) => {
    const { text } = await call("GET", `${path}/events?format=json&limit=1000&directory=${encodeURIComponent(at)}`);
    const { events } = JSON.parse(text) as { events: { type: string; data: { reason?: string } }[] };
    return events.flatMap(({ type, data }) => (type === "run.stopped" ? [data.reason ?? ""] : []));
  };
  await until(
    () => Promise.resolve(existsSync(join(lab.root, "checked"))),
    (there) => there,
  );
  // The connection is there before.
  expect((await call("GET", "/health")).status).toBe(200);
  limit("3");
  writeFileSync(join(lab.root, "go"), "");
  const wake = { missionID: "m", text: "1. Write b\n\n   ```txt file=b.txt\n   b\n   ```\n", model: "builtin/rules-1" };
  expect((await call("POST", `/mission/wake?directory=${encodeURIComponent(other)}`, wake)).status).toBe(200);
  for (const [path, at] of [
    [`/task/${taskID}`, directory],
    ["/mission/m", other],
  ] as const)
    await until(
      () => stopped(path, at),
      (reasons) => reasons.some((reason) => reason.includes("EMFILE")),
    );
  limit("1024");
  expect(await settledTask(url, taskID, 30_000)).toMatchObject({ lifecycleStatus: "completed" });
  expect(readText(directory, "a.txt")).toBe("two\n");
  expectWhole(directory);
  await until(
    () => missionOf(url, other, "m"),
    ({ finished }) => finished?.outcome === "done",
    30_000,
  );
  expect(readText(other, "b.txt")).toBe("b\n");
});
