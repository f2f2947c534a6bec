import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { doctor } from "../../../src/cli/doctor/doctor.ts";
import { createScreen } from "../../../src/cli/terminal/screen.ts";
import { removalFailuresIn } from "../../../src/workspace/worktree/removal-failure.ts";
import { at, createTask, makeLab, post, send, settledTask, shell } from "../../harness/double/hostile-text.ts";
import { makeProject, readText, until, writeFiles } from "../../harness/project.ts";
import { startService } from "../../harness/service.ts";

/** Worktrees that should go and cannot: named on the Task and for the doctor, and gone once they can be. */

let lab: Awaited<ReturnType<typeof makeLab>>;
let dataDir: string;
let env: Record<string, string>;
beforeAll(async () => {
  lab = await makeLab();
  dataDir = join(lab.root, "kept");
  env = { SERVICE_CONFIG: join(lab.root, "config.jsonc") };
  const providers = { mock: { kind: "openai-compatible", baseURL: lab.provider.baseURL, apiKey: "none" } };
  const config = { model: "mock/large", providers, workspace: { retentionHours: 0 } };
  writeFiles(lab.root, { "config.jsonc": JSON.stringify(config) });
});
afterAll(() => lab[Symbol.asyncDispose]());

const left = (): string[] =>
  [join(dataDir, "kept"), join(dataDir, "worktrees")].flatMap((folder) =>
    existsSync(folder) ? readdirSync(folder).filter((name) => !name.endsWith(".json")) : [],
  );
const detailOf = async (url: string, taskID: string) => (await send(url, `/task/${taskID}`)).body;
const nothingLeft = () =>
  until(
    () => Promise.resolve(left()),
    (names) => names.length === 0,
  );

test("a tree with files that Git does not hold is named, until they are gone; control: another goes unnamed", async () => {
  const directory = makeProject(lab.folder(), { "a.txt": "one\n" });
  const nested = "echo n > n.txt; git init -q nested; echo 1 > nested/f";
  let taskID: string;
  {
    await using service = await startService(dataDir, env);
    taskID = await createTask(service.url, directory, lab.request([shell(nested)]));
    const plain = await createTask(service.url, directory, lab.request([shell("echo p > p.txt")]));
    for (const id of [taskID, plain]) await settledTask(service.url, id);
    const reason = "these paths cannot be committed: nested/";
    const detail = await until(
      () => detailOf(service.url, taskID),
      ({ worktreeKept }) => worktreeKept !== undefined,
    );
    expect(detail["worktreeKept"]).toEqual({ reason, since: expect.any(String) as string });
    expect(removalFailuresIn(dataDir)).toMatchObject([{ key: taskID, reason }]);
    const findings: Parameters<NonNullable<Parameters<typeof doctor>[2]>>[0][] = [];
    await doctor({ port: Number(new URL(service.url).port), dataDir }, createScreen(process.stdout, true), (finding) =>
      findings.push(finding),
    );
    const words = JSON.stringify(findings.filter(({ text }) => text.includes(taskID)));
    expect(words).toContain("nested/");
    expect(JSON.stringify(findings)).not.toContain(plain);
    expect(await detailOf(service.url, plain)).not.toHaveProperty("worktreeKept");
  }
  rmSync(join(dataDir, "worktrees", taskID, "nested"), { recursive: true });
  await using service = await startService(dataDir, env);
  await nothingLeft();
  expect(await detailOf(service.url, taskID)).not.toHaveProperty("worktreeKept");
});

/** What nobody can remove while it stands. */
const mounted = (folder: string): boolean => {
  mkdirSync(folder);
  return spawnSync("mount", ["-t", "tmpfs", "tmpfs", folder]).status === 0;
};

test("a check leaves what nobody can remove: its Task and the next attempt complete, and it is named until it can go", async ({
  skip,
}) => {
  const directory = makeProject(lab.folder(), { "a.txt": "one\n" });
  const config = join(lab.root, "tier3.jsonc");
  const providers = { mock: { kind: "openai-compatible", baseURL: lab.provider.baseURL, apiKey: "none" } };
  const settings = { providers, sandbox: { tier: 3 }, workspace: { retentionHours: 0 } };
  writeFileSync(config, JSON.stringify(settings));
  const data = join(lab.root, "left");
  const tree = (taskID: string) => join(data, "worktrees", `${taskID}.checkout`);
  const probe = join(lab.root, "probe");
  if (!mounted(probe)) return skip("nothing can be mounted here");
  spawnSync("umount", [probe]);
  await using service = await startService(data, { SERVICE_CONFIG: config });
  const taskID = await createTask(service.url, directory, {
    ...lab.request([shell("echo n > n.txt"), { text: "Done." }, shell("echo m > m.txt")]),
    checks: ["one", "two"].map((id) => ({
      id,
      kind: "test",
      run: `mkdir -p held; mount -t tmpfs tmpfs held; ls ${id}.txt n.txt || ls n.txt`,
    })),
  });
  const unmount = () => spawnSync("sh", ["-c", `grep -o '[^ ]*${taskID}[^ ]*/held' /proc/mounts | xargs -r umount -l`]);
  try {
    expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
    await post(service.url, `/task/${taskID}/message`, directory, { source: "user", text: "once more" });
    expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
    expect(readText(directory, "m.txt")).toBe("m\n");
    // After the first attempt it may have been named for what the second was doing.
    await until(
      () => detailOf(service.url, taskID),
      ({ worktreeKept }) => JSON.stringify(worktreeKept ?? "").includes("held"),
    );
  } finally {
    unmount();
  }
  expect((await send(service.url, at(`/task/${taskID}`, directory), { method: "DELETE" })).status).toBe(200);
  expect([`${tree(taskID)}.aside`, tree(taskID)].filter((path) => existsSync(path))).toEqual([]);
});

test("DELETE of a Task whose files cannot be removed: the Task goes, what stays is named, and goes later", async ({
  skip,
}) => {
  const directory = makeProject(lab.folder(), { "a.txt": "one\n" });
  {
    await using service = await startService(dataDir, env);
    const taskID = await createTask(
      service.url,
      directory,
      lab.request([shell("git init -q nested; echo 1 > nested/f")]),
    );
    await settledTask(service.url, taskID);
    const held = join(dataDir, "worktrees", taskID, "held");
    if (!mounted(held)) return skip("nothing can be mounted here");
    try {
      const removed = await send(service.url, at(`/task/${taskID}`, directory), { method: "DELETE" });
      expect(removed.status, JSON.stringify(removed.body)).toBe(200);
      expect((await send(service.url, at(`/task/${taskID}`, directory))).status).toBe(404);
      const named = removalFailuresIn(dataDir).filter(({ key }) => key === taskID);
      expect(named).toMatchObject([{ reason: expect.stringContaining("held") as string }]);
    } finally {
      for (const place of [held, held.replace(taskID, `${taskID}.gone`)]) spawnSync("umount", [place]);
    }
  }
  await using _service = await startService(dataDir, env);
  await nothingLeft();
});

test("what cannot be removed among the temporary files keeps no service from starting", async ({ skip }) => {
  const held = join(dataDir, "tmp", "held");
  mkdirSync(join(dataDir, "tmp"), { recursive: true });
  if (!mounted(held)) return skip("nothing can be mounted here");
  try {
    // The control: they are what every start removes.
    expect(() => rmSync(join(dataDir, "tmp"), { recursive: true })).toThrow("busy");
    await using service = await startService(dataDir, env);
    expect((await send(service.url, "/health")).status).toBe(200);
  } finally {
    spawnSync("umount", [held]);
  }
});
