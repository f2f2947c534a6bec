import { expect, test } from "vitest";
import type { Recorded } from "../../src/domain/event.ts";
import { createCommitSignal, createFollow } from "../../src/store/feed/follow.ts";

/** The narrow moments of a follower, which writers hit only now and then. */

const scene = () => {
  const bell = createCommitSignal();
  const log: Recorded[] = [];
  const commit = (): void => {
    const position = log.length + 1;
    const data = { reason: "" };
    log.push({ type: "run.stopped", data, position, stream: "a", version: position, at: "" });
    bell.ring(new Set(["a"]));
  };
  return { bell, log, commit };
};

const collect = async (events: AsyncIterable<Recorded>, into: number[]): Promise<void> => {
  for await (const { position } of events) into.push(position);
};

for (const moment of ["position", "since"] as const)
  test(`a commit while the follower asks for ${moment} is seen without another one`, async () => {
    const { bell, log, commit } = scene();
    commit();
    let late = true;
    const asked = (which: "position" | "since") => {
      if (which !== moment || !late) return;
      late = false;
      commit();
    };
    const follow = createFollow(bell, {
      async position() {
        const { length } = log;
        asked("position");
        return length;
      },
      async since(after, limit) {
        const page = log.filter(({ position }) => position > after).slice(0, limit);
        asked("since");
        return page;
      },
    });
    const stop = new AbortController();
    const seen: number[] = [];
    const done = collect(follow(0, stop.signal, moment === "since" ? {} : { types: ["run.stopped"] }), seen);
    await expect.poll(() => seen, { timeout: 1000 }).toEqual([1, 2]);
    commit();
    await expect.poll(() => seen, { timeout: 1000 }).toEqual([1, 2, 3]);
    stop.abort();
    await done;
    expect(bell.listeners()).toBe(0);
  });

test("followers end when their store closes", async () => {
  const { bell, log, commit } = scene();
  commit();
  const follow = createFollow(bell, { position: async () => log.length, since: async () => log });
  const seen: number[] = [];
  const done = collect(follow(0, new AbortController().signal), seen);
  await expect.poll(() => seen).toEqual([1]);
  bell.close();
  await done;
});

test.for([
  { filter: {}, first: ["since"], later: ["since", "since"] },
  { filter: { types: ["run.stopped"] as const }, first: ["position"], later: ["position", "since"] },
])("for a commit, a follower of $filter asks as little as it can", async ({ filter, first, later }) => {
  const { bell, log, commit } = scene();
  const asked: string[] = [];
  const follow = createFollow(bell, {
    async position() {
      asked.push("position");
      return log.length;
    },
    async since(after) {
      asked.push("since");
      return log.filter(({ position }) => position > after);
    },
  });
  const stop = new AbortController();
  const seen: number[] = [];
  const done = collect(follow(0, stop.signal, filter), seen);
  await expect.poll(() => asked).toEqual(first);
  for (const count of [1, 2]) {
    asked.length = 0;
    commit();
    await expect.poll(() => seen).toHaveLength(count);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(asked).toEqual(later);
  }
  stop.abort();
  await done;
});

test("a follower that is far behind gets everything, however pages are cut", async () => {
  const { bell, log, commit } = scene();
  for (let at = 0; at < 100; at += 1) commit();
  const follow = createFollow(bell, {
    position: async () => log.length,
    since: async (after) => log.filter(({ position }) => position > after).slice(0, 3),
  });
  const stop = new AbortController();
  const seen: number[] = [];
  const done = collect(follow(0, stop.signal), seen);
  await expect.poll(() => seen).toHaveLength(100);
  stop.abort();
  await done;
});
