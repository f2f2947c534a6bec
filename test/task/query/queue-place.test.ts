import { expect, test } from "vitest";
import type { TaskSummary } from "../../../src/protocol/task/status.ts";
import { withQueuePlaces } from "../../../src/task/query/queue-place.ts";
import type { Offer, Placed } from "../../../src/store/node.ts";

/** What a Task waits for, as a node says it that has no space. */

const shortage = "waits for space on the disk";
const now = new Date("2026-01-01T00:00:00.000Z");
const offer: Offer = { configuration: null, tier: 1, browser: true, hasSpace: true };
const up: Placed = { node: "b", seenAt: now.toISOString(), isUp: true, movable: false };

type Where = { placed?: Placed; isFree?: boolean; takers?: ReadonlyMap<string, Offer> };

const reasonOf = async (where: Where | undefined): Promise<string | undefined> => {
  const nodes = {
    name: "a",
    elsewhere: () => Promise.resolve(new Map(where?.placed === undefined ? [] : [["task_1", where.placed]])),
    takers: () =>
      Promise.resolve(
        where?.takers ??
          new Map([
            ["a", offer],
            ["b", offer],
          ]),
      ),
    unplaced: () => Promise.resolve(new Map(where?.isFree === true ? [["task_1", null]] : [])),
  };
  const store = {
    places: () => Promise.resolve(new Map([["task_1", { ahead: 0, due: { at: now, rank: 1 } }]])),
    ...(where === undefined ? {} : { nodes }),
    bounds: undefined,
  };
  const task: Pick<TaskSummary, "taskID" | "phase" | "queue" | "now"> = {
    taskID: "task_1",
    phase: "queued",
    queue: null,
    now: null,
  };
  const [found] = await withQueuePlaces(store as never, [task], now, shortage);
  return found?.queue?.reason;
};

test("a node's want of space is said of its own Tasks, not of those that another node runs or may take", async () => {
  expect(await reasonOf(undefined)).toBe(shortage);
  expect(await reasonOf({})).toBe(shortage);
  expect(await reasonOf({ placed: up })).toBe("waits for a slot");
  expect(await reasonOf({ isFree: true })).toBe("waits for a slot");
  // Where nobody else could take it, it is said by name.
  expect(await reasonOf({ isFree: true, takers: new Map([["a", { ...offer, hasSpace: false }]]) })).toBe(
    "waits for a node like the one that accepted it: a has no room on its disk",
  );
});
