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
    const done = collect(follow(0, stop.signal), seen);
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
