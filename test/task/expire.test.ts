import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { type Model, noUsage } from "../../src/model/model.ts";
import { createExpirySweep } from "../../src/task/operation/ended/expire.ts";
import { makeProject, temporary, until } from "../harness/project.ts";
import { openTaskService } from "../harness/task-service.ts";

/** What `limits.keepDays` deletes: the real store, Tasks and worktrees; the days are the test's. */

const day = 24 * 3_600_000;

test("a Task goes so many days after its last change, with its branch; one that runs, and one that was changed since, stay", async () => {
  using root = temporary("sortie-expire-");
  const directory = makeProject(join(root.path, "project"), { "a.txt": "a\n" });
  const gate = Promise.withResolvers<void>();
  const model: Model = {
    ref: "test/held",
    retries: true,
    window: 100_000,
    takes: { images: false, pdf: false, tools: true },
    async reply({ messages }) {
      if (JSON.stringify(messages).includes("hold on")) await gate.promise;
      return { ok: true, text: "Done.", calls: [], finish: "end", usage: noUsage };
    },
  };
  const service = await openTaskService({ folder: join(root.path, "data"), model });
  const create = async (request: string) =>
    (await service.tasks.create(directory, { request, productPillar: "code" })).body.taskID;
  const [ended, other, held] = [await create("work"), await create("work"), await create("hold on")];
  for (const taskID of [ended, other])
    await until(
      async () => (await service.store.state(taskID))?.lifecycle,
      (lifecycle) => lifecycle === "completed",
    );
  const branches = () => execFileSync("git", ["branch", "--list", "sortie/*"], { cwd: directory, encoding: "utf8" });
  expect(branches()).toContain(ended);
  const sweep = async (days: number, keepDays: number) => {
    await using own = createExpirySweep({
      tasks: service.tasks,
      store: service.store,
      keepDays,
      log: silent,
      now: () => new Date(Date.now() + days * day),
    });
    await own.begin();
  };

  await sweep(2.9, 3);
  expect(await service.store.state(ended)).toBeDefined();
  // Between the page and its turn somebody has changed it.
  const changed = (await service.store.state(other))?.updatedAt;
  expect(await service.tasks.expire(other, new Date(changed ?? Number.NaN))).toBe(false);
  await sweep(3.1, 3);
  expect(await service.store.state(ended)).toBeUndefined();
  expect(await service.store.state(other)).toBeUndefined();
  expect(branches()).not.toContain(ended);
  expect((await service.store.state(held))?.lifecycle).toBe("active");
  expect(await service.tasks.expire(held, new Date(Date.now() + day))).toBe(false);
  gate.resolve();
  await until(
    async () => (await service.store.state(held))?.lifecycle,
    (lifecycle) => lifecycle === "completed",
  );
  await service.crash();
});
