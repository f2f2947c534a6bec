import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Frame } from "../../src/protocol/event/frame.ts";
import { processesOf, startProcess } from "../crash/process.ts";
import { git, makeProject, readText, until } from "../harness/project.ts";
import {
  at,
  createTask,
  expectWhole,
  logOf,
  makeLab,
  post,
  refsOf,
  send,
  settledTask,
  shell,
  statusOf,
} from "../harness/double/hostile-text.ts";
import { invariants } from "../harness/invariants.ts";
import { startService, type TestService } from "../harness/service.ts";

/** Too much of everything, and commands that come at the wrong moment or all at once. */

let lab: Awaited<ReturnType<typeof makeLab>>;
let service: TestService;
const tasks = new Map<string, string>();
beforeAll(async () => {
  lab = await makeLab({ streams: 500, streamsPerClient: 500, streamsPerTask: 100, archives: 100 });
  service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config, SERVICE_MAX_RUNNING: "5" });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await lab[Symbol.asyncDispose]();
});

const project = () => makeProject(lab.folder(), { "a.txt": "one\n" });
const create = async (directory: string, body: Record<string, unknown>): Promise<string> => {
  const taskID = await createTask(service.url, directory, body);
  tasks.set(taskID, directory);
  return taskID;
};
const settled = (taskID: string) => settledTask(service.url, taskID, 60_000);
const callsOf = async (taskID: string) => {
  const { body } = await send(service.url, `/task/${taskID}/messages?limit=200`);
  return (body["messages"] as { calls: { state: string; output: string }[] }[]).flatMap(({ calls }) => calls);
};
const completed = { lifecycleStatus: "completed" };

test("commands that write 50 MB, bytes, 200,000 lines", { timeout: 60_000 }, async () => {
  const taskID = await create(project(), {
    ...lab.request([
      {
        calls: [
          { tool: "shell", input: { command: "head -c 50000000 /dev/zero | tr '\\0' x" } },
          { tool: "shell", input: { command: "head -c 5000000 /dev/urandom" } },
          { tool: "shell", input: { command: "seq 200000; seq 10 >&2" } },
        ],
      },
    ]),
    checks: ["head -c 50000000 /dev/urandom"],
  });
  expect(await settled(taskID)).toMatchObject({ ...completed, checks: [{ state: "passed" }] });
  const calls = await callsOf(taskID);
  expect(calls.map(({ state }) => state)).toEqual(["ok", "ok", "ok"]);
  expect(calls[2]?.output).toContain("199999\n200000");
  for (const { output } of calls) expect(output.length).toBeLessThan(200_000);
  const frames = await logOf(service.url, taskID);
  for (const frame of frames) expect(JSON.stringify(frame).length).toBeLessThan(128 * 1024);
});

test("commands that will not end, and what they fork, are ended", { timeout: 60_000 }, async () => {
  const taskID = await create(project(), {
    ...lab.request([
      shell("trap '' TERM INT HUP; while :; do sleep 1; done", { timeoutSeconds: 1 }),
      shell("(setsid sh -c 'trap \"\" TERM; setsid sleep 300 & sleep 300' &) ; nohup sleep 300 & disown; echo started"),
      shell("for i in $(seq 50); do sleep 300 & done; exit 3"),
      shell("exec sleep 300", { timeoutSeconds: 1 }),
    ]),
    checks: [{ kind: "test", run: "sleep 300", timeoutSeconds: 1, required: false }, "test -f a.txt"],
  });
  const status = await settled(taskID);
  expect(status).toMatchObject({ ...completed, checks: [{ state: "failed" }, { state: "passed" }] });
  expect((await callsOf(taskID)).map(({ state }) => state)).toEqual(["error", "ok", "error", "error"]);
  expect(processesOf(service.dataDir)).toEqual([]);
});

test("a request of 256 KiB, a reply of 200 KB, an input of 300 KB", { timeout: 60_000 }, async () => {
  const directory = project();
  const { request, model } = lab.request([
    { text: "r".repeat(200_000), calls: [{ tool: "write", input: { path: "big.txt", content: "y".repeat(300_000) } }] },
    { text: "s".repeat(200_000) },
  ]);
  const full = `${request} ${"é".repeat(200_000)}`.slice(0, (256 * 1024 - request.length) / 2);
  const taskID = await create(directory, { request: full, model });
  expect(await settled(taskID)).toMatchObject(completed);
  expect(readText(directory, "big.txt")).toBe("y".repeat(300_000));
  const tooMuch = await post(service.url, "/task", directory, { request: "é".repeat(140_000), productPillar: "code" });
  expect(tooMuch.status).toBe(400);
  const zip = await fetch(`${service.url}${at(`/task/${taskID}/project-archive`, directory)}`);
  expect(zip.status).toBe(200);
  await zip.arrayBuffer();
});

test("30 messages at once to a running Task and to a settled one: each read exactly once", {
  timeout: 60_000,
}, async () => {
  const directory = project();
  const taskID = await create(directory, lab.request([shell("sleep 0.5"), { text: "First." }]));
  const storm = async (name: string) => {
    const sent = await Promise.all(
      Array.from({ length: 30 }, (_, index) =>
        post(service.url, `/task/${taskID}/message`, directory, {
          source: "storm",
          text: `${name}-${index}`,
          onBusy: ["auto", "queue", "interrupt"][index % 3],
        }),
      ),
    );
    for (const { status, body } of sent) expect(status, JSON.stringify(body)).toBe(202);
    expect(new Set(sent.map(({ body }) => body["messageID"])).size).toBe(30);
    await settled(taskID);
    const frames = await logOf(service.url, taskID);
    const texts = frames.flatMap((frame) =>
      frame.type === "message.received" ? [JSON.stringify(frame.data.text)] : [],
    );
    for (let index = 0; index < 30; index += 1)
      expect(texts.filter((text) => text === `"${name}-${index}"`)).toHaveLength(1);
    // The last word was said with all of them read.
    const lastMessage = frames.findLastIndex(({ type }) => type === "message.received");
    expect(frames.slice(lastMessage).some(({ type }) => type === "reply.finished")).toBe(true);
    const last = lab.provider.requests.findLast(({ body }) => JSON.stringify(body.messages).includes(`${name}-0`));
    const said = JSON.stringify(last?.body.messages);
    for (let index = 0; index < 30; index += 1)
      expect(said.split(`${name}-${index}"`).length - 1 + said.split(`${name}-${index}\\n`).length - 1).toBe(1);
    return sent.map(({ body }) => body["disposition"]);
  };
  await until(
    () => statusOf(service.url, taskID),
    ({ git: place }) => place.baseCommit != null,
  );
  await storm("run");
  const dispositions = await storm("settled");
  expect(dispositions.filter((disposition) => disposition === "restarted").length).toBeGreaterThanOrEqual(1);
});

test("50 cancels and messages at once: contained, one end", { timeout: 60_000 }, async () => {
  for (const turns of [[shell("sleep 5")], [{ text: "x", latencyMs: 300 }], []]) {
    const directory = project();
    const taskID = await create(directory, { ...lab.request(turns), checks: ["sleep 0.2"] });
    await wait(Math.random() * 300);
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        index % 5 === 4
          ? post(service.url, `/task/${taskID}/message`, directory, {
              source: "storm",
              text: `m${index}`,
              onBusy: "reject",
            })
          : post(service.url, `/task/${taskID}/cancel`, directory, { mode: index % 2 === 0 ? "stop" : "wrap_up" }),
      ),
    );
    for (const { status, body } of answers) expect([200, 202, 409], JSON.stringify(body)).toContain(status);
    const status = await settled(taskID);
    expect(["cancelled", "completed"]).toContain(status.lifecycleStatus);
    const frames = await logOf(service.url, taskID);
    const restarts = answers.filter(({ body }) => body["disposition"] === "restarted").length;
    expect(frames.filter(({ type }) => type === "task.settled")).toHaveLength(restarts + 1);
  }
});

test("PATCH, DELETE, messages and cancels race", { timeout: 60_000 }, async () => {
  const directory = project();
  for (let round = 0; round < 15; round += 1) {
    const taskID = await createTask(service.url, directory, lab.request([shell(`echo ${round} > n.txt`)]));
    if (round % 2 === 0) await settled(taskID);
    const remove = () => send(service.url, at(`/task/${taskID}`, directory), { method: "DELETE" });
    const answers = await Promise.all([
      send(service.url, at(`/task/${taskID}`, directory), { method: "PATCH", body: { title: "x", priority: "low" } }),
      post(service.url, `/task/${taskID}/message`, directory, { source: "race", text: "again" }),
      remove(),
      post(service.url, `/task/${taskID}/cancel`, directory, {}),
      remove(),
      send(service.url, at(`/task/${taskID}`, directory), { method: "PATCH", body: { archived: true } }),
    ]);
    for (const { status, body } of answers) expect([200, 202, 404, 409], JSON.stringify(body)).toContain(status);
    await until(remove, ({ status }) => status === 200 || status === 404);
    expect((await send(service.url, `/task/${taskID}/status`)).status).toBe(404);
  }
  // Nothing of them is left, and nothing comes back.
  await wait(500);
  expect(git(directory, "for-each-ref", "refs/heads/sortie")).toBe("");
  expect(git(directory, "worktree", "list").split("\n")).toHaveLength(1);
  const list = await send(service.url, at("/tasks?archived=true", directory));
  expect(list.body).toEqual([]);
  expectWhole(directory);
});

test("create, cancel and delete in the same millisecond, 50 times", { timeout: 60_000 }, async () => {
  const directory = project();
  const before = refsOf(directory);
  await Promise.all(
    Array.from({ length: 50 }, async () => {
      const taskID = await createTask(service.url, directory, lab.request([shell("echo n > n.txt")]));
      const [cancelled] = await Promise.all([
        post(service.url, `/task/${taskID}/cancel`, directory, {}),
        send(service.url, at(`/task/${taskID}`, directory), { method: "DELETE" }),
      ]);
      if (cancelled.status === 409)
        expect(cancelled.body).toMatchObject({ code: "task_settled", details: { lifecycleStatus: "completed" } });
      else expect([200, 202, 404]).toContain(cancelled.status);
      await until(
        () => send(service.url, at(`/task/${taskID}`, directory), { method: "DELETE" }),
        ({ status }) => status === 200 || status === 404,
      );
    }),
  );
  expect((await send(service.url, at("/tasks?archived=true", directory))).body).toEqual([]);
  await until(
    () => Promise.resolve(readdirSync(join(service.dataDir, "worktrees")).length),
    (count) => count === 0 || tasks.size > 0,
  );
  // One that was quicker than its cancel has landed: what it wrote, and nothing else.
  const base = before.split(" ")[1] ?? "";
  const head = git(directory, "rev-parse", "main");
  expect(refsOf(directory).replace(head, base)).toBe(before);
  expect(["", "n.txt"]).toContain(git(directory, "diff", "--name-only", base, head));
  expect(git(directory, "for-each-ref", "refs/heads/sortie")).toBe("");
  expectWhole(directory);
});

test("300 Tasks at five places: all end, never more than five at once", { timeout: 180_000 }, async () => {
  const directory = lab.folder("many");
  mkdirSync(directory);
  const many = project();
  const ids: string[] = [];
  // The service takes 256 connections at once, and says no more to others.
  for (let batch = 0; batch < 6; batch += 1)
    ids.push(
      ...(await Promise.all(
        Array.from({ length: 50 }, (_, index) =>
          createTask(service.url, many, lab.request(index % 10 === 0 ? [shell("sleep 0.1; true")] : [{ text: "ok" }])),
        ),
      )),
    );
  expect(new Set(ids).size).toBe(300);
  let most = 0;
  for (;;) {
    const text = await (await fetch(`${service.url}/metrics`)).text();
    const running = Number(/^sortie_tasks?_running(?:\{[^}]*\})? (\d+)/m.exec(text)?.[1] ?? Number.NaN);
    expect(running, text.slice(0, 2000)).not.toBeNaN();
    most = Math.max(most, running);
    const { body } = await send(service.url, at("/tasks?status=running&limit=200", many));
    if ((body as unknown as unknown[]).length === 0) break;
    await wait(100);
  }
  expect(most).toBeLessThanOrEqual(5);
  expect(most).toBeGreaterThan(1);
  for (const taskID of ids) expect(await statusOf(service.url, taskID)).toMatchObject(completed);
});

test("in place on one directory and on one inside it: one at a time", { timeout: 60_000 }, async () => {
  // In tier 1 a command would not see the other directory.
  await using place = await makeLab({}, 3);
  await using bare = await startService(join(place.root, "data"), {
    SERVICE_CONFIG: place.config,
    SERVICE_MAX_RUNNING: "5",
  });
  const directory = place.folder("place");
  mkdirSync(directory);
  const sub = join(directory, "sub");
  mkdirSync(sub);
  const guard = `cd ${directory}; mkdir busy || { echo overlap >> overlaps; exit 1; }; sleep 0.15; rmdir busy`;
  const ids = await Promise.all(
    Array.from({ length: 8 }, (_, index) =>
      createTask(bare.url, index % 2 === 0 ? directory : sub, place.request([shell(guard)])),
    ),
  );
  for (const taskID of ids) expect(await settledTask(bare.url, taskID, 60_000)).toMatchObject(completed);
  expect(readdirSync(directory)).toEqual(["sub"]);
  // The control: the guard sees two at once.
  expect(() =>
    execFileSync("bash", ["-c", `(${guard}) & sleep 0.02; (${guard}); wait`], { cwd: directory }),
  ).not.toThrow();
  expect(readdirSync(directory)).toContain("overlaps");
});

test("readers that leave and come back see every event once", { timeout: 120_000 }, async () => {
  const directory = project();
  const read = async (taskID: string): Promise<number[]> => {
    const ids: number[] = [];
    const end = performance.now() + 100_000;
    while (performance.now() < end) {
      const abort = new AbortController();
      const timer = setTimeout(() => abort.abort(), 20 + Math.random() * 250);
      try {
        const last = ids.at(-1);
        const response = await fetch(`${service.url}/task/${taskID}/events${last === undefined ? "?after=0" : ""}`, {
          signal: abort.signal,
          headers: last === undefined ? {} : { "last-event-id": String(last) },
        });
        if (response.status === 204) return ids;
        let text = "";
        const decoder = new TextDecoder();
        for await (const chunk of response.body ?? []) {
          text += decoder.decode(chunk as Uint8Array, { stream: true });
          const blocks = text.split("\n\n");
          text = blocks.pop() ?? "";
          for (const block of blocks) {
            const id = /^id: (\d+)$/m.exec(block)?.[1];
            if (id !== undefined) ids.push(Number(id));
          }
        }
      } catch (error) {
        if (!abort.signal.aborted) throw error;
      } finally {
        clearTimeout(timer);
      }
    }
    throw new Error(`The stream of ${taskID} did not end`);
  };
  await Promise.all(
    Array.from({ length: 20 }, async (_, index) => {
      const taskID = await create(
        directory,
        lab.request([shell("echo a; sleep 0.1"), shell("echo b"), { text: "t".repeat(2000), latencyMs: index * 10 }]),
      );
      const seen = await Promise.all([read(taskID), read(taskID)]);
      const log = (await logOf(service.url, taskID)).map(({ id }: Frame) => id);
      for (const ids of seen) expect(ids).toEqual(log);
    }),
  );
});

test("a key survives kill -9: the same answer, one Task", { timeout: 60_000 }, async () => {
  const directory = project();
  const dataDir = lab.folder("killed");
  const env = { SERVICE_DATA_DIR: dataDir, SERVICE_CONFIG: lab.config, HOME: lab.root };
  const body = { productPillar: "code", ...lab.request([{ text: "ok", latencyMs: 100 }]) };
  const answers: string[] = [];
  for (let round = 0; round < 6; round += 1) {
    await using killed = await startProcess(env);
    const sent = post(killed.url, "/task", directory, body, { key: "one" }).catch(() => undefined);
    if (round > 0) await wait(Math.random() * 60);
    else await sent;
    await killed.kill("SIGKILL");
    const answer = await sent;
    if (answer !== undefined) answers.push(String(answer.body["taskID"]));
  }
  await using last = await startProcess(env);
  const again = await post(last.url, "/task", directory, body, { key: "one" });
  expect(again.headers.get("idempotent-replayed")).toBe("true");
  expect(new Set([...answers, String(again.body["taskID"])]).size).toBe(1);
  const list = await send(last.url, at("/tasks", directory));
  expect(list.body).toHaveLength(1);
  await settledTask(last.url, String(again.body["taskID"]));
});

test("after all of it: what must hold holds", { timeout: 60_000 }, async () => {
  await invariants({ url: service.url, dataDir: service.dataDir, tasks });
  expect(statSync(join(service.dataDir, "sortie.db")).size).toBeGreaterThan(0);
});
