import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import type { TaskState } from "../../src/domain/state/task.ts";
import { silent } from "../../src/log.ts";
import { createRetention } from "../../src/task/workspace/retention.ts";
import { until } from "../harness/project.ts";

/** The order in which worktrees are tidied; what each takes is the test's to say. */

const ids = Array.from({ length: 12 }, (_, at) => `task_${at}`);

const open = (list: () => Promise<string[]>, retentionHours = 0) => {
  const world = { now: 0, together: 0, removed: [] as string[], stuck: "task_3" };
  const retention = createRetention({
    store: { state: () => Promise.resolve(undefined) },
    workspaces: {
      listWorktrees: list,
      hasWorktree: () => true,
      isMarkedForRemoval: () => true,
      unmarkForRemoval() {},
      retire: () => Promise.reject(new Error("not part of this test")),
      removeUnused: () => Promise.resolve(false),
      async remove(taskID) {
        world.now += 1;
        world.together = Math.max(world.together, world.now);
        await sleep(20);
        world.now -= 1;
        if (taskID === world.stuck) throw new Error("EACCES");
        world.removed.push(taskID);
      },
    },
    retentionHours,
    log: silent,
    now: () => new Date(),
  });
  return Object.assign(world, { retention });
};

test("several worktrees go at a time, and one that cannot go holds up none", async () => {
  const world = open(() => Promise.resolve(ids));
  await using _retention = world.retention;
  await until(
    async () => world.removed.length,
    (count) => count === 11,
  );
  expect([world.together, world.removed.includes("task_3")]).toEqual([4, false]);
});

test("one that could not go is tried again by the hour; control: not before", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  let lists = 0;
  const world = open(() => Promise.resolve((lists += 1) > 0 ? ids : []), 8);
  await using _retention = world.retention;
  const gone = (count: number) =>
    until(
      async () => world.removed.length,
      (removed) => removed === count,
    );
  await gone(11);
  world.stuck = "";
  vi.advanceTimersByTime(3_599_999);
  expect([lists, world.removed.includes("task_3")]).toEqual([1, false]);
  vi.advanceTimersByTime(1);
  await gone(23);
  expect(world.removed).toContain("task_3");
});

test("worktrees that could not be listed keep none from going later", async () => {
  const world = open(() => Promise.reject(new Error("EMFILE")));
  await using _retention = world.retention;
  await sleep(20);
  world.retention.settled("task_1");
  world.retention.settled("task_1");
  await until(
    async () => world.removed,
    (removed) => removed.length > 0,
  );
  expect(world.removed).toEqual(["task_1"]);
});

test("a Task in place has no worktree that is kept; control: of one that has, it is said why", async () => {
  const ended = (kind: string) => ({ lifecycle: "completed", settledAt: "2026-01-01T00:00:00Z", workspace: { kind } });
  const said: unknown[] = [];
  let judged = 0;
  await using retention = createRetention({
    store: { state: async (taskID) => ended(taskID === "task_1" ? "directory" : "worktree") as unknown as TaskState },
    workspaces: {
      listWorktrees: () => Promise.resolve([]),
      hasWorktree: () => true,
      isMarkedForRemoval: () => false,
      unmarkForRemoval() {},
      removeUnused: () => Promise.resolve(false),
      async retire(_, judge) {
        await judge();
        judged += 1;
        return { removed: false, reason: "it is being read" };
      },
      remove: () => Promise.reject(new Error("not part of this test")),
    },
    retentionHours: 0,
    log: { ...silent, warn: (fields) => said.push(fields) },
    now: () => new Date(),
  });
  retention.settled("task_1");
  retention.settled("task_2");
  await until(
    async () => judged,
    (count) => count === 2,
  );
  await sleep(20);
  expect(said).toEqual([{ taskID: "task_2", reason: "it is being read" }]);
});

test("a Task that was deleted since it ended has no worktree that is kept; control: one that stands without a Task is named", async () => {
  const said: unknown[] = [];
  const looked: string[] = [];
  await using retention = createRetention({
    store: { state: () => Promise.resolve(undefined) },
    workspaces: {
      listWorktrees: () => Promise.resolve([]),
      hasWorktree(taskID) {
        looked.push(taskID);
        return taskID === "task_2";
      },
      isMarkedForRemoval: () => false,
      unmarkForRemoval() {},
      retire: () => Promise.reject(new Error("not part of this test")),
      removeUnused: () => Promise.resolve(false),
      remove: () => Promise.reject(new Error("not part of this test")),
    },
    retentionHours: 0,
    log: { ...silent, warn: (fields) => said.push(fields) },
    now: () => new Date(),
  });
  retention.settled("task_1");
  retention.settled("task_2");
  await until(
    async () => looked.length,
    (count) => count === 2,
  );
  await sleep(20);
  expect(said).toEqual([
    { taskID: "task_2", reason: "no Task with this id is known, so its work may still be needed" },
  ]);
});
