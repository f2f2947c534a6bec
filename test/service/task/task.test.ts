import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import type { TaskStatus } from "../../../src/protocol/task/status.ts";
import { titleOf } from "../../../src/domain/task/title.ts";
import { git, makeProject, readText, temporary, until, writeFiles } from "../../harness/project.ts";
import { freshSchema, postgresURL, countSkipped } from "../../harness/postgres.ts";
import { type MockProvider, type MockTurn, startMockProvider } from "../../harness/double/mock-provider.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { night } from "../../harness/night.ts";

/** The life of Tasks over HTTP on a real port, through the typed client, with the rules and with a model. */

/** Scripts of the mock model by a marker in the request. */
const scripts: Record<string, MockTurn[]> = {};
let provider: MockProvider;
let service: TestService;
let root: ReturnType<typeof temporary>;
let count = 0;

const project = (files: Record<string, string> = { "a.txt": "one\n" }) =>
  makeProject(join(root.path, `project-${(count += 1)}`), files);
const clientFor = (directory: string) => createServiceClient({ baseUrl: service.url, directory });
type Client = ReturnType<typeof clientFor>;
type Create = NonNullable<Parameters<Client["task"]["create"]>[0]>["body"];

const create = async (client: Client, body: Partial<Create> & { request: string }): Promise<string> => {
  const { data, error } = await client.task.create({ body: { productPillar: "code", ...body } });
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data.taskID;
};
const settled = async (client: Client, taskID: string): Promise<TaskStatus> => {
  const { data, error } = await client.task.wait({ path: { taskID }, timeoutMs: 15_000 });
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
};
/** A tool's call runs, in a workspace that is made. */
const callStarted = (client: Client, taskID: string) =>
  until(
    async () => (await client.task.board({ path: { taskID } })).data?.timeline.map(({ type }) => type) ?? [],
    (types) => types.includes("tool.started") && types.includes("workspace.prepared"),
  );
/** Scripts a model conversation and creates its Task. */
const scripted = (client: Client, turns: MockTurn[], body: Partial<Create> = {}): Promise<string> => {
  const marker = `s${(count += 1)}`;
  scripts[marker] = turns;
  return create(client, { request: `do it [${marker}]`, model: "mock/large", ...body });
};
const write = (path: string, content: string): MockTurn => ({ calls: [{ tool: "write", input: { path, content } }] });

const fence = "```";

const stores: [name: string, env: () => Promise<Record<string, string>>][] = [["sqlite", () => Promise.resolve({})]];
// By day in the default store; what a store does is seen in test/store on both.
if (night && postgresURL === undefined) countSkipped(30);
else if (night && postgresURL !== undefined) {
  const url = new URL(postgresURL);
  const schema = freshSchema(postgresURL);
  url.searchParams.set("options", `-c search_path=${schema.name}`);
  stores.push([
    "postgres",
    async () => {
      await schema.create();
      return { SERVICE_DATABASE_URL: url.href };
    },
  ]);
  afterAll(() => schema[Symbol.asyncDispose]());
}

describe.each(stores)("on %s", (_name, env) => {
  beforeAll(async () => {
    root = temporary("sortie-api-");
    provider = await startMockProvider(({ first, turn, body }) => {
      const marker = /\[(\w+)\]/.exec(first)?.[1] ?? "";
      const last = String(body.messages.at(-1)?.content);
      return scripts[marker]?.[turn] ?? { text: `Done after: ${last.slice(0, 200)}` };
    });
    const config = join(root.path, "config.jsonc");
    writeFileSync(
      config,
      JSON.stringify({
        providers: { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } },
        sandbox: { paths: [join(root.path, "flags")] },
      }),
    );
    mkdirSync(join(root.path, "flags"));
    service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config, ...(await env()) });
  });
  afterAll(async () => {
    await service[Symbol.asyncDispose]();
    await provider.close();
    root[Symbol.dispose]();
  });

  describe("the rules", () => {
    test("a file block becomes one commit with trailers, and nothing else in the project changes", async () => {
      const directory = project();
      writeFiles(directory, { "mine.txt": "not committed\n" });
      const client = clientFor(directory);
      const taskID = await create(client, { request: `Write this file:\n${fence}txt file=b.txt\ntwo\n${fence}` });
      const status = await settled(client, taskID);
      expect(status).toMatchObject({ lifecycleStatus: "completed", model: "builtin/rules-1", usage: { costUSD: 0 } });
      expect(readText(directory, "b.txt")).toBe("two\n");
      expect(git(directory, "log", "--format=%an <%ae>%n%B", "-1")).toContain("Sortie <sortie@localhost>");
      expect(git(directory, "log", "--format=%(trailers)", "-1")).toBe(`Task: ${taskID}\nSquad: base@0.3.0`);
      expect(git(directory, "status", "--porcelain")).toBe("?? mine.txt");
      expect(git(directory, "rev-list", "--count", "HEAD")).toBe("2");
      expect(git(directory, "show", "--format=", "--name-only", "HEAD")).toBe("b.txt");
    });

    test("what is not understood fails, names it, and does nothing", async () => {
      const directory = project();
      const client = clientFor(directory);
      const taskID = await create(client, { request: `Delete a.txt\nFind out why it is slow` });
      const status = await settled(client, taskID);
      expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "needs_model" } });
      expect(status.error).toMatch(/^NEEDS_MODEL/);
      expect(status.error).toContain("Find out why it is slow");
      expect(git(directory, "rev-list", "--count", "HEAD")).toBe("1");
      expect(git(directory, "status", "--porcelain")).toBe("");
    });

    test("a red check fails the Task, names the check, keeps the branch, leaves the project", async () => {
      const directory = project();
      const client = clientFor(directory);
      const request = `Write:\n${fence} file=b.txt\ntwo\n${fence}`;
      const taskID = await create(client, { request, checks: ["test -f b.txt", "test -f never"] });
      const status = await settled(client, taskID);
      expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "checks_failed" } });
      expect(status.error).toBe("The agents finished; 1 of 2 checks failed: `test -f never`, exit 1.");
      expect(status.checks.map(({ state }) => state)).toEqual(["passed", "failed"]);
      expect(git(directory, "status", "--porcelain")).toBe("");
      expect(git(directory, "show", `sortie/${taskID}:b.txt`)).toBe("two");
    });
  });

  describe("a model", () => {
    test("failing checks go back, and the second try lands", async () => {
      const directory = project();
      const client = clientFor(directory);
      const taskID = await scripted(
        client,
        [write("n.txt", "1\n"), { text: "Written." }, write("n.txt", "2\n"), { text: "Better." }],
        { checks: [{ kind: "test", run: "grep -q 2 n.txt", baseline: true }] },
      );
      const status = await settled(client, taskID);
      expect(status).toMatchObject({
        lifecycleStatus: "completed",
        checks: [{ state: "passed", round: 1, baseline: { state: "failed" } }],
      });
      expect(status.git.landedTree).toBe(status.git.checkedTree);
      const { data } = await client.task.messages({ path: { taskID } });
      expect(data?.messages.map(({ source }) => source)).toEqual([
        "api",
        "orchestrator",
        "orchestrator",
        "checks",
        "orchestrator",
        "orchestrator",
        "reviewer",
      ]);
      expect(data?.messages[3]?.text).toContain("grep -q 2 n.txt");
    });

    test("red after three rounds: failed", async () => {
      const client = clientFor(project());
      const taskID = await scripted(client, [write("n.txt", "1\n")], { checks: ["false"] });
      const status = await settled(client, taskID);
      expect(status).toMatchObject({ lifecycleStatus: "failed", checks: [{ state: "failed" }] });
      const { data } = await client.task.messages({ path: { taskID } });
      expect(data?.messages.filter(({ source }) => source === "checks")).toHaveLength(3);
    });

    test("what made a check red may be mended elsewhere: a message checks anew", async () => {
      const client = clientFor(project());
      const flag = join(root.path, "flags", String((count += 1)));
      const taskID = await scripted(client, [write("n.txt", "1\n")], { checks: [`test -f ${flag}`] });
      expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "failed" });
      writeFileSync(flag, "");
      await client.task.message({ path: { taskID }, body: { source: "test", text: "try again" } });
      expect(await settled(client, taskID)).toMatchObject({
        lifecycleStatus: "completed",
        checks: [{ state: "passed" }],
      });
    });

    test("what a check leaves behind does not land", async () => {
      const directory = project();
      const client = clientFor(directory);
      const taskID = await scripted(client, [write("n.txt", "1\n")], {
        checks: [{ kind: "test", run: "echo junk > junk.txt; echo spoiled > n.txt", baseline: true }],
      });
      expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed" });
      expect(git(directory, "show", "--format=", "--name-only", "HEAD")).toBe("n.txt");
      expect(readText(directory, "n.txt")).toBe("1\n");
    });

    test("a follow-up continues with its history, from the landed state", async () => {
      const directory = project();
      const client = clientFor(directory);
      const taskID = await scripted(client, [
        write("n.txt", "1\n"),
        { text: "First." },
        { calls: [{ tool: "read", input: { path: "theirs.txt" } }] },
        write("n.txt", "2\n"),
        { text: "Second." },
      ]);
      const first = await settled(client, taskID);
      writeFiles(directory, { "theirs.txt": "by the user\n" });
      git(directory, "add", "-A");
      git(directory, "commit", "-q", "-m", "between");
      const sent = await client.task.message({ path: { taskID }, body: { source: "test", text: "now two" } });
      expect(sent.data).toMatchObject({ disposition: "restarted", status: "running", lifecycleStatus: "active" });
      const second = await settled(client, taskID);
      expect(second).toMatchObject({ lifecycleStatus: "completed", attempt: 2, squad: first.squad });
      expect(git(directory, "log", "--format=%s")).toMatch(/^Change what was asked for\nbetween\ndo it.*\nfirst$/);
      const { data } = await client.task.messages({ path: { taskID } });
      const read = data?.messages.flatMap(({ calls }) => calls).find(({ tool }) => tool === "read");
      expect(read?.output).toContain("by the user");
    });

    test("a message while it works is read at the next step", async () => {
      const client = clientFor(project());
      const taskID = await scripted(client, [{ calls: [{ tool: "shell", input: { command: "sleep 1" } }] }]);
      await callStarted(client, taskID);
      const sent = await client.task.message({ path: { taskID }, body: { source: "test", text: "remember the docs" } });
      expect(sent.data).toMatchObject({ disposition: "steered" });
      await settled(client, taskID);
      const { data } = await client.task.messages({ path: { taskID } });
      expect(data?.messages.at(-1)?.text).toContain("remember the docs");
    });

    test("interrupt cuts the command that runs", async () => {
      const client = clientFor(project());
      const taskID = await scripted(client, [
        { calls: [{ tool: "shell", input: { command: "sleep 100", timeoutSeconds: 200 } }] },
      ]);
      await callStarted(client, taskID);
      const sent = await client.task.message({
        path: { taskID },
        body: { source: "test", text: "stop that", onBusy: "interrupt" },
      });
      expect(sent.data).toMatchObject({ disposition: "interrupted" });
      expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed" });
      const { data } = await client.task.messages({ path: { taskID } });
      expect(data?.messages.flatMap(({ calls }) => calls)).toMatchObject([{ tool: "shell", state: "interrupted" }]);
    });

    test("the stream: snapshot first, deltas live, every fact once, settled, end", async () => {
      const client = clientFor(project());
      const taskID = await scripted(client, [
        { text: "I look. ", calls: [{ tool: "shell", input: { command: "echo out; sleep 0.3" } }], latencyMs: 400 },
        { text: "All is well.", latencyMs: 200 },
      ]);
      const { data: frames, error } = await client.task.events({ path: { taskID } });
      if (frames === undefined) throw new Error(JSON.stringify(error));
      const seen: { type: string; id?: number; data: unknown }[] = [];
      for await (const frame of frames) seen.push(frame);
      const types = seen.map(({ type }) => type);
      expect(types[0]).toBe("task.snapshot");
      expect(types.slice(-2)).toEqual(["task.settled", "stream.end"]);
      const at = (type: string, nth = 0) => types.flatMap((each, index) => (each === type ? [index] : []))[nth] ?? -1;
      expect(at("message.delta")).toBeGreaterThan(0);
      expect(at("message.delta")).toBeLessThan(at("reply.finished"));
      expect(at("tool.output")).toBeGreaterThan(at("tool.started"));
      expect(at("tool.output")).toBeLessThan(at("tool.finished"));
      const text = seen.flatMap(({ type, data }) =>
        type === "message.delta" ? [(data as { text: string }).text] : [],
      );
      expect(text.join("")).toBe("I look. All is well.");
      const page = await fetch(`${service.url}/task/${taskID}/events?format=json&after=0`);
      const { events } = (await page.json()) as { events: { id: number }[] };
      const ids = seen.flatMap(({ id }) => (id === undefined ? [] : [id]));
      expect(ids).toEqual(events.map(({ id }) => id).filter((id) => id >= (ids[0] ?? 0)));
    });

    test("wrap up: one last word without tools, then cancelled", async () => {
      const directory = project();
      const client = clientFor(directory);
      const taskID = await scripted(client, [
        { calls: [{ tool: "shell", input: { command: "echo x > n.txt; sleep 1" } }] },
        { text: "I stopped; n.txt is written." },
      ]);
      await callStarted(client, taskID);
      const sent = await client.task.cancel({ path: { taskID }, body: { mode: "wrap_up", reason: "lunch" } });
      expect(sent.response?.status).toBe(202);
      const status = await settled(client, taskID);
      expect(status).toMatchObject({ lifecycleStatus: "cancelled", error: "Cancelled by api: lunch" });
      const { data } = await client.task.messages({ path: { taskID } });
      expect(data?.messages.at(-1)?.text).toBe("I stopped; n.txt is written.");
      expect(git(directory, "status", "--porcelain")).toBe("");
    });

    test("a budget ends the Task, raising it continues where it stopped", async () => {
      const client = clientFor(project());
      const taskID = await scripted(client, [write("n.txt", "1\n"), write("m.txt", "2\n"), { text: "Both." }], {
        budget: { maxSteps: 1 },
      });
      const failed = await settled(client, taskID);
      expect(failed).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "budget_reached" } });
      await client.task.update({ path: { taskID }, body: { budget: { maxSteps: 10 } } });
      await client.task.message({ path: { taskID }, body: { source: "test", text: "go on" } });
      expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed", usage: { modelCalls: 4 } });
    });

    test("a cost cap with an unknown price stops, rather than not braking", async () => {
      const client = clientFor(project());
      const taskID = await scripted(client, [write("n.txt", "1\n"), { text: "ok" }], { budget: { maxCostUSD: 1 } });
      const status = await settled(client, taskID);
      expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "budget_reached" } });
      expect(status.error).toContain("price of mock/large is unknown");
    });

    test("malformed arguments and unknown tools come back to the model", async () => {
      const client = clientFor(project());
      const taskID = await scripted(client, [
        {
          calls: [
            { tool: "write", input: '{"path": "a' },
            { tool: "fly", input: {} },
            { tool: "write", input: { path: 7 } },
          ],
        },
        write("n.txt", "1\n"),
      ]);
      expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed" });
      const { data } = await client.task.messages({ path: { taskID } });
      const calls = data?.messages[1]?.calls ?? [];
      expect(calls.map(({ state }) => state)).toEqual(["error", "error", "error"]);
      expect(calls[1]?.output).toContain('no tool "fly"');
    });

    test("calls of one reply run side by side where they only read, results in call order", async () => {
      const client = clientFor(project());
      const taskID = await scripted(client, [
        {
          calls: [
            { tool: "read", input: { path: "a.txt" } },
            { tool: "list", input: {} },
            { tool: "write", input: { path: "b.txt", content: "b\n" } },
            { tool: "read", input: { path: "b.txt" } },
          ],
        },
      ]);
      expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed" });
      const { data } = await client.task.messages({ path: { taskID } });
      expect(data?.messages[1]?.calls.map(({ tool, state }) => `${tool} ${state}`)).toEqual([
        "read ok",
        "list ok",
        "write ok",
        "read ok",
      ]);
    });
  });

  describe("landing", () => {
    test("a change to uncommitted lines is refused, the branch is kept", async () => {
      const directory = project();
      const client = clientFor(directory);
      writeFiles(directory, { "a.txt": "mine\n" });
      const taskID = await scripted(client, [write("a.txt", "theirs\n")]);
      const status = await settled(client, taskID);
      expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "landing_entangled" } });
      expect(status.error).toContain("a.txt");
      expect(readText(directory, "a.txt")).toBe("mine\n");
      expect(git(directory, "show", `sortie/${taskID}:a.txt`)).toBe("theirs");
      git(directory, "commit", "-q", "-am", "mine");
      await client.task.message({ path: { taskID }, body: { source: "test", text: "land again" } });
      expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed" });
      expect(readText(directory, "a.txt")).toBe("theirs\n");
    });

    test("the branch moved on: the change follows, and the checks run again", async () => {
      const directory = project();
      const client = clientFor(directory);
      const taskID = await scripted(
        client,
        [{ calls: [{ tool: "shell", input: { command: "sleep 0.7; echo n > n.txt" } }] }],
        { checks: ["ls"] },
      );
      await until(
        async () => (await client.task.status({ path: { taskID } })).data?.git.baseCommit,
        (base) => typeof base === "string",
      );
      writeFiles(directory, { "between.txt": "b\n" });
      git(directory, "add", "-A");
      git(directory, "commit", "-q", "-m", "between");
      const status = await settled(client, taskID);
      expect(status).toMatchObject({ lifecycleStatus: "completed", checks: [{ state: "passed" }] });
      expect(status.git.landedTree).toBe(status.git.checkedTree);
      expect(git(directory, "log", "--format=%s")).toMatch(/^do it.*\nbetween\nfirst$/);
      const { data } = await client.task.checkLog({ path: { taskID, checkID: "check-1" } });
      expect(data).toBe("a.txt\nbetween.txt\nn.txt\n");
    });

    test("both changed the same lines: failed, the branch kept, the way on named", async () => {
      const directory = project();
      const client = clientFor(directory);
      const taskID = await scripted(client, [
        { calls: [{ tool: "shell", input: { command: "sleep 0.7; echo theirs > a.txt" } }] },
      ]);
      await until(
        async () => (await client.task.status({ path: { taskID } })).data?.git.baseCommit,
        (base) => typeof base === "string",
      );
      writeFiles(directory, { "a.txt": "mine\n" });
      git(directory, "commit", "-q", "-am", "between");
      const status = await settled(client, taskID);
      expect(status).toMatchObject({
        lifecycleStatus: "failed",
        errorInfo: { code: "landing_conflict", remedy: `Run: git cherry-pick sortie/${taskID}` },
      });
      expect(readText(directory, "a.txt")).toBe("mine\n");
      git(directory, "fsck", "--strict");
    });

    test("landing: branch leaves the project's branch alone; so does a detached HEAD", async () => {
      const directory = project();
      const client = clientFor(directory);
      const onBranch = await scripted(client, [write("n.txt", "1\n")], { landing: "branch" });
      expect(await settled(client, onBranch)).toMatchObject({ lifecycleStatus: "completed" });
      expect(git(directory, "rev-list", "--count", "HEAD")).toBe("1");
      expect(git(directory, "show", `sortie/${onBranch}:n.txt`)).toBe("1");
      git(directory, "checkout", "-q", "--detach");
      const detached = await scripted(client, [write("n.txt", "2\n")]);
      expect(await settled(client, detached)).toMatchObject({ lifecycleStatus: "completed" });
      expect(git(directory, "rev-list", "--count", "HEAD")).toBe("1");
      expect(git(directory, "show", `sortie/${detached}:n.txt`)).toBe("2");
    });

    test("a follow-up to a branch landing goes on from that branch", async () => {
      const directory = project();
      const client = clientFor(directory);
      const taskID = await scripted(
        client,
        [
          write("n.txt", "1\n"),
          { text: "One." },
          { calls: [{ tool: "shell", input: { command: "cat n.txt; echo 2 >> n.txt" } }] },
        ],
        { landing: "branch" },
      );
      await settled(client, taskID);
      await client.task.message({ path: { taskID }, body: { source: "test", text: "and two" } });
      expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed", attempt: 2 });
      expect(git(directory, "show", `sortie/${taskID}:n.txt`)).toBe("1\n2");
      expect(git(directory, "rev-list", "--count", `main..sortie/${taskID}`)).toBe("1");
      expect(git(directory, "rev-list", "--count", "main")).toBe("1");
    });

    test("in place: edits at once, no commit; landing with it is refused", async () => {
      const directory = project();
      const client = clientFor(directory);
      const taskID = await scripted(client, [write("n.txt", "1\n")], {
        isolation: "directory",
        checks: ["test -f n.txt"],
      });
      expect(await settled(client, taskID)).toMatchObject({
        lifecycleStatus: "completed",
        git: { branch: null, landedCommit: null },
      });
      expect(git(directory, "status", "--porcelain")).toBe("?? n.txt");
      const refused = await client.task.create({
        body: { request: "x", productPillar: "code", isolation: "directory", landing: "commit" },
      });
      expect(refused.error).toMatchObject({ code: "invalid_request", status: 400 });
    });

    test("a directory without Git, and a repository without commits, are worked in place, and the record says so", async () => {
      using plain = temporary("sortie-plain-");
      const client = clientFor(plain.path);
      scripts["plain"] = [write("n.txt", "1\n"), { text: "Done." }];
      const { data: accepted } = await client.task.create({
        body: { request: "do it [plain]", productPillar: "code", model: "mock/large" },
      });
      const inPlace = { isolation: "directory", landing: "none", landingBranch: null };
      expect(accepted).toMatchObject({ isolation: "directory", landing: "none" });
      const done = { lifecycleStatus: "completed", verified: false, summary: "Done.", ...inPlace };
      expect(await settled(client, accepted?.taskID ?? "")).toMatchObject(done);
      expect((await client.task.list()).data).toMatchObject([done]);
      expect(readText(plain.path, "n.txt")).toBe("1\n");
      git(plain.path, "init", "-q");
      expect(await settled(client, await scripted(client, [write("n.txt", "2\n")]))).toMatchObject({
        lifecycleStatus: "completed",
      });
      expect(readText(plain.path, "n.txt")).toBe("2\n");
    });

    test("two Tasks on one project both land", async () => {
      const directory = project();
      const client = clientFor(directory);
      const both = await Promise.all([
        scripted(client, [write("x.txt", "x\n")], { checks: ["sleep 0.2"] }),
        scripted(client, [write("y.txt", "y\n")], { checks: ["sleep 0.2"] }),
      ]);
      for (const taskID of both) expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed" });
      expect(git(directory, "ls-files")).toBe("a.txt\nx.txt\ny.txt");
      expect(git(directory, "rev-list", "--count", "--no-merges", "HEAD")).toBe("3");
      expect(git(directory, "status", "--porcelain")).toBe("");
      git(directory, "fsck", "--strict");
    });
  });

  describe("commands on a Task", () => {
    test("cancel in the next millisecond wins; a second is the same; of a finished Task it is refused", async () => {
      const client = clientFor(project());
      const taskID = await scripted(client, [{ text: "x", latencyMs: 300 }]);
      const first = await client.task.cancel({ path: { taskID } });
      expect([200, 202]).toContain(first.response?.status);
      expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "cancelled", error: "Cancelled by api" });
      const second = await client.task.cancel({ path: { taskID } });
      expect(second).toMatchObject({ data: { lifecycleStatus: "cancelled", accepted: true } });
      expect(second.response?.status).toBe(200);
      const done = await scripted(client, [{ text: "ok" }]);
      await settled(client, done);
      const refused = await client.task.cancel({ path: { taskID: done } });
      expect(refused.error).toMatchObject({
        code: "task_settled",
        status: 409,
        details: { lifecycleStatus: "completed" },
      });
    });

    test("another project's Task cannot be touched", async () => {
      const client = clientFor(project());
      const taskID = await scripted(client, [{ text: "ok" }]);
      await settled(client, taskID);
      const other = clientFor(project());
      const refused = await other.task.message({ path: { taskID }, body: { source: "test", text: "hi" } });
      expect(refused.error).toMatchObject({ code: "directory_mismatch", status: 409 });
    });

    test("update, list, filter, archive flag, delete", async () => {
      const directory = project();
      const client = clientFor(directory);
      const taskID = await scripted(client, [{ text: "ok" }], { metadata: { team: "blue" }, priority: "high" });
      const other = await scripted(client, [{ text: "ok" }], { metadata: { team: "red" } });
      await settled(client, taskID);
      await settled(client, other);
      const updated = await client.task.update({ path: { taskID }, body: { title: "Ein Titel", archived: true } });
      expect(updated.data).toMatchObject({ title: "Ein Titel", archived: true });
      const ids = async (query: Record<string, string>) =>
        (await client.task.list({ query })).data?.map(({ taskID }) => taskID);
      expect(await ids({})).toEqual([other]);
      expect(await ids({ archived: "true" })).toEqual([taskID, other]);
      expect(await ids({ archived: "true", "metadata.team": "blue" })).toEqual([taskID]);
      expect(await ids({ archived: "true", search: "ein titel" })).toEqual([taskID]);
      expect(await ids({ priority: "low" })).toEqual([]);
      const deleted = await client.task.delete({ path: { taskID } });
      expect(deleted.data).toEqual({ taskID, deleted: true });
      expect((await client.task.status({ path: { taskID } })).error).toMatchObject({ code: "task_not_found" });
      expect(git(directory, "branch", "--list", `sortie/${taskID}`)).toBe("");
    });

    test("a project's subfolders, links and worktrees list and stream the same Tasks", async () => {
      const directory = project({ "a.txt": "one\n", "sub/b.txt": "two\n" });
      const taskID = await scripted(clientFor(join(directory, "sub")), [write("c.txt", "three\n")]);
      await settled(clientFor(directory), taskID);
      expect(readText(directory, "sub/c.txt")).toBe("three\n");
      const linked = join(root.path, `linked-${(count += 1)}`);
      git(directory, "worktree", "add", "-q", "--detach", linked);
      for (const place of [directory, join(directory, "sub"), `${directory}/`, linked]) {
        const { data } = await clientFor(place).task.list({});
        expect(data).toMatchObject([{ taskID, directory: join(directory, "sub") }]);
        const query = `format=json&after=0&directory=${encodeURIComponent(place)}`;
        const page = (await (await fetch(`${service.url}/events?${query}`)).json()) as { events: { taskID: string }[] };
        expect(new Set(page.events.map((event) => event.taskID))).toEqual(new Set([taskID]));
      }
      const missing = await clientFor("/none").task.list({});
      expect(missing.error).toMatchObject({ code: "directory_invalid", status: 400 });
    });

    test("one key, one Task, also under 50 parallel sends", async () => {
      const directory = project();
      const send = async (body: object) => {
        const response = await fetch(`${service.url}/task?directory=${encodeURIComponent(directory)}`, {
          method: "POST",
          headers: { "content-type": "application/json", "idempotency-key": "k1" },
          body: JSON.stringify(body),
        });
        return {
          status: response.status,
          replayed: response.headers.get("idempotent-replayed"),
          body: await response.json(),
        };
      };
      const body = { request: "run the tests", productPillar: "code" };
      const answers = await Promise.all(Array.from({ length: 50 }, () => send(body)));
      const accepted = answers.filter(({ status }) => status === 202);
      expect(new Set(accepted.map((answer) => (answer.body as { taskID: string }).taskID)).size).toBe(1);
      expect(answers.every(({ status }) => status === 202 || status === 409)).toBe(true);
      expect((await send(body)).replayed).toBe("true");
      expect(await send({ ...body, request: "other" })).toMatchObject({
        status: 409,
        body: { code: "idempotency_key_reused" },
      });
      const { data } = await clientFor(directory).task.list({});
      expect(data).toHaveLength(1);
    });

    test("one key, one Task, however its folder is spelt", async () => {
      const directory = project();
      using elsewhere = temporary("sortie-link-");
      const link = join(elsewhere.path, "link");
      symlinkSync(directory, link);
      const spellings = [directory, `${directory}/`, `${directory}/.`, `${directory}//`, link, `${link}/`];
      const made: string[] = [];
      for (const spelling of [...spellings, project()]) {
        const response = await fetch(`${service.url}/task`, {
          method: "POST",
          headers: {
            "content-type": "application/json",
            "idempotency-key": "k-spelt",
            "x-service-directory": spelling,
          },
          body: JSON.stringify({ request: "run the tests", productPillar: "code" }),
        });
        made.push(((await response.json()) as { taskID: string }).taskID);
      }
      expect(made.slice(0, -1)).toEqual(spellings.map(() => made[0]));
      expect(made.at(-1)).not.toBe(made[0]);
    });

    test("board, diff and archive tell the same story", async () => {
      const client = clientFor(project());
      const taskID = await scripted(client, [write("n.txt", "1\n"), { text: "Written." }], { checks: ["true"] });
      const status = await settled(client, taskID);
      const board = await client.task.board({ path: { taskID } });
      expect(board.data).toMatchObject({
        task: { taskID, lifecycleStatus: "completed" },
        // The request, two replies, the reviewer's.
        conversation: { total: 4 },
        git: { diffStat: { files: 1, insertions: 1, deletions: 0 } },
        lastEventID: status.lastEventID,
      });
      const diff = await client.task.diff({ path: { taskID } });
      expect(diff.data).toContain("+1");
      const archive = await client.task.projectArchive({ path: { taskID } });
      expect(archive.data).toBeInstanceOf(Blob);
      using plain = temporary("sortie-plain-");
      const inPlace = clientFor(plain.path);
      const other = await create(inPlace, { request: "run the tests" });
      await settled(inPlace, other);
      const refused = await inPlace.task.projectArchive({ path: { taskID: other } });
      expect(refused.error).toMatchObject({ code: "not_a_git_worktree", status: 422 });
    });
  });
});

test.each([
  ["Fix the date.\nIt is off by one.", "Fix the date."],
  ["\n\n## Fix the date", "Fix the date"],
  ["1. Fix the date\n2. Test it", "Fix the date"],
  ["- [ ] Fix the date", "Fix the date"],
  ["1.5 is no item of a list", "1.5 is no item of a list"],
  ["---", "---"],
  ["é".repeat(100), `${"é".repeat(79)}…`],
])("the title of %j", (request, title) => {
  expect(titleOf(request)).toBe(title);
});
