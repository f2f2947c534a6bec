import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { findProgram } from "../../../src/process/sandbox/sandbox.ts";
import { createTask, logOf, settledTask } from "../../harness/double/hostile-text.ts";
import { type MockProvider, startMockProvider } from "../../harness/double/mock-provider.ts";
import { night, sampleByDay } from "../../harness/night.ts";
import { git, gitEnv, makeProject, temporary } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** A Task whose git is ended from outside, as the kernel does for want of memory: at one call, or at every one. */

const root = temporary("sortie-git-dies-");
const counted = join(root.path, "calls");
const deadly = join(root.path, "deadly");
let provider: MockProvider;
let service: TestService;

beforeAll(async () => {
  provider = await startMockProvider(({ turn }) =>
    turn === 0 ? { calls: [{ tool: "write", input: { path: "b.txt", content: "b\n" } }] } : { text: "Done." },
  );
  const bin = join(root.path, "bin");
  mkdirSync(bin);
  const real = findProgram("git", process.env["PATH"] ?? "");
  // Each call has a number; the one whose number is in the file, or all from it on, dies before it does anything.
  const script = `#!/bin/bash
if [ -e '${counted}' ]; then
  exec 8>>'${counted}.lock'; flock 8
  echo "$*" >>'${counted}'; number=$(wc -l <'${counted}')
  flock -u 8
  if [ -e '${deadly}' ]; then die=$(<'${deadly}'); else die=0; fi
  if [ "$die" = "$number" ] || [ "$number" -ge "\${die#from }" -a "$die" != "\${die#from }" ]; then kill -9 $$; fi
fi
exec ${real} "$@"
`;
  writeFileSync(join(bin, "git"), script, { mode: 0o755 });
  const config = join(root.path, "config.jsonc");
  const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" };
  writeFileSync(config, JSON.stringify({ model: "mock/large", providers: { mock }, sandbox: { tier: 3 } }));
  const path = `${bin}:${process.env["PATH"]}`;
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config, PATH: path });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

let count = 0;
/** The whole Task, with a git that dies at the given call. */
const played = async (dies: string) => {
  const directory = makeProject(join(root.path, `p${(count += 1)}`), { "a.txt": "a\n" });
  writeFileSync(deadly, dies);
  writeFileSync(counted, "");
  const taskID = await createTask(service.url, directory, {
    request: "Write b.txt",
    checks: [{ kind: "command", run: "test -e b.txt" }],
  });
  const status = await settledTask(service.url, taskID, 60_000);
  const calls = readFileSync(counted, "utf8").trim().split("\n");
  rmSync(counted);
  const fsck = spawnSync("git", ["fsck", "--strict"], { cwd: directory, env: gitEnv(root.path) }).status;
  const left = [".git/index.lock", ".git/HEAD.lock", ".git/refs/heads/main.lock"].filter((path) =>
    existsSync(join(directory, path)),
  );
  return { taskID, directory, status, calls, whole: [fsck, git(directory, "status", "--porcelain"), left] };
};

test("at any one call the Task lands all the same; control: where none dies so many calls are made", async () => {
  const plain = await played("0");
  expect(plain.status.lifecycleStatus, plain.status.error).toBe("completed");
  const calls = plain.calls.map((_, at) => String(at + 1));
  console.log(`a git that dies: ${calls.length} calls a Task`);
  expect(calls.length).toBeGreaterThan(5);
  const ends: unknown[] = [];
  for (const dies of sampleByDay("a git that dies", calls, 2)) {
    const { status, calls: made, whole } = await played(dies);
    const shown = made[Number(dies) - 1]?.slice(-60);
    const { lifecycleStatus, error } = status;
    if (lifecycleStatus !== "completed" || String(whole) !== String([0, "", []]))
      ends.push({ dies, shown, error, whole });
  }
  expect(ends).toEqual([]);
});

// At night alone: it waits for the engine's pauses.
test.runIf(night)(
  "at every call but those of the request the Task fails after four runs, and the project is as it was",
  { timeout: 60_000 },
  async () => {
    const { taskID, directory, status, whole } = await played("from 3");
    expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "internal" } });
    expect(status.error).toContain("was killed by SIGKILL");
    const log = await logOf(service.url, taskID);
    expect(log.filter(({ type }) => type === "run.started")).toHaveLength(4);
    expect(git(directory, "log", "--format=%s")).toBe("first");
    expect(whole).toEqual([0, "", []]);
  },
);
