import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { type Model, type ModelReply, noUsage } from "../../src/model/model.ts";
import { makeProject, temporary, until } from "../harness/project.ts";
import { openTaskService } from "../harness/task-service.ts";

/** Tasks that wait to work in place: the real engine and store, with what they ask of the store counted. */

const done: ModelReply = { ok: true, text: "Done.", calls: [], finish: "end", usage: noUsage };

test("many that wait for one directory ask nothing of the store, take no place, and come one at a time", async () => {
  using root = temporary("sortie-in-place-");
  const directory = makeProject(join(root.path, "project"), { "a.txt": "a\n" });
  const gate = Promise.withResolvers<void>();
  let asking = 0;
  let together = 0;
  const model: Model = {
    ref: "test/held",
    retries: true,
    window: 100_000,
    takes: { images: false, pdf: false, tools: true },
    async reply() {
      asking += 1;
      together = Math.max(together, asking);
      await gate.promise;
      await sleep(2);
      asking -= 1;
      return done;
    },
  };
  let writes = 0;
  const service = await openTaskService({
    folder: join(root.path, "data"),
    model,
    maxRunning: 2,
    before: {
      store: (store) => ({
        ...store,
        claim(...wanted) {
          writes += 1;
          return store.claim(...wanted);
        },
        commit(write) {
          writes += 1;
          return store.commit(write);
        },
      }),
    },
  });
  const create = async (isolation: "directory" | "worktree") =>
    (await service.tasks.create(directory, { request: "work", productPillar: "code", isolation })).body.taskID;
  const taskIDs = [];
  for (let count = 0; count < 30; count += 1) taskIDs.push(await create("directory"));
  await until(
    async () => asking,
    (count) => count === 1,
  );
  await sleep(700);
  const before = writes;
  await sleep(1000);
  expect(writes - before).toBe(0);
  expect(asking).toBe(1);
  const reasons = await Promise.all(
    taskIDs.map(async (taskID) => (await service.tasks.status(taskID)).queue?.reason ?? "runs"),
  );
  expect(reasons.filter((reason) => reason === "waits for another Task in the same directory")).toHaveLength(29);
  // Those that wait leave the second place to others.
  const other = await create("worktree");
  await until(
    async () => asking,
    (count) => count === 2,
  );
  await service.tasks.cancel(directory, taskIDs.pop() ?? "", { mode: "stop" });
  gate.resolve();
  for (const taskID of [...taskIDs, other])
    await until(
      async () => (await service.store.state(taskID))?.lifecycle,
      (lifecycle) => lifecycle === "completed",
    );
  expect(together).toBe(2);
  await service.crash();
});
