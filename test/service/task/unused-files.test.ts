import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { findProgram } from "../../../src/process/sandbox/sandbox.ts";
import { createTask, post, settledTask } from "../../harness/double/hostile-text.ts";
import { git, makeProject, temporary, until } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** A Task that ends while its files are made, as those of a large project are for seconds, leaves none of them. */

const root = temporary("sortie-unused-");
const slow = join(root.path, "slow");
const data = join(root.path, "data");
let env: Record<string, string>;
let service: TestService;

beforeAll(async () => {
  const bin = join(root.path, "bin");
  mkdirSync(bin);
  const real = findProgram("git", process.env["PATH"] ?? "");
  // While the file is there, what fills a worktree leaves a lock and goes on for a minute.
  const script = `#!/bin/bash
if [ -e '${slow}' ] && [[ "$*" == *read-tree*--reset* ]]; then
  ${real} "$@"; : > "$GIT_DIR/index.lock"; : > '${slow}.began'; exec sleep 60
fi
exec ${real} "$@"
`;
  writeFileSync(join(bin, "git"), script, { mode: 0o755 });
  env = { PATH: `${bin}:${process.env["PATH"]}` };
  service = await startService(data, env);
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  root[Symbol.dispose]();
});

const change = { request: "Replace `one` with `two` in a.txt" };

const left = (taskID: string, directory: string): string[] => [
  ...readdirSync(join(data, "worktrees")).filter((name) => name.startsWith(taskID)),
  ...git(directory, "for-each-ref", "--format=%(refname)")
    .split("\n")
    .filter((ref) => ref.includes(taskID)),
];
const nothingLeft = (taskID: string, directory: string) =>
  until(
    async () => left(taskID, directory),
    (found) => found.length === 0,
  );

const begun = async (directory: string): Promise<string> => {
  writeFileSync(slow, "");
  const taskID = await createTask(service.url, directory, change);
  await until(
    async () => existsSync(`${slow}.began`),
    (began) => began,
  );
  rmSync(`${slow}.began`);
  rmSync(slow);
  expect(left(taskID, directory).length).toBeGreaterThan(2);
  return taskID;
};

test("cancelled meanwhile, nothing is left of it, and a message begins anew; control: one that worked keeps its files", async () => {
  const directory = makeProject(join(root.path, "p"), { "a.txt": "one\n" });
  const taskID = await begun(directory);
  expect((await post(service.url, `/task/${taskID}/cancel`, directory, { surface: "test" })).status).toBeLessThan(300);
  expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "cancelled" });
  await nothingLeft(taskID, directory);

  await post(service.url, `/task/${taskID}/message`, directory, { source: "user", text: change.request });
  expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
  expect(git(directory, "show", "HEAD:a.txt")).toBe("two");
  expect(left(taskID, directory)).toContain(taskID);
});

test("after a death of the service meanwhile, nothing is left of one that is cancelled at the next start", async () => {
  const directory = makeProject(join(root.path, "q"), { "a.txt": "one\n" });
  const taskID = await begun(directory);
  await service[Symbol.asyncDispose]();
  expect(left(taskID, directory).length).toBeGreaterThan(2);
  writeFileSync(slow, "");
  service = await startService(data, env);
  await post(service.url, `/task/${taskID}/cancel`, directory, { surface: "test" });
  expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "cancelled" });
  rmSync(slow);
  await nothingLeft(taskID, directory);
});
