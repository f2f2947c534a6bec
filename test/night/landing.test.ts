import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startProcess } from "../crash/process.ts";
import { createTask, logOf, settledTask } from "../harness/double/hostile-text.ts";
import { type MockProvider, startMockProvider } from "../harness/double/mock-provider.ts";
import { git, makeProject, temporary, until } from "../harness/project.ts";
import { seededRandom } from "../harness/random.ts";

/** A service that is stopped within a large landing. */

const count = 4000;

let provider: MockProvider;
beforeAll(async () => {
  provider = await startMockProvider(({ turn }) => {
    const command = "for f in d/*; do echo new > $f; done";
    return turn === 0 ? { calls: [{ tool: "shell", input: { command } }] } : { text: "Done." };
  });
});
afterAll(() => provider.close());

test("SIGTERM: within its time the landing is done or has not begun, and Git is free", {
  timeout: 600_000,
}, async () => {
  const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
  console.log(`stopped landing: TEST_SEED=${seed}`);
  const random = seededRandom(seed);
  const ends: string[] = [];
  for (const delayMs of [random.below(3000), "locked"] as const) {
    using root = temporary("sortie-night-");
    const files = Object.fromEntries(Array.from({ length: count }, (_, at) => [`d/f${at}`, `old ${at}\n`]));
    const project = makeProject(join(root.path, "project"), files);
    const config = join(root.path, "config.jsonc");
    const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
    writeFileSync(config, JSON.stringify({ model: "mock/large", providers }));
    const env = { SERVICE_DATA_DIR: join(root.path, "data"), SERVICE_CONFIG: config, HOME: root.path };
    let taskID = "";
    {
      await using service = await startProcess(env);
      taskID = await createTask(service.url, project, { request: "all of them" });
      const begun = (types: string[]) => types.includes("landing.started");
      await until(async () => (await logOf(service.url, taskID)).map(({ type }) => type), begun, 120_000);
      if (delayMs !== "locked") await wait(delayMs);
      else while (!existsSync(join(project, ".git/index.lock"))) await wait(1);
      const from = performance.now();
      await service.kill("SIGTERM");
      expect(performance.now() - from, `after ${delayMs}`).toBeLessThan(10_000);
      expect(service.child.exitCode).toBe(0);
    }
    const left = readdirSync(join(project, ".git")).filter((name) => /\.lock$|^sortie/.test(name));
    expect(left, `after ${delayMs}`).toEqual([]);
    expect(git(project, "status", "--porcelain")).toBe("");
    ends.push(git(project, "rev-list", "--count", "HEAD") === "2" ? "done" : "not begun");
    await using again = await startProcess(env);
    expect(await settledTask(again.url, taskID, 120_000)).toMatchObject({ lifecycleStatus: "completed" });
    expect(git(project, "status", "--porcelain")).toBe("");
    expect(git(project, "show", "--shortstat", "--format=", "HEAD")).toContain(`${count} files changed`);
  }
  console.log(`stopped landing: ${ends.join(", ")}`);
});
