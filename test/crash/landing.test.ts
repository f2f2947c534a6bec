import { existsSync, mkdirSync, readdirSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { at, createTask, logOf, post, send, settledTask, statusOf } from "../harness/double/hostile-text.ts";
import { type MockProvider, startMockProvider } from "../harness/double/mock-provider.ts";
import { night } from "../harness/night.ts";
import { git, makeProject, readText, temporary, until } from "../harness/project.ts";
import { startProcess } from "./process.ts";

/** What becomes of a landing whose service died in the middle of it, for its own Task and for the others. */

let provider: MockProvider;
beforeAll(async () => {
  // `[name]` changes the files that begin so; then a word in the message says what comes of it.
  provider = await startMockProvider(({ body, first, turn }) => {
    const name = /\[(\w+)\]/.exec(first)?.[1] ?? "";
    if (JSON.stringify(body.messages.at(-1)).includes("otherwise")) return { text: "I do something else." };
    const wait = first.includes("slowly") ? "sleep 1; " : "";
    const command = `${wait}for f in ${name}*.txt; do echo ${name} > $f; done`;
    return turn === 0 ? { calls: [{ tool: "shell", input: { command } }] } : { text: "Done." };
  });
});
afterAll(() => provider.close());

const place = (root: string) => {
  const files = Object.fromEntries(["a", "b"].flatMap((name) => [1, 2, 3, 4].map((n) => [`${name}${n}.txt`, "old\n"])));
  const project = makeProject(join(root, "project"), files);
  const config = join(root, "config.jsonc");
  writeFileSync(
    config,
    JSON.stringify({
      model: "mock/large",
      providers: { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } },
    }),
  );
  return {
    project,
    env: { SERVICE_DATA_DIR: join(root, "data"), SERVICE_CONFIG: config, HOME: root, SERVICE_MAX_RUNNING: "1" },
  };
};

/** Where the service dies right after `landing.started`: as far as it would have come, had it lived a moment longer. */
const half = (project: string, taskID: string) => {
  writeFileSync(join(project, ".git", "index.lock"), `sortie ${taskID}\n`);
  writeFileSync(join(project, ".git", `sortie-${taskID}.index`), "half");
  for (const path of ["a1.txt", "a2.txt"]) writeFileSync(join(project, path), "a\n");
};

const leftOver = (project: string) =>
  readdirSync(join(project, ".git")).filter((name) => name.endsWith(".lock") || name.startsWith("sortie-"));
const typesOf = async (url: string, taskID: string) => (await logOf(url, taskID)).map(({ type }) => type);

describe.concurrent("killed within a landing", { timeout: 60_000 }, () => {
  test("another Task that comes first finishes it, and then lands itself", async () => {
    using root = temporary("sortie-crash-");
    const { project, env } = place(root.path);
    let taskID = "";
    let other = "";
    {
      await using service = await startProcess({ ...env, TEST_KILL_ON: "landing.started" });
      taskID = await createTask(service.url, project, { request: "[a] slowly" });
      other = await createTask(service.url, project, { request: "[b]", priority: "critical" });
      await service.gone;
    }
    half(project, taskID);
    await using again = await startProcess(env);
    const status = await settledTask(again.url, other);
    expect(status, status.error).toMatchObject({ lifecycleStatus: "completed" });
    expect(await settledTask(again.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
    expect(git(project, "log", "--format=%s")).toBe("[b]\n[a] slowly\nfirst");
    expect(git(project, "status", "--porcelain")).toBe("");
    expect(readText(project, "a4.txt") + readText(project, "b4.txt")).toBe("a\nb\n");
    expect(leftOver(project)).toEqual([]);
  });

  test("again and again: the Task fails, and the project is as it was before", async () => {
    using root = temporary("sortie-crash-");
    const { project, env } = place(root.path);
    let taskID = "";
    {
      await using service = await startProcess({ ...env, TEST_KILL_ON: "landing.started" });
      taskID = await createTask(service.url, project, { request: "[a]" });
      await service.gone;
    }
    half(project, taskID);
    for (let deaths = 2; deaths <= 3; deaths += 1) {
      await using service = await startProcess({ ...env, TEST_KILL_ON: "run.started" });
      await service.gone;
    }
    // Control: so far nobody has taken anything back.
    expect(git(project, "status", "--porcelain")).toBe(" M a1.txt\n M a2.txt");
    await using again = await startProcess(env);
    const status = await settledTask(again.url, taskID);
    expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "crash_loop" } });
    const runs = (await logOf(again.url, taskID)).filter(({ type }) => type === "run.started");
    expect(runs.map(({ data }) => "alone" in data)).toEqual([false, false, true]);
    expect((await typesOf(again.url, taskID)).slice(-2)).toEqual(["landing.withdrawn", "task.settled"]);
    expect(git(project, "status", "--porcelain")).toBe("");
    expect(leftOver(project)).toEqual([]);
    const path = at(`/task/${taskID}`, project);
    expect((await send(again.url, path, { method: "DELETE" })).status).toBe(200);
    expect(git(project, "log", "--format=%s")).toBe("first");
  });

  test("neither finished nor taken back: the Task waits for that, and no death is counted", async () => {
    using root = temporary("sortie-crash-");
    const { project, env } = place(root.path);
    let taskID = "";
    {
      await using service = await startProcess({ ...env, TEST_KILL_ON: "landing.started" });
      taskID = await createTask(service.url, project, { request: "[a]" });
      await service.gone;
    }
    half(project, taskID);
    // Where its own file is to be, as in a Git directory that became read-only.
    const bar = join(project, ".git", `sortie-${taskID}.lock`);
    mkdirSync(bar);
    await using again = await startProcess(env);
    await until(
      () => typesOf(again.url, taskID),
      (types) => types.filter((type) => type === "run.stopped").length > 1,
      30_000,
    );
    await until(
      () => statusOf(again.url, taskID),
      ({ now }) => now?.text.startsWith("Its landing on main is half done") === true,
      30_000,
    );
    rmdirSync(bar);
    const status = await settledTask(again.url, taskID, 30_000);
    expect(status, status.error).toMatchObject({ lifecycleStatus: "completed" });
    const log = await logOf(again.url, taskID);
    const said = log.flatMap(({ type, data }) => (type === "run.stopped" && "reason" in data ? [data.reason] : []));
    expect(said[0]).toContain("the landing still has to be taken back");
    expect(log.filter(({ type, data }) => type === "run.started" && "alone" in data)).toEqual([]);
    expect(git(project, "status", "--porcelain")).toBe("");
    expect(leftOver(project)).toEqual([]);
  });

  // At night alone: it is tried for a minute and a half.
  if (night)
    test("a lock of somebody else's over half a landing: the Task waits for it, and nothing fails", {
      timeout: 300_000,
    }, async () => {
      using root = temporary("sortie-crash-");
      const { project, env } = place(root.path);
      let taskID = "";
      {
        await using service = await startProcess({ ...env, TEST_KILL_ON: "landing.started" });
        taskID = await createTask(service.url, project, { request: "[a]" });
        await service.gone;
      }
      half(project, taskID);
      const lock = join(project, ".git", "index.lock");
      writeFileSync(lock, "DIRC");
      await using again = await startProcess(env);
      const stopped = (types: string[]) => types.filter((type) => type === "run.stopped").length > 0;
      await until(() => typesOf(again.url, taskID), stopped, 150_000);
      rmSync(lock);
      const status = await settledTask(again.url, taskID, 100_000);
      expect(status, status.error).toMatchObject({ lifecycleStatus: "completed" });
      expect(git(project, "status", "--porcelain")).toBe("");
      expect(leftOver(project)).toEqual([]);
    });

  test("what failed is over: a later message is read before anything lands", async () => {
    using root = temporary("sortie-crash-");
    const { project, env } = place(root.path);
    let taskID = "";
    {
      await using service = await startProcess({ ...env, TEST_KILL_ON: "landing.started" });
      taskID = await createTask(service.url, project, { request: "[a]" });
      await service.gone;
    }
    half(project, taskID);
    // Without an index no landing can go on.
    rmSync(join(project, ".git", "index"));
    await using again = await startProcess(env);
    expect(await settledTask(again.url, taskID)).toMatchObject({ lifecycleStatus: "failed" });
    git(project, "reset", "-q");
    expect(git(project, "status", "--porcelain")).toBe("");
    expect(leftOver(project)).toEqual([]);
    const before = await typesOf(again.url, taskID);
    expect(
      await post(again.url, `/task/${taskID}/message`, project, { source: "user", text: "otherwise" }),
    ).toMatchObject({
      status: 202,
    });
    await settledTask(again.url, taskID);
    const after = (await typesOf(again.url, taskID)).slice(before.length);
    expect(before).toContain("landing.withdrawn");
    const order = ["message.received", "reply.finished", "landing.started", "landing.finished"] as const;
    expect(order.map((type) => after.indexOf(type))).toEqual(
      order.map((type) => after.indexOf(type)).toSorted((one, other) => one - other),
    );
    expect(after).toContain("landing.finished");
    expect(existsSync(join(project, ".git", "index.lock"))).toBe(false);
  });
});
