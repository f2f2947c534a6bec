import { chmodSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { silent } from "../../src/log.ts";
import { createRunnerClient } from "../../src/process/runner/client.ts";
import { openSandbox } from "../../src/process/runner/sandbox.ts";

let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "sortie-box-"));
});

afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(root, { recursive: true, force: true });
});

test("a sandbox that ends while its pipes are being made is told as gone after they are made: nothing is left in its folder", async () => {
  // given: mkfifo is slow, and what holds the sandbox ends at once
  const [bin, folder] = [mkdtempSync(join(root, "bin-")), mkdtempSync(join(root, "box-"))];
  const mkfifo = join(bin, "mkfifo");
  writeFileSync(mkfifo, `#!/bin/sh\nsleep 0.3\nPATH="$ORDINARY" exec mkfifo "$@"\n`);
  chmodSync(mkfifo, 0o755);
  vi.stubEnv("ORDINARY", process.env.PATH);
  vi.stubEnv("PATH", `${bin}:${process.env.PATH}`);
  const told: string[] = [];

  // when
  const gone = Promise.withResolvers<void>();
  const box = openSandbox({ box: "box", file: "true", args: [], env: {}, folder }, () => {
    told.push("gone");
    gone.resolve();
  });
  box.start(
    1,
    { file: "true", args: [], cwd: "/", env: {} },
    {
      started: () => told.push("started"),
      output: () => true,
      exit: () => told.push("exit"),
      close: () => told.push("close"),
      failed: () => told.push("failed"),
      lost: () => told.push("lost"),
    },
  );
  await gone.promise;

  // then
  expect(readdirSync(folder)).toHaveLength(3);
  rmSync(folder, { recursive: true });
  await delay(500);
  expect(readdirSync(root)).toEqual([bin.slice(root.length + 1)]);
  expect(told).toEqual(["gone", "failed"]);
});

/** What a command hears that is started in a sandbox which has ended already. */
const startLate = async (sandbox: string): Promise<string> => {
  const client = createRunnerClient(silent);
  const { promise: gone, resolve } = Promise.withResolvers<void>();
  const { promise: heard, resolve: hear } = Promise.withResolvers<string>();
  client.open({ box: "box", file: "sh", args: ["-c", sandbox], env: {}, folder: root }, (news) => {
    if (news.gone === true) resolve();
  });
  await gone;
  client.start(
    { box: "box", file: "true", args: [], cwd: "/", env: {} },
    {
      started: () => {},
      output: () => {},
      exit: () => {},
      close: () => {},
      failed: (message) => hear(message),
      lost: () => hear("lost"),
    },
  );
  const found = await heard;
  client.close();
  return found;
};

test("a command that comes after the end of a sandbox which never started is told why", async () => {
  expect(await startLate("echo gone >&2; exit 1")).toBe("The sandbox could not be started: gone. Nothing was run.");
});

test("control: of one that ended without a word the command is lost, and its caller tries another", async () => {
  expect(await startLate("exit 0")).toBe("lost");
});

test("a listener that throws does not keep another command from being heard", async () => {
  const problems: string[] = [];
  const client = createRunnerClient({ ...silent, error: (_, message) => problems.push(message) });
  const heard = Promise.withResolvers<string>();
  const one = (output: () => void, close: () => void) =>
    client.start(
      { file: "echo", args: ["text"], cwd: "/", env: { PATH: process.env.PATH ?? "" } },
      { started: () => {}, output, exit: () => {}, close, failed: close, lost: close },
    );
  one(
    () => {
      throw new Error("no space");
    },
    () =>
      one(
        () => heard.resolve("text"),
        () => {},
      ),
  );
  expect(await heard.promise).toBe("text");
  client.close();
  expect(problems).toEqual(["a listener to the command runner failed"]);
});
