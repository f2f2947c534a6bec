import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import { type Clock, createClock } from "../../../src/clock.ts";
import { makeProject, temporary } from "../../harness/project.ts";
import { type MockProvider, startMockProvider } from "../../harness/double/mock-provider.ts";
import { startService, type TestService } from "../../harness/service.ts";

/**
 * A machine whose clock is set while Tasks run and wait. The control is a service that believes the machine's clock.
 */

const hour = 3_600_000;
let provider: MockProvider;
let root: ReturnType<typeof temporary>;
let places = 0;
/** Requests wait until the test lets them go. */
let gate = Promise.withResolvers<void>();

beforeAll(async () => {
  root = temporary("sortie-clock-");
  provider = await startMockProvider(async ({ turn }) => {
    await gate.promise;
    return turn === 0 ? { calls: [{ tool: "glob", input: { pattern: "*" } }] } : { text: "Done." };
  });
});
afterAll(async () => {
  await provider.close();
  root[Symbol.dispose]();
});

type Machine = { ahead: number };
const steady = (machine: Machine): Clock => createClock({ wall: () => Date.now() + machine.ahead });
const believing =
  (machine: Machine): Clock =>
  () =>
    new Date(Date.now() + machine.ahead);

const open = (data: string, clock: Clock): Promise<TestService> => {
  const config = join(root.path, "config.jsonc");
  const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" };
  writeFileSync(config, JSON.stringify({ providers: { mock } }));
  return startService(data, { SERVICE_CONFIG: config, SERVICE_MAX_RUNNING: "1" }, clock);
};

/** One Task runs and the other waits for its place. */
const begin = async (service: TestService, directory: string): Promise<string[]> => {
  gate = Promise.withResolvers();
  const client = createServiceClient({ baseUrl: service.url, directory });
  const taskIDs: string[] = [];
  for (const request of ["first", "second"]) {
    const { data } = await client.task.create({
      body: { request, productPillar: "code", model: "mock/large", landing: "branch", budget: { maxMinutes: 10 } },
    });
    taskIDs.push(data?.taskID ?? "");
  }
  await expect
    .poll(async () => (await client.task.get({ path: { taskID: taskIDs[0] ?? "" } })).data?.phase, { timeout: 10_000 })
    .toBe("working");
  return taskIDs;
};

const ends = async (service: TestService, directory: string, taskIDs: string[], ms: number): Promise<unknown[]> => {
  gate.resolve();
  const client = createServiceClient({ baseUrl: service.url, directory });
  const until = performance.now() + ms;
  return Promise.all(
    taskIDs.map(async (taskID) => {
      const left = Math.max(100, Math.ceil(until - performance.now()));
      const { data } = await client.task.wait({ path: { taskID }, timeoutMs: left });
      return data?.errorInfo?.code ?? data?.lifecycleStatus ?? "none";
    }),
  );
};

const played = async (clockOf: (machine: Machine) => Clock, step: number, ms: number): Promise<unknown[]> => {
  const place = join(root.path, String((places += 1)));
  const directory = makeProject(join(place, "project"), { "a.txt": "one\n" });
  const machine = { ahead: 0 };
  await using service = await open(join(place, "data"), clockOf(machine));
  const taskIDs = await begin(service, directory);
  machine.ahead += step;
  return await ends(service, directory, taskIDs, ms);
};

test("an hour back holds up nothing that waits", async () => {
  expect(await played(steady, -hour, 15_000)).toEqual(["completed", "completed"]);
  expect(await played(believing, -hour, 1500)).toEqual(["completed", "none"]);
});

test("two days forth use up no budget", async () => {
  expect(await played(steady, 48 * hour, 15_000)).toEqual(["completed", "completed"]);
  expect(await played(believing, 48 * hour, 15_000)).toContain("budget_reached");
});

test("started an hour earlier than it ended, it goes on at once", async () => {
  const place = join(root.path, String((places += 1)));
  const directory = makeProject(join(place, "project"), { "a.txt": "one\n" });
  const before = await open(join(place, "data"), steady({ ahead: hour }));
  const taskIDs = await begin(before, directory);
  await before.close();
  await using service = await open(join(place, "data"), steady({ ahead: 0 }));
  expect(await ends(service, directory, taskIDs, 15_000)).toEqual(["completed", "completed"]);
});
