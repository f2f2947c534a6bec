import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { makeProject, temporary, until } from "../harness/project.ts";
import { startService } from "../harness/service.ts";
import { change, create, ended, place, send } from "./stage.ts";

/** `limits.running` and `limits.runningPerProject`, as callers and operators meet them. */

const configure = (dataDir: string, limits: Record<string, number>): void => {
  mkdirSync(dataDir, { recursive: true });
  writeFileSync(join(dataDir, "config.jsonc"), JSON.stringify({ limits }));
};

const project = (path: string): string => makeProject(path, { "a.txt": "one\n", "package.json": "{}" });

/** How many of the Tasks ran at the same time at most, by their events. */
const mostAtOnce = async (service: { url: string }, tasks: readonly string[]): Promise<number> => {
  const changes: { at: number; by: 1 | -1 }[] = [];
  for (const taskID of tasks) {
    const { text } = await send(service, "GET", `/task/${taskID}/events?format=json&limit=500`);
    const { events } = JSON.parse(text) as { events: { type: string; at: string }[] };
    const at = (type: string) => Date.parse(events.find((event) => event.type === type)?.at ?? "");
    changes.push({ at: at("run.started"), by: 1 }, { at: at("task.settled"), by: -1 });
  }
  expect(changes.every(({ at }) => at > 0)).toBe(true);
  let now = 0;
  return Math.max(...changes.toSorted((a, b) => a.at - b.at || a.by - b.by).map(({ by }) => (now += by)));
};

const slow = { landing: "branch", checks: ["sleep 0.4"] };

test.each([
  { limits: { runningPerProject: 1 }, most: 1, reason: "at most 1 Task of its project may run at the same time" },
  { limits: { running: 2 }, most: 2, reason: "at most 2 Tasks may run at the same time" },
  { limits: {}, most: 3, reason: undefined },
])("one service with $limits runs $most at the same time, and says what the others wait for", async (given) => {
  using folder = temporary("sortie-limit-");
  const data = join(folder.path, "data");
  configure(data, given.limits);
  await using service = await startService(data);
  const directory = project(join(folder.path, "p"));
  const tasks: string[] = [];
  while (tasks.length < 3) tasks.push(await create(service, directory, change, slow));
  if (given.reason !== undefined) {
    const { body } = await until(
      () => send(service, "GET", `/task/${tasks.at(-1)}/status`),
      ({ body: { queue } }) => queue !== null,
    );
    expect(body).toMatchObject({
      phase: "queued",
      queue: { reason: `waits for a slot: ${given.reason}` },
      now: { kind: "queue", text: expect.stringContaining(given.reason) as string },
    });
    const another = await create(service, project(join(folder.path, "q")), change, slow);
    if ("runningPerProject" in given.limits)
      await until(
        () => send(service, "GET", `/task/${another}/status`),
        ({ body: { phase } }) => phase !== "queued",
      );
  }
  for (const taskID of tasks)
    expect((await ended(service, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
  expect(await mostAtOnce(service, tasks)).toBe(given.most);
});

test.skipIf(postgresURL === undefined)(
  "three nodes run no more of a project than one, whichever was asked, and go on at once when one ends",
  { timeout: 90_000 },
  async () => {
    await using here = await place();
    const names = ["a", "b", "c"];
    for (const name of names) configure(join(here.path, name), { runningPerProject: 2 });
    await using a = await here.start("a");
    await using b = await here.start("b");
    await using c = await here.start("c");
    const nodes = [a, b, c];
    const directory = here.project("p");
    const tasks: string[] = [];
    for (let count = 0; count < 9; count += 1) tasks.push(await create(nodes[count % 3] ?? a, directory, change, slow));
    for (const [index, taskID] of tasks.entries())
      expect((await ended(nodes[(index + 1) % 3] ?? a, taskID)).body).toMatchObject({ lifecycleStatus: "completed" });
    expect(await mostAtOnce(a, tasks)).toBe(2);
  },
);
if (postgresURL === undefined) countSkipped(1);
