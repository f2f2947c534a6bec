import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Frame } from "../../src/protocol/event/frame.ts";
import type { TaskStatus } from "../../src/protocol/task/status.ts";
import { makeProject, temporary, until } from "../harness/project.ts";
import { type MockProvider, startMockProvider } from "../harness/double/mock-provider.ts";
import { sandboxesHere } from "../harness/sandboxes.ts";
import { processesOf, type ServiceProcess, startProcess } from "./process.ts";
import { night } from "../harness/night.ts";

/** What becomes of a running command when its service is killed, stopped, or its Task cancelled. */

let provider: MockProvider;
beforeAll(async () => {
  provider = await startMockProvider(({ first, turn }) => {
    if (!first.includes("wait")) return { text: "Stopped." };
    // One child stays in the group, one leaves it: both must go.
    const command = "touch started; setsid sleep 300 & sleep 300";
    const calls = [command, ...(first.includes("wait, then more") ? ["touch second"] : [])];
    return turn === 0
      ? { calls: calls.map((line) => ({ tool: "shell", input: { command: line, timeoutSeconds: 500 } })) }
      : { text: "Stopped." };
  });
});
afterAll(() => provider.close());

const here = await sandboxesHere();
/** Tier 2 is tried at night. */
const tiers = here.map(({ tier }) => tier).filter((tier) => tier !== 2 || night);

const open = async (root: string, tier: number) => {
  const dataDir = join(root, "data");
  const project = makeProject(join(root, "project"), { "a.txt": "a\n" });
  const config = join(root, "config.jsonc");
  writeFileSync(
    config,
    JSON.stringify({
      model: "mock/large",
      providers: { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } },
      sandbox: { tier },
    }),
  );
  const env = { SERVICE_DATA_DIR: dataDir, SERVICE_CONFIG: config, HOME: root };
  return { dataDir, project, env };
};

const ask = async <T>(url: string, path: string, body?: object): Promise<T> => {
  const response = await fetch(
    `${url}${path}`,
    body && { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) },
  );
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
};

/** A Task whose command runs now. */
const running = async (
  service: ServiceProcess,
  place: Awaited<ReturnType<typeof open>>,
  request = "wait",
): Promise<string> => {
  const { taskID } = await ask<{ taskID: string }>(
    service.url,
    `/task?directory=${encodeURIComponent(place.project)}`,
    { request, productPillar: "code" },
  );
  await until(
    () =>
      Promise.resolve(
        existsSync(join(place.dataDir, "worktrees", taskID, "started")) ? processesOf(place.dataDir).length : 0,
      ),
    (count) => count >= 3,
  );
  return taskID;
};

describe.each(tiers)("T17: in tier %i", (tier) => {
  test("kill -9: what is left is killed at the next start, before the Task goes on", { timeout: 60_000 }, async () => {
    using root = temporary("sortie-crash-");
    const place = await open(root.path, tier);
    const first = await startProcess(place.env);
    const taskID = await running(first, place, "wait, then more");
    await first.kill("SIGKILL");
    // The runner ends the group; the child that left it lives on until the next start.
    // In the stronger tiers nothing does.
    if (tier === 3) expect(processesOf(place.dataDir).length).toBeGreaterThanOrEqual(1);
    else
      await until(
        () => Promise.resolve(processesOf(place.dataDir)),
        (pids) => pids.length === 0,
        2000,
      );

    await using second = await startProcess(place.env);
    expect(processesOf(place.dataDir)).toEqual([]);
    const status = await until(
      () => ask<TaskStatus>(second.url, `/task/${taskID}/status`),
      (answer) => answer.status === "inactive",
    );
    expect(status.lifecycleStatus).toBe("completed");
    const { events } = await ask<{ events: Frame[] }>(second.url, `/task/${taskID}/events?format=json&after=0`);
    const ends = events.flatMap((frame) =>
      frame.type === "tool.finished" && frame.data.tool === "shell" ? [frame.data] : [],
    );
    expect(ends.map(({ outcome }) => outcome)).toEqual(["interrupted", "interrupted"]);
    // The files are shown once.
    const [began, after] = ends.map(({ output }) => JSON.stringify(output));
    expect(began).toContain("git status:");
    expect(began).toContain("?? started");
    expect(after).toContain("Or it was not begun");
    expect(after).not.toContain("git status:");
  });

  test("kill -9 while the server of an http check serves: nothing of it is left", { timeout: 60_000 }, async () => {
    using root = temporary("sortie-crash-");
    const place = await open(root.path, tier);
    const first = await startProcess(place.env);
    // It takes the connection and never answers.
    const start = `sleep 300 & exec node -e 'require("net").createServer(() => {}).listen(4598, "127.0.0.1")'`;
    const check = { kind: "http", start, url: "http://127.0.0.1:4598/" };
    const { taskID } = await ask<{ taskID: string }>(
      first.url,
      `/task?directory=${encodeURIComponent(place.project)}`,
      { request: "go", productPillar: "code", checks: [check] },
    );
    await until(
      () => Promise.resolve(processesOf(place.dataDir).length),
      (count) => count >= 4,
    );
    await first.kill("SIGKILL");
    await until(
      () => Promise.resolve(processesOf(place.dataDir)),
      (pids) => pids.length === 0,
      2000,
    );
    await using second = await startProcess(place.env);
    await ask(second.url, `/task/${taskID}/cancel?directory=${encodeURIComponent(place.project)}`, {});
  });

  test("SIGTERM: processes end with the service, and the Task goes on after the next start", {
    timeout: 60_000,
  }, async () => {
    using root = temporary("sortie-crash-");
    const place = await open(root.path, tier);
    const first = await startProcess(place.env);
    const taskID = await running(first, place);
    const begun = performance.now();
    await first.kill("SIGTERM");
    expect(first.child.exitCode).toBe(0);
    expect(performance.now() - begun).toBeLessThan(10_000);
    expect(processesOf(place.dataDir)).toEqual([]);

    await using second = await startProcess(place.env);
    const status = await until(
      () => ask<TaskStatus>(second.url, `/task/${taskID}/status`),
      (answer) => answer.status === "inactive",
    );
    expect(status.lifecycleStatus).toBe("completed");
  });

  test("cancel: accepted while they die, cancelled when they are dead", { timeout: 60_000 }, async () => {
    using root = temporary("sortie-crash-");
    const place = await open(root.path, tier);
    await using service = await startProcess(place.env);
    const taskID = await running(service, place);
    const path = `/task/${taskID}/cancel?directory=${encodeURIComponent(place.project)}`;
    const answer = await ask<{ lifecycleStatus: string }>(service.url, path, { reason: "enough" });
    expect(answer.lifecycleStatus).toBe("active");
    const status = await until(
      () => ask<TaskStatus>(service.url, `/task/${taskID}/status`),
      ({ status }) => status === "inactive",
    );
    expect(status).toMatchObject({ lifecycleStatus: "cancelled", error: "Cancelled by api: enough" });
    expect(processesOf(place.dataDir)).toEqual([]);
  });
});
