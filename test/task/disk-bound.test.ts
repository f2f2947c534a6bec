import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import type { CommandResult } from "../../src/process/process.ts";
import { createDiskBound, unbounded, withDiskBound } from "../../src/task/workspace/disk-bound.ts";
import type { Usage } from "../../src/workspace/usage/measure.ts";
import { defaultLimits } from "../../src/protocol/limit.ts";

/** The bound of one Task, over a disk and files whose sizes the test says. */

const mib = 1024 ** 2;
const limit = 100 * mib;

const open = (more: { isUnknown?: boolean; bytes?: number } = {}) => {
  const world = { free: 10_000 * mib, bytes: more.bytes ?? 1 * mib, steps: 0, measured: 0, looked: 0, broken: false };
  const bound = createDiskBound({
    limit,
    isUnknown: more.isUnknown ?? false,
    measure(): Promise<Usage> {
      world.measured += 1;
      if (world.broken) return Promise.reject(new Error("cannot be measured"));
      const { bytes } = world;
      return Promise.resolve({ bytes, files: 1, parts: [{ name: "target", bytes }] });
    },
    free: () => world.free,
    look() {
      world.looked += 1;
      return Promise.resolve();
    },
    steps: () => world.steps,
  });
  /** The Task writes so much, and the disk has so much less. */
  const grow = (bytes: number) => {
    world.bytes += bytes;
    world.free -= bytes;
  };
  return { world, bound, grow };
};

/** A command that goes on until it is ended. */
const endless = async (signal: AbortSignal): Promise<string> => {
  while (!signal.aborted) await wait(10);
  return "ended";
};

test("small steps of a small tree cost nothing: nothing is measured or looked at", async () => {
  const { world, bound } = open();
  for (let step = 0; step < 1000; step += 1) {
    world.free -= 1000;
    expect(await bound.during(() => Promise.resolve(step))).toEqual({ value: step, over: undefined, ended: false });
  }
  expect([world.measured, world.looked]).toEqual([0, 0]);
  expect(await bound.failure()).toBeUndefined();
});

test("what others write is looked at, and is nothing of the Task's", async () => {
  const { world, bound } = open();
  world.free -= 5000 * mib;
  expect(await bound.during(() => Promise.resolve(1))).toMatchObject({ over: undefined });
  expect(world.measured).toBe(1);
  await bound.during(() => Promise.resolve(1));
  expect(world.measured).toBe(1);
});

test("a command that outgrows the bound is ended while it runs", async () => {
  const { world, bound, grow } = open();
  const running = bound.during(endless);
  await wait(150);
  expect(world.looked).toBeGreaterThan(0);
  grow(60 * mib);
  await wait(1300);
  expect(world.measured).toBeGreaterThan(0);
  grow(60 * mib);
  const { value, over, ended } = await running;
  expect([value, over?.bytes, ended]).toEqual(["ended", 121 * mib, true]);
  expect(bound.isOver()).toBe(true);
});

test("files that were there before the run are measured with the first command", async () => {
  const { world, bound } = open({ isUnknown: true, bytes: 200 * mib });
  await bound.during(() => Promise.resolve(1));
  await wait(0);
  expect(world.measured).toBe(1);
  expect(await bound.failure()).toMatchObject({ code: "disk_exceeded" });
});

test("what is too much may be removed, in three steps; then the Task fails, and says of what", async () => {
  const { world, bound, grow } = open();
  grow(150 * mib);
  expect(await bound.during(() => Promise.resolve(1))).toMatchObject({ over: { bytes: 151 * mib }, ended: false });
  expect(bound.stopReason()).toBeUndefined();
  for (const step of [1, 2]) {
    world.steps = step;
    // A command may run as long as it makes it not much worse.
    expect(await bound.during(() => Promise.resolve(1))).toMatchObject({ ended: false });
    expect(bound.stopReason()).toBeUndefined();
  }
  const worse = bound.during(endless);
  grow(20 * mib);
  expect(await worse).toMatchObject({ ended: true });
  world.steps = 3;
  expect(bound.stopReason()).toMatchObject({
    code: "disk_exceeded",
    message: expect.stringMatching(
      /take 171\.0 MiB .* may have 100\.0 MiB .*limits\.taskDiskBytes.*target 171\.0 MiB/,
    ) as unknown,
  });
  // Removed by whatever means, it is over.
  grow(-100 * mib);
  expect(await bound.failure()).toBeUndefined();
  expect([bound.stopReason(), bound.isOver()]).toEqual([undefined, false]);
});

test("what others free meanwhile hides nothing", async () => {
  const { world, bound, grow } = open();
  const command = bound.during(endless);
  grow(40 * mib);
  await wait(250);
  world.free += 500 * mib;
  await wait(250);
  expect(world.measured).toBe(0);
  grow(80 * mib);
  expect(await command).toMatchObject({ over: { bytes: 121 * mib }, ended: true });
});

test("a suspicion is looked into, whatever the disk says", async () => {
  const { world, bound } = open();
  world.bytes = 150 * mib;
  expect(await bound.failure()).toBeUndefined();
  expect(await bound.failure(true)).toMatchObject({ code: "disk_exceeded" });
});

test("what cannot be measured fails nothing", async () => {
  const { world, bound, grow } = open();
  world.broken = true;
  grow(500 * mib);
  expect(await bound.during(() => Promise.resolve(1))).toEqual({ value: 1, over: undefined, ended: false });
  expect(await bound.failure()).toBeUndefined();
});

test("the agent reads why its command was ended, and what to do", async () => {
  const result: CommandResult = {
    exitCode: null,
    output: "so far\n",
    stdout: "",
    dropped: 0,
    ended: "aborted",
    durationMs: 1,
  };
  const { bound, grow } = open();
  const place = withDiskBound(
    { bound, limits: { ...defaultLimits, taskDiskBytes: limit } },
    {
      async run({ signal }) {
        grow(150 * mib);
        await endless(signal);
        return result;
      },
    },
  );
  const command = { run: "x", cwd: "/", timeoutMs: 1, keepBytes: 1, signal: new AbortController().signal };
  const told = await place.run(command);
  expect(told.ended).toBe("disk");
  expect(told.output).toMatch(
    /^so far\n\n\[The Task's files take 151\.0 MiB.*Remove what is not needed.*3 more steps\.\]$/,
  );
  // The control: without a bound nothing ends it but its caller.
  const stop = new AbortController();
  const free = withDiskBound(
    { bound: unbounded, limits: defaultLimits },
    { run: async ({ signal }) => endless(signal).then(() => result) },
  );
  setTimeout(() => stop.abort(), 200);
  expect(await free.run({ ...command, signal: stop.signal })).toEqual(result);
});
