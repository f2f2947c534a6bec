import { rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import type { Command } from "../../src/process/process.ts";
import type { SandboxPlace } from "../../src/process/sandbox/place.ts";
import type { Sandbox } from "../../src/process/sandbox/sandbox.ts";
import { createProcesses, type ProcessOptions } from "../../src/process/service.ts";
import { temporary, until } from "../harness/project.ts";
import { sandboxesHere } from "../harness/sandboxes.ts";
import { mountSmall } from "../harness/small-disk.ts";
import { night } from "../harness/night.ts";

/** Commands that are held: they stand where they are, take no time, and can be ended all the same. */

// Tier 2 at night: what it adds to 3 is the namespace, which sandbox.test.ts and crash/processes.test.ts look at.
const tiers = (await sandboxesHere()).filter(({ tier }) => night || tier !== 2);

/** A folder with a service's processes around it, and a look at the files that its commands write. */
const scene = (sandbox: Sandbox, more: Partial<ProcessOptions> = {}, folder = temporary().path) => {
  const processes = createProcesses({
    folder: join(folder, "data/processes"),
    keepEnv: process.env,
    sandbox,
    log: silent,
    ...more,
  });
  const place: SandboxPlace = { tree: folder, at: folder, under: () => [], over: () => [] };
  const run = (text: string, extra: Partial<Command> = {}, around: Partial<SandboxPlace> = {}) =>
    processes.run(
      "task_a",
      {
        run: text,
        cwd: folder,
        timeoutMs: 10_000,
        keepBytes: 64 * 1024,
        signal: new AbortController().signal,
        ...extra,
      },
      { ...place, ...around },
    );
  const sizeOf = (name: string): number => statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0;
  const grows = (name: string, from = sizeOf(name)) =>
    until(
      () => Promise.resolve(sizeOf(name)),
      (size) => size > from,
      5000,
    );
  /** A second look would find what has gone on. */
  const stands = async (name: string): Promise<boolean> => {
    const before = sizeOf(name);
    await wait(300);
    return sizeOf(name) === before;
  };
  return {
    folder,
    place,
    processes,
    run,
    sizeOf,
    grows,
    stands,
    async [Symbol.asyncDispose]() {
      await processes.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
};

/** Writes until there is a file `enough`; each leaves in another way what a service could find it by. */
const writers: Record<string, string> = {
  "the command itself": "while [ ! -e enough ]; do echo x >> out; sleep 0.02; done",
  "a child in a session of its own": "setsid -w bash -c 'while [ ! -e enough ]; do echo x >> out; sleep 0.02; done'",
  "a child with an empty environment":
    "env -i PATH=\"$PATH\" bash -c 'while [ ! -e enough ]; do echo x >> out; sleep 0.02; done'",
};

test("a sandbox that finds no room is opened when there is, if all is held for that; else the command has not begun", async ({
  skip,
}) => {
  const folder = temporary();
  const small = mountSmall(join(folder.path, "mount"), "tmpfs", 8);
  const [first] = tiers;
  if (small === undefined || first?.tier !== 1) return skip();
  let holds = true;
  const found: unknown[] = [];
  const full = (error: unknown) => {
    found.push(error);
    if (holds) void processes.hold(true);
  };
  await using here = scene(first, { folder: join(small.path, "data/processes"), full }, folder.path);
  // Unmounted before its folder is removed.
  using disk = small;
  const { processes, run } = here;
  // A file of the sandbox's own, as a repository has some.
  const covering: Partial<SandboxPlace> = { over: () => [{ kind: "text", text: "x", to: "/run/sortie/covered" }] };
  const undo = disk.fill();
  const ran = run("cat /run/sortie/covered", {}, covering);
  await wait(500);
  expect(found).toMatchObject([{ code: "ENOSPC" }]);
  undo();
  await processes.hold(false);
  expect(await ran).toMatchObject({ ended: "exit", output: "x" });
  await processes.killAll("task_a");
  // The control.
  holds = false;
  disk.fill();
  expect(await run("cat /run/sortie/covered", {}, covering)).toMatchObject({
    ended: "not-started",
    output: expect.stringContaining("ENOSPC") as unknown,
  });
  await processes.stop();
});

// They wait for most of their time: they do so side by side.
describe.concurrent.each(tiers)("tier $tier", (sandbox) => {
  test.each(Object.entries(writers))("%s stands still, and goes on", async (_name, text) => {
    await using here = scene(sandbox);
    const { processes, run, grows, stands } = here;
    const ran = run(text);
    await grows("out");
    // The control: it does not stand still by itself.
    expect(await stands("out")).toBe(false);
    await processes.hold(true);
    expect(await stands("out")).toBe(true);
    await processes.hold(false);
    await grows("out");
    await run("touch enough");
    const { ended, exitCode, heldMs = 0 } = await ran;
    expect({ ended, exitCode }).toEqual({ ended: "exit", exitCode: 0 });
    expect(heldMs).toBeGreaterThanOrEqual(300);
  });

  test("what is held takes none of its time; what is new begins afterwards", async () => {
    await using here = scene(sandbox);
    const { processes, run, sizeOf, grows } = here;
    const ran = run("echo x > out; sleep 0.7; echo done", { timeoutMs: 1500 });
    await grows("out", 0);
    await processes.hold(true);
    const later = run("echo x > later");
    await wait(2000);
    expect(sizeOf("later")).toBe(0);
    await processes.hold(false);
    expect(await ran).toMatchObject({ ended: "exit", exitCode: 0, output: "done\n" });
    expect(await later).toMatchObject({ ended: "exit", exitCode: 0 });
    // The control: time that is its own still ends.
    expect(await run("sleep 20", { timeoutMs: 300 })).toMatchObject({ ended: "timeout" });
  });

  test("what is held can be ended: by its caller, with its Task; what waits to begin, too", async () => {
    await using here = scene(sandbox);
    const { processes, run, sizeOf, grows, stands } = here;
    const one = new AbortController();
    const cut = run("while :; do echo x >> one; sleep 0.02; done", { signal: one.signal });
    const killed = run("while :; do echo x >> two; sleep 0.02; done");
    await grows("one");
    await grows("two");
    await processes.hold(true);
    const third = new AbortController();
    const waiting = run("echo x > three", { signal: third.signal });
    one.abort();
    expect(await cut).toMatchObject({ ended: "aborted" });
    third.abort();
    expect(await waiting).toMatchObject({ ended: "aborted" });
    expect(await stands("two")).toBe(true);
    expect((await processes.killAll("task_a")).length).toBeGreaterThan(0);
    expect(await killed).toMatchObject({ ended: "aborted" });
    await processes.hold(false);
    expect(await stands("two")).toBe(true);
    expect(sizeOf("three")).toBe(0);
  });

  test("its want of progress is none of its own; the service's own goes on, and is begun", async () => {
    await using here = scene(sandbox);
    const { processes, run, grows, stands } = here;
    const own = run("while [ ! -e enough ]; do echo x >> own; sleep 0.02; done", {
      apart: "own",
      unheld: true,
      timeoutMs: 20_000,
    });
    const watched = run("echo x > out; sleep 2; echo done", { idleMs: 5000 });
    await grows("own", 0);
    await grows("out", 0);
    await processes.hold(true);
    expect(await stands("own")).toBe(false);
    expect(await run("echo x > later", { apart: "later", unheld: true })).toMatchObject({ ended: "exit", exitCode: 0 });
    await wait(6000);
    await processes.hold(false);
    expect(await watched).toMatchObject({ ended: "exit", output: "done\n" });
    await run("touch enough");
    expect(await own).toMatchObject({ ended: "exit", exitCode: 0 });
    // The control: one that is not held, and gets nowhere.
    expect(await run("sleep 20", { idleMs: 1000 })).toMatchObject({ ended: "timeout", idle: true });
  });

  test("held and let go in any order, it ends as it was told last", async () => {
    await using here = scene(sandbox);
    const { processes, run, grows, stands } = here;
    const ran = run("while [ ! -e enough ]; do echo x >> out; sleep 0.02; done");
    await grows("out");
    await Promise.all([true, false, true, false, true].map((held) => processes.hold(held)));
    expect(await stands("out")).toBe(true);
    await Promise.all([false, true, false].map((held) => processes.hold(held)));
    await grows("out");
    await run("touch enough");
    expect(await ran).toMatchObject({ ended: "exit", exitCode: 0 });
  });

  test("a program that one talks to is held as well", async () => {
    await using here = scene(sandbox);
    const { folder, place, processes, grows, stands } = here;
    const talk = await processes.startInteractive(
      "task_a",
      folder,
      {
        run: "while :; do echo x >> out; sleep 0.02; done",
        env: {},
        home: undefined,
        network: false,
        signal: new AbortController().signal,
      },
      place,
    );
    await grows("out");
    await processes.hold(true);
    expect(await stands("out")).toBe(true);
    await processes.hold(false);
    await grows("out");
    talk.kill();
    await talk.gone;
  });
});
