import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { createProcesses } from "../../src/process/service.ts";
import type { CommandResult } from "../../src/process/process.ts";
import type { Sandbox } from "../../src/process/sandbox/sandbox.ts";
import { containerHere, withContainer } from "../harness/container.ts";
import { inImage } from "../harness/image.ts";
import { temporary, until } from "../harness/project.ts";
import { sandboxesHere } from "../harness/sandboxes.ts";
import { alive, endAll, formNames, leaving, newToken } from "./forms.ts";
import { night } from "../harness/night.ts";

/**
 * T17: whatever a command leaves behind, in fourteen forms, is gone when it ends, runs out of time, is cancelled, or
 * its service is killed or stopped. By day a part of it; `test/crash/processes.test.ts` does the same to a whole
 * service.
 */

const here = await sandboxesHere();
const scratch = temporary();
afterAll(() => scratch[Symbol.dispose]());
const tier1 = here.find(({ tier }) => tier === 1);
const all = [
  ...here.map((sandbox) => ({ sandbox, tier: sandbox.tier, named: String(sandbox.tier) })),
  ...(tier1 === undefined ? [] : [{ sandbox: await inImage(tier1), tier: 1, named: "image" }]),
  ...(withContainer ? [{ sandbox: await containerHere(scratch.path, scratch.path), tier: 1, named: "container" }] : []),
];
const ends = night ? (["end", "timeout", "cancel"] as const) : (["end", "cancel"] as const);
/** A daemon without a trace of where it came from is found by nobody where it has no namespace to end with. */
const lost = (tier: number) => (tier === 3 ? ["a daemon"] : []);

const open = (sandbox: Sandbox, folder: string) => {
  const tree = join(folder, "tree");
  mkdirSync(tree, { recursive: true });
  const place = { tree, at: tree, under: () => [], over: () => [] };
  const options = { folder: join(folder, "processes"), runID: folder, keepEnv: process.env, sandbox, log: silent };
  return { tree, place, processes: createProcesses(options) };
};

const allOf = (token: string) => expect.poll(() => alive(token), { timeout: 15_000, interval: 20 }).toEqual(formNames);
const onlyLost = (token: string, tier: number) =>
  expect.poll(() => alive(token), { timeout: 2000, interval: 20 }).toEqual(lost(tier));

test("T17: control: a bare spawn leaves all fourteen", async () => {
  using folder = temporary();
  const token = newToken();
  const child = spawn("bash", ["-c", `${leaving(token)}\nexit`], { cwd: folder.path, stdio: "ignore" });
  await new Promise((resolve) => child.once("exit", resolve));
  try {
    await allOf(token);
  } finally {
    endAll(token);
  }
  await expect.poll(() => alive(token)).toEqual([]);
});

describe.each(all)("T17: in tier $named", ({ sandbox, tier, named }) => {
  test.each(ends)("a command: %s", { timeout: 30_000 }, async (how) => {
    using folder = temporary();
    const { tree, place, processes } = open(sandbox, folder.path);
    const token = newToken();
    const abort = new AbortController();
    const running = processes.run(
      "task_a",
      {
        run: `${leaving(token)}\nuntil [ -e go ]; do sleep 0.05; done`,
        cwd: tree,
        // A container takes seconds to open on a busy machine, and they count.
        timeoutMs: how !== "timeout" ? 60_000 : named === "container" ? 15_000 : 6000,
        keepBytes: 1000,
        signal: abort.signal,
      },
      place,
    );
    await allOf(token);
    if (how === "end") writeFileSync(join(tree, "go"), "");
    if (how === "cancel") abort.abort();
    const expected: Record<string, CommandResult["ended"]> = { end: "exit", timeout: "timeout", cancel: "aborted" };
    expect((await running).ended).toBe(expected[how]);
    // One that shed all its descriptors is looked for when the Task's run ends.
    if (tier === 3) await processes.killAll("task_a");
    await onlyLost(token, tier);
    endAll(token);
    await processes.stop();
  });

  test("beside a command in the background: when the Task's run ends", { timeout: 30_000 }, async () => {
    using folder = temporary();
    const { tree, place, processes } = open(sandbox, folder.path);
    const token = newToken();
    const { signal } = new AbortController();
    const base = { cwd: tree, timeoutMs: 60_000, keepBytes: 1000, signal };
    const background = processes.run("task_a", { ...base, run: `echo $$; exec sleep 600` }, place);
    const ran = processes.run(
      "task_a",
      { ...base, run: `${leaving(token)}\nuntil [ -e go ]; do sleep 0.05; done; echo done` },
      place,
    );
    await allOf(token);
    writeFileSync(join(tree, "go"), "");
    expect(await ran).toMatchObject({ ended: "exit", exitCode: 0, stdout: "done\n" });
    // What has a mark or its group is gone with its command, the rest with the Task's run.
    const later = [
      "a daemon",
      "a daemon that keeps what it does not know",
      "no environment",
      "no environment, another session",
      "every descriptor closed",
    ];
    expect(alive(token).filter((name) => !later.includes(name))).toEqual([]);
    await processes.killAll("task_a");
    expect((await background).ended).toBe("aborted");
    await onlyLost(token, tier);
    endAll(token);
    await processes.stop();
  });

  test.each(["end", "cancel"] as const)("an external agent: %s", { timeout: 30_000 }, async (how) => {
    using folder = temporary();
    const { tree, place, processes } = open(sandbox, folder.path);
    const token = newToken();
    const abort = new AbortController();
    const run = `${leaving(token)}\nread -r line; exit 0`;
    const talk = { run, env: {}, home: undefined, network: false, signal: abort.signal };
    const talking = await processes.startInteractive("task_a", tree, talk, place);
    talking.stdout.resume();
    await allOf(token);
    if (how === "end") talking.stdin.write("go\n");
    else abort.abort();
    await talking.gone;
    if (tier === 3) await processes.killAll("task_a");
    await onlyLost(token, tier);
    endAll(token);
    await processes.stop();
  });

  test.each(
    (["run", "talk"] as const).flatMap((kind) =>
      (["SIGKILL", "SIGTERM"] as const).flatMap((signal) => (night || signal === "SIGKILL" ? [{ kind, signal }] : [])),
    ),
  )("$kind: $signal of the service", { timeout: 40_000 }, async ({ kind, signal }) => {
    using folder = temporary();
    const token = newToken();
    const script = fileURLToPath(new URL("./survivor-owner.ts", import.meta.url));
    const args = [script, named, folder.path, kind, token];
    const owner = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    const gone = new Promise((resolve) => owner.once("exit", resolve));
    // It has found its sandbox.
    await Promise.race([once(owner.stdout, "data"), gone]);
    await allOf(token);
    owner.kill(signal);
    await gone;
    if (tier === 3) {
      const next = open(sandbox, folder.path);
      await next.processes.endLeftovers();
      await next.processes.stop();
    }
    await onlyLost(token, tier);
    endAll(token);
    await until(
      () => Promise.resolve(alive(token)),
      (left) => left.length === 0,
    );
  });
});
