import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Frame } from "../../src/protocol/event/frame.ts";
import type { TaskStatus } from "../../src/protocol/task/status.ts";
import { makeProject, readText, temporary, until } from "../harness/project.ts";
import { startMockProvider } from "../harness/double/mock-provider.ts";
import { startProcess } from "./process.ts";
import { night } from "../harness/night.ts";

/**
 * Tasks that wait for an answer cost no place, and wait on through a kill. At night more of them than a service has
 * places.
 */

const places = night ? 64 : 2;
const waiters = night ? 70 : 4;

test("more Tasks wait than there are places; a kill loses no ask, answers go on once", {
  timeout: 120_000,
}, async () => {
  using root = temporary("sortie-waiting-");
  const provider = await startMockProvider(({ turn, first }) =>
    first.includes("ask me") && turn === 0
      ? {
          calls: [
            { tool: "shell", input: { command: "echo ran >> ran.txt" } },
            { tool: "shell", input: { command: "cp release deployed.txt" } },
          ],
        }
      : { text: "Done." },
  );
  const config = join(root.path, "config.jsonc");
  writeFileSync(
    config,
    JSON.stringify({
      model: "mock/large",
      providers: { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } },
      permissions: { ask: ["shell(cp release deployed.txt)"] },
    }),
  );
  const env = {
    SERVICE_DATA_DIR: join(root.path, "data"),
    SERVICE_CONFIG: config,
    SERVICE_MAX_RUNNING: String(places),
    HOME: root.path,
  };
  // Landing on one branch, each would have to rebase on the others.
  const project = makeProject(join(root.path, "project"), { release: "deployed\n" });
  const first = await startProcess(env);
  const ask = async <T>(url: string, path: string, body?: object): Promise<T> => {
    const headers = { "content-type": "application/json", "x-service-directory": project };
    const sent = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
    const response = await fetch(`${url}${path}`, sent);
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as T;
  };
  const create = async (url: string, request: string) => {
    const body = { request, productPillar: "code", landing: "branch" };
    return (await ask<{ taskID: string }>(url, "/task", body)).taskID;
  };
  const statusIs = (url: string, taskID: string, phase: TaskStatus["phase"]) =>
    until(
      () => ask<TaskStatus>(url, `/task/${taskID}/status`),
      (status) => status.phase === phase,
      60_000,
    );
  const taskIDs: string[] = [];
  for (let index = 0; index < waiters; index++) taskIDs.push(await create(first.url, `ask me ${index}`));
  const asked = await Promise.all(
    taskIDs.map(async (taskID) => (await statusIs(first.url, taskID, "waiting")).pending),
  );
  const other = await create(first.url, "something else");
  expect(await statusIs(first.url, other, "settled")).toMatchObject({ lifecycleStatus: "completed" });

  await first.kill("SIGKILL");
  await using second = await startProcess(env);
  const still = await Promise.all(
    taskIDs.map(async (taskID) => (await ask<TaskStatus>(second.url, `/task/${taskID}/status`)).pending),
  );
  expect(still).toEqual(asked);
  await Promise.all(
    taskIDs.map((taskID, index) =>
      ask(second.url, `/task/${taskID}/pending/${asked[index]?.[0]?.id}`, { decision: index === 0 ? "deny" : "allow" }),
    ),
  );
  for (const [index, taskID] of taskIDs.entries()) {
    expect(await statusIs(second.url, taskID, "settled")).toMatchObject({ lifecycleStatus: "completed", pending: [] });
    const page = `/task/${taskID}/events?format=json&after=0&limit=1000`;
    const { events } = await ask<{ events: Frame[] }>(second.url, page);
    const ends = events.flatMap((event) => (event.type === "tool.finished" ? [event.data.outcome] : []));
    // The last one is the reviewer's.
    expect(ends).toEqual(["ok", index === 0 ? "error" : "ok", "ok"]);
    const tree = join(env.SERVICE_DATA_DIR, "worktrees", taskID);
    expect(readText(tree, "ran.txt")).toBe("ran\n");
    if (index > 0) expect(readText(tree, "deployed.txt")).toBe("deployed\n");
    else expect(() => readText(tree, "deployed.txt")).toThrow("ENOENT");
  }
  await provider.close();
});
