import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import type { EventData } from "../../../src/protocol/event/event.ts";
import type { Frame } from "../../../src/protocol/event/frame.ts";
import type { TaskStatus } from "../../../src/protocol/task/status.ts";
import { git, makeProject, readText, temporary, until } from "../../harness/project.ts";
import {
  type MockMessage,
  type MockProvider,
  type MockTurn,
  startMockProvider,
  textOf,
} from "../../harness/double/mock-provider.ts";
import { countSkipped, freshSchema, postgresURL } from "../../harness/postgres.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { night } from "../../harness/night.ts";

/** Bounded asks and permission rules over HTTP: what waits, who answers, what the model is told, what is done. */

const scripts: Record<string, MockTurn[]> = {};
let provider: MockProvider;
/** Its asks wait for as long as a test takes. */
let service: TestService;
/** Its asks are over after a second. */
let hasty: TestService;
let root: ReturnType<typeof temporary>;
let count = 0;

const permissions = {
  deny: ["write(migrations/)", "shell(git push:*)"],
  ask: ["shell(cp release done.txt)", "write(Dockerfile)"],
  allow: ["read(.env.shared)"],
};

const project = (files: Record<string, string> = { "a.txt": "one\n" }) =>
  makeProject(join(root.path, `project-${(count += 1)}`), files);
const clientFor = (directory: string, at = service) => createServiceClient({ baseUrl: at.url, directory });
type Client = ReturnType<typeof clientFor>;

const scripted = async (client: Client, turns: MockTurn[], body: object = {}): Promise<string> => {
  const marker = `s${(count += 1)}`;
  scripts[marker] = turns;
  const request = `do it [${marker}]`;
  const { data, error } = await client.task.create({
    body: { productPillar: "code", request, model: "mock/large", ...body },
  });
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data.taskID;
};
const settled = async (client: Client, taskID: string): Promise<TaskStatus> => {
  const { data, error } = await client.task.wait({ path: { taskID }, timeoutMs: 15_000 });
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
};
const statusOf = async (client: Client, taskID: string) => {
  const { data } = await client.task.status({ path: { taskID } });
  if (data === undefined) throw new Error(`No status of ${taskID}`);
  return data;
};
/** The Task waits: its ask. */
const waiting = async (client: Client, taskID: string) => {
  const status = await until(
    () => statusOf(client, taskID),
    ({ phase, status: activity }) => phase === "waiting" || activity === "inactive",
  );
  const [ask] = status.pending;
  if (ask === undefined) throw new Error(`Expected ${taskID} to wait, got ${JSON.stringify(status)}`);
  return ask;
};
const eventsOf = async (taskID: string, at = service): Promise<Frame[]> => {
  const page = await fetch(`${at.url}/task/${taskID}/events?format=json&after=0&limit=1000`);
  return ((await page.json()) as { events: Frame[] }).events;
};
const dataOf = <T extends keyof EventData>(events: Frame[], type: T): EventData[T][] =>
  events.flatMap((event) => (event.type === type ? [event.data as EventData[T]] : []));
const typesOf = (events: Frame[], ...types: Frame["type"][]) =>
  events.map(({ type }) => type).filter((type) => types.includes(type));

const question = (more: object = {}): MockTurn => ({
  calls: [{ tool: "ask", input: { question: "Which colour?", options: ["red", "blue"], default: "red", ...more } }],
});
const shell = (command: string): MockTurn => ({ calls: [{ tool: "shell", input: { command } }] });
const write = (path: string, content = "x\n"): MockTurn => ({ calls: [{ tool: "write", input: { path, content } }] });

const stores: [name: string, env: () => Promise<Record<string, string>>][] = [["sqlite", () => Promise.resolve({})]];
// By day in the default store; what a store does is seen in test/store on both.
if (night && postgresURL === undefined) countSkipped(10);
else if (night && postgresURL !== undefined) {
  const url = new URL(postgresURL);
  const schemas = [freshSchema(postgresURL), freshSchema(postgresURL)];
  stores.push([
    "postgres",
    async () => {
      const schema = schemas[(count += 1) % 2]!;
      await schema.create();
      url.searchParams.set("options", `-c search_path=${schema.name}`);
      return { SERVICE_DATABASE_URL: url.href };
    },
  ]);
  afterAll(async () => {
    for (const schema of schemas) await schema[Symbol.asyncDispose]();
  });
}

describe.each(stores)("on %s", (name, env) => {
  beforeAll(async () => {
    root = temporary("sortie-ask-");
    provider = await startMockProvider(({ first, turn, body }) => {
      const marker = /\[(\w+)\]/.exec(first)?.[1] ?? "";
      const results = body.messages.slice(lastReply(body.messages) + 1).map(({ content }) => textOf(content));
      return scripts[marker]?.[turn] ?? { text: `After: ${results.join(" / ")}` };
    });
    const start = async (folder: string, limits: object) => {
      const config = join(root.path, `${folder}.jsonc`);
      const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
      writeFileSync(config, JSON.stringify({ providers, permissions, limits }));
      return startService(join(root.path, folder), { SERVICE_CONFIG: config, ...(await env()) });
    };
    service = await start("data", {});
    hasty = await start("hasty", { askSeconds: 1, permissionSeconds: 1, asks: 2, permissionAsks: 1 });
  });
  afterAll(async () => {
    await service[Symbol.asyncDispose]();
    await hasty[Symbol.asyncDispose]();
    await provider.close();
    root[Symbol.dispose]();
  });

  const lastReply = (messages: MockMessage[]) => messages.findLastIndex(({ role }) => role === "assistant");

  describe("a question", () => {
    test("is shown, waits without a place, and its answer is the call's result", async () => {
      const client = clientFor(project());
      const taskID = await scripted(client, [question()]);
      const ask = await waiting(client, taskID);
      expect(ask).toEqual({
        id: expect.stringMatching(/^ask_/),
        kind: "question",
        prompt: "Which colour?",
        options: ["red", "blue"],
        default: "red",
        expiresAt: expect.any(String),
      });
      expect(Date.parse(ask.expiresAt ?? "") - Date.now()).toBeGreaterThan(590_000);
      const status = await statusOf(client, taskID);
      expect(status).toMatchObject({ status: "running", lifecycleStatus: "active", phase: "waiting" });
      expect(status.availableActions).toContain("answer");
      const { data: board } = await client.task.board({ path: { taskID } });
      expect(board?.pending).toEqual([ask]);
      const { data: list } = await client.task.list();
      expect(list?.[0]).toMatchObject({ taskID, pendingCount: 1, pending: [ask] });

      const about = { taskID, missionID: null, title: status.title, directory: status.directory };
      const read = (tag = "") => fetch(`${service.url}/overview`, { headers: { "if-none-match": tag } });
      const seen = await read();
      const overview = (await seen.json()) as { projects: object[]; pending: object[] };
      expect(overview.pending).toContainEqual({ ...ask, ...about });
      const counts = { needsYou: 1, running: 0, queued: 0, failed: 0 };
      expect(overview.projects).toContainEqual({ directory: status.directory, repository: null, ...counts });
      const { data: own } = await client.service.overview({ query: { directory: status.directory } });
      expect(own).toMatchObject({ total: counts, pending: [{ id: ask.id }] });
      const tag = seen.headers.get("etag") ?? "";
      expect((await read(tag)).status).toBe(304);

      const { data, response } = await client.task.answer({
        path: { taskID, askID: ask.id },
        body: { answer: "green, please", source: "test" },
      });
      expect(response?.status).toBe(200);
      expect(data).toMatchObject({ taskID, askID: ask.id, accepted: true, status: "running" });
      const end = await settled(client, taskID);
      expect(end).toMatchObject({ lifecycleStatus: "completed", pending: [] });
      expect(end.availableActions).not.toContain("answer");
      expect((await read(tag)).status).toBe(200);
      const { data: messages } = await client.task.messages({ path: { taskID } });
      expect(messages?.messages.at(-1)?.text).toBe("After: The user answered: green, please");
      const events = await eventsOf(taskID);
      expect(dataOf(events, "ask.answered")).toEqual([
        { askID: ask.id, answer: "green, please", by: "caller", source: "test" },
      ]);
      expect(data?.eventID).toBe(events.find(({ type }) => type === "ask.answered")?.id);
      const late = await client.task.answer({ path: { taskID, askID: ask.id }, body: { answer: "blue" } });
      expect([late.response?.status, (late.error as { code: string }).code]).toEqual([409, "ask_closed"]);
    });

    test("the other calls of its reply are finished first, and nothing of them runs again", async () => {
      const client = clientFor(project());
      const { calls = [] } = question();
      const taskID = await scripted(client, [
        { calls: [...calls, { tool: "shell", input: { command: "sleep 0.2; echo once >> n.txt" } }] },
        shell("cat n.txt"),
      ]);
      const ask = await waiting(client, taskID);
      const before = await eventsOf(taskID);
      expect(dataOf(before, "tool.finished")).toMatchObject([{ tool: "shell", outcome: "ok" }]);
      await client.task.answer({ path: { taskID, askID: ask.id }, body: { answer: "blue" } });
      await settled(client, taskID);
      const { data } = await client.task.messages({ path: { taskID } });
      expect(data?.messages.flatMap((message) => message.calls.map(({ tool, state }) => [tool, state]))).toEqual([
        ["ask", "ok"],
        ["shell", "ok"],
        ["shell", "ok"],
        ["verdict", "ok"],
      ]);
      expect(data?.messages.at(-2)?.text).toMatch(/After: Exit code 0 after .*\nonce$/);
    });

    test("nobody answers: the default stands, or the agent decides; a Task may ask only so often", async () => {
      const client = clientFor(project(), hasty);
      const taskID = await scripted(client, [
        question(),
        { calls: [{ tool: "ask", input: { question: "And?" } }] },
        question(),
      ]);
      expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed" });
      const events = await eventsOf(taskID, hasty);
      expect(dataOf(events, "ask.answered")).toMatchObject([
        { answer: "red", by: "timeout", source: "service" },
        { by: "timeout", source: "service" },
      ]);
      expect(dataOf(events, "tool.finished").map(({ outcome, output }) => [outcome, output])).toEqual([
        ["ok", expect.stringMatching(/^Nobody answered in time, so your default applies: red\n/)],
        ["ok", expect.stringMatching(/^Nobody answered in time\. Decide yourself/)],
        ["error", expect.stringMatching(/^A Task may ask 2 times, and this one has\./)],
      ]);
      // Waiting is not dying: no run was counted as one that broke off, and none held the Task meanwhile.
      expect(typesOf(events, "run.started")).toHaveLength(3);
    });

    test("three at once are one too many for a limit of two", async () => {
      const client = clientFor(project(), hasty);
      const { calls = [] } = question();
      const taskID = await scripted(client, [{ calls: [...calls, ...calls, ...calls] }]);
      await settled(client, taskID);
      const events = await eventsOf(taskID, hasty);
      expect(dataOf(events, "ask.opened")).toHaveLength(2);
      expect(
        dataOf(events, "tool.finished")
          .map(({ outcome }) => outcome)
          .sort(),
      ).toEqual(["error", "ok", "ok"]);
    });

    test("a message instead of an answer ends the question, and both are read together", async () => {
      const client = clientFor(project());
      const taskID = await scripted(client, [question()]);
      const ask = await waiting(client, taskID);
      const sent = await client.task.message({ path: { taskID }, body: { source: "test", text: "no colours at all" } });
      expect(sent.data).toMatchObject({ disposition: "steered" });
      await settled(client, taskID);
      const { data } = await client.task.messages({ path: { taskID } });
      expect(data?.messages.at(-1)?.text).toMatch(/^After: A message came instead .* no colours at all$/s);
      const late = await client.task.answer({ path: { taskID, askID: ask.id }, body: { answer: "blue" } });
      expect(late.response?.status).toBe(409);
      // Control: one for later leaves it open.
      const other = await scripted(client, [question()]);
      const open = await waiting(client, other);
      await client.task.message({ path: { taskID: other }, body: { source: "test", text: "later", onBusy: "queue" } });
      expect((await statusOf(client, other)).pending).toEqual([open]);
      await client.task.answer({ path: { taskID: other, askID: open.id }, body: { answer: "blue" } });
      await settled(client, other);
    });

    test.each(["stop", "wrap_up"] as const)("a cancel (%s) closes it at once", async (mode) => {
      const client = clientFor(project());
      const taskID = await scripted(client, [question(), { text: "Nothing is done yet." }]);
      const ask = await waiting(client, taskID);
      await client.task.cancel({ path: { taskID }, body: { mode } });
      expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "cancelled", pending: [] });
      expect(dataOf(await eventsOf(taskID), "ask.answered")).toEqual([
        { askID: ask.id, by: "ended", source: "cancel" },
      ]);
      const late = await client.task.answer({ path: { taskID, askID: ask.id }, body: { answer: "blue" } });
      expect([late.response?.status, (late.error as { code: string }).code]).toEqual([409, "ask_closed"]);
    });

    test("of twenty answers at once one stands; a key repeats its own", async () => {
      const client = clientFor(project());
      const taskID = await scripted(client, [question()]);
      const { id: askID } = await waiting(client, taskID);
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          client.task.answer({
            path: { taskID, askID },
            body: { answer: `answer ${index}` },
            headers: { "Idempotency-Key": `key-${index}` },
          }),
        ),
      );
      const statuses = answers.map(({ response }) => response?.status);
      expect(statuses.filter((status) => status === 200)).toHaveLength(1);
      expect(statuses.filter((status) => status === 409)).toHaveLength(19);
      const winner = statuses.indexOf(200);
      const again = await client.task.answer({
        path: { taskID, askID },
        body: { answer: `answer ${winner}` },
        headers: { "Idempotency-Key": `key-${winner}` },
      });
      expect([again.response?.status, again.response?.headers.get("idempotent-replayed")]).toEqual([200, "true"]);
      expect(again.data).toEqual(answers[winner]?.data);
      await settled(client, taskID);
      expect(dataOf(await eventsOf(taskID), "ask.answered").map(({ answer }) => answer)).toEqual([`answer ${winner}`]);
    });

    test("answer against message against cancel: one closing, one end, whoever wins", async () => {
      const client = clientFor(project());
      const taskIDs = await Promise.all(Array.from({ length: 8 }, () => scripted(client, [question()])));
      await Promise.all(
        taskIDs.map(async (taskID, index) => {
          const { id: askID } = await waiting(client, taskID);
          const moves = [
            () => client.task.answer({ path: { taskID, askID }, body: { answer: "blue" } }),
            () => client.task.message({ path: { taskID }, body: { source: "test", text: "hello" } }),
            () => client.task.cancel({ path: { taskID }, body: {} }),
          ];
          await Promise.all([...moves.slice(index % 3), ...moves.slice(0, index % 3)].map((move) => move()));
          await settled(client, taskID);
          const closings = dataOf(await eventsOf(taskID), "ask.answered");
          expect(closings.map((closing) => closing.askID)).toEqual([askID]);
        }),
      );
    });

    test("what is no answer is refused, and the ask stays open", async () => {
      const directory = project();
      const client = clientFor(directory);
      const taskID = await scripted(client, [question()]);
      const ask = await waiting(client, taskID);
      const tries = await Promise.all([
        client.task.answer({ path: { taskID, askID: ask.id }, body: { decision: "allow" } }),
        client.task.answer({ path: { taskID, askID: "ask_nothing" }, body: { answer: "blue" } }),
        clientFor(project()).task.answer({ path: { taskID, askID: ask.id }, body: { answer: "blue" } }),
      ]);
      expect(tries.map(({ error }) => (error as { code: string }).code)).toEqual([
        "invalid_request",
        "ask_not_found",
        "directory_mismatch",
      ]);
      expect((await statusOf(client, taskID)).pending).toEqual([ask]);
      await client.task.cancel({ path: { taskID }, body: {} });
    });
  });

  // From here on nothing is the store's.
  // What a rule decides is the same on every store; said once.
  const once = name === "sqlite" ? describe : (_what: string, _tests: () => void) => {};
  once("permission", () => {
    test("allow runs the call once; deny tells the model; both are on record with their rule", async () => {
      const directory = project({ "a.txt": "one\n", release: "deployed\n" });
      const client = clientFor(directory);
      const taskID = await scripted(client, [
        shell("cd . && cp release done.txt"),
        write("Dockerfile"),
        shell("cat done.txt"),
      ]);
      const first = await waiting(client, taskID);
      expect(first).toMatchObject({
        kind: "permission",
        prompt: "Allow the agent to run `cp release done.txt`?",
        options: ["allow", "deny"],
        default: "deny",
      });
      await client.task.answer({ path: { taskID, askID: first.id }, body: { decision: "allow" } });
      const second = await until(
        () => statusOf(client, taskID),
        ({ pending }) => pending[0] !== undefined && pending[0].id !== first.id,
      );
      const wrong = await client.task.answer({
        path: { taskID, askID: second.pending[0]!.id },
        body: { answer: "yes" },
      });
      expect(wrong.response?.status).toBe(400);
      await client.task.answer({ path: { taskID, askID: second.pending[0]!.id }, body: { decision: "deny" } });
      expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed" });
      expect(readText(directory, "done.txt")).toBe("deployed\n");
      expect(() => readText(directory, "Dockerfile")).toThrow("ENOENT");
      const events = await eventsOf(taskID);
      expect(
        dataOf(events, "permission.decided").map(({ tool, decision, by, rule, origin }) => [
          tool,
          decision,
          by,
          rule,
          origin,
        ]),
      ).toEqual([
        ["shell", "ask", "rule", "shell(cp release done.txt)", "operator"],
        ["shell", "allow", "caller", "shell(cp release done.txt)", "operator"],
        ["write", "ask", "rule", "write(Dockerfile)", "operator"],
        ["write", "deny", "caller", "write(Dockerfile)", "operator"],
      ]);
      expect(dataOf(events, "tool.finished").map(({ tool, outcome }) => [tool, outcome])).toEqual([
        ["shell", "ok"],
        ["write", "error"],
        ["shell", "ok"],
        ["verdict", "ok"],
      ]);
    });

    test("nobody answers: denied; and a Task may ask for only so many", async () => {
      const directory = project();
      const client = clientFor(directory, hasty);
      const taskID = await scripted(client, [write("Dockerfile"), write("Dockerfile", "again\n"), write("b.txt")]);
      expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed" });
      const events = await eventsOf(taskID, hasty);
      expect(dataOf(events, "ask.answered")).toMatchObject([{ decision: "deny", by: "timeout" }]);
      expect(dataOf(events, "tool.finished").map(({ outcome, output }) => [outcome, output])).toEqual([
        ["error", expect.stringMatching(/^Denied: write Dockerfile\. Nobody gave permission in time/)],
        ["error", expect.stringMatching(/^This needs permission, and a Task may ask for 1/)],
        ["ok", expect.any(String)],
        ["ok", "Recorded."],
      ]);
      expect(() => readText(directory, "Dockerfile")).toThrow("ENOENT");
      expect(readText(directory, "b.txt")).toBe("x\n");
    });

    test("a message leaves it open, an interruption closes it", async () => {
      const client = clientFor(project());
      const taskID = await scripted(client, [write("Dockerfile")]);
      const ask = await waiting(client, taskID);
      await client.task.message({ path: { taskID }, body: { source: "test", text: "by the way" } });
      expect((await statusOf(client, taskID)).pending).toEqual([ask]);
      const text = "leave that";
      await client.task.message({ path: { taskID }, body: { source: "test", text, onBusy: "interrupt" } });
      await settled(client, taskID);
      expect(dataOf(await eventsOf(taskID), "ask.answered")).toEqual([
        { askID: ask.id, decision: "deny", by: "ended", source: "message" },
      ]);
      const { data } = await client.task.messages({ path: { taskID } });
      expect(data?.messages.at(-1)?.text).toMatch(/^After: Denied: write Dockerfile\. .* by the way \/ leave that$/s);
    });

    test("denied: files by any tool and way, commands in any dress; allowed: what the operator lifts", async () => {
      const directory = project({
        "migrations/1.sql": "select 1;\n",
        "migrations/2.sql": "select 2;\n",
        ".env": "A=1\n",
        ".env.shared": "B=2\n",
        "free.sql": "select 3;\n",
      });
      const client = clientFor(directory);
      const edit = (path: string) => ({ tool: "edit", input: { path, edits: [{ old: "select", new: "SELECT" }] } });
      const patch = "--- a/migrations/1.sql\n+++ b/migrations/1.sql\n@@ -1 +1 @@\n-select 1;\n+select 9;\n";
      // Commands first: behind an edit that was denied they would not be run at all.
      const denied = [
        { tool: "git", input: { action: "mv", from: "migrations/1.sql", to: "free2.sql" } },
        { tool: "git", input: { action: "rm", paths: ["migrations"] } },
        { tool: "git", input: { action: "mv", from: "free.sql", to: "migrations" } },
        { tool: "shell", input: { command: "true; (cd . && git -C . push origin main)" } },
        { tool: "shell", input: { command: 'bash -c "git push"' } },
        { tool: "read", input: { path: ".env" } },
        { tool: "write", input: { path: "migrations/3.sql", content: "x" } },
        edit("./migrations//1.sql"),
        { tool: "apply_patch", input: { patch } },
        { tool: "write", input: { path: ".sortie/permissions.jsonc", content: "{}" } },
      ];
      const allowed = [
        { tool: "read", input: { path: ".env.shared" } },
        { tool: "read", input: { path: "migrations/1.sql" } },
        { tool: "shell", input: { command: "git log --oneline | cat # git push" } },
        edit("free.sql"),
      ];
      const taskID = await scripted(client, [{ calls: denied }, { calls: allowed }]);
      expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed" });
      const events = await eventsOf(taskID);
      const ends = dataOf(events, "tool.finished").map(({ tool, outcome, output }) => [tool, outcome, output]);
      expect(ends.slice(0, denied.length)).toEqual(
        denied.map(({ tool }) => [
          tool,
          "error",
          expect.stringMatching(/^Denied: .*Nothing was done\. Do not look for a way around it/),
        ]),
      );
      expect(ends.slice(denied.length).map(([tool, outcome]) => [tool, outcome])).toEqual(
        [...allowed, { tool: "verdict" }].map(({ tool }) => [tool, "ok"]),
      );
      const decided = dataOf(events, "permission.decided");
      expect(decided.map(({ decision }) => decision)).toEqual([...denied.map(() => "deny"), "allow"]);
      expect(decided.at(-1)).toMatchObject({ rule: "read(.env.shared)", origin: "operator", by: "rule" });
      expect(git(directory, "ls-files", "migrations")).toBe("migrations/1.sql\nmigrations/2.sql");
      expect(readText(directory, "free.sql")).toBe("SELECT 3;\n");
    });

    test("untracked files whose names suggest secrets stay with the user; control: what is allowed, and other names", async () => {
      const directory = project();
      mkdirSync(join(directory, "keys"));
      for (const name of [".env", ".env.local", ".env.shared", "keys/own.pem", "keys/id_ed25519", "notes.txt"])
        writeFileSync(join(directory, name), "S=1\n");
      const client = clientFor(directory);
      const taskID = await scripted(client, [shell("find . -type f -not -path './.git*' | sort")]);
      await settled(client, taskID);
      const [{ output } = { output: "" }] = dataOf(await eventsOf(taskID), "tool.finished");
      expect((output as string).match(/^\.\/.*$/gm)).toEqual(["./.env.shared", "./a.txt", "./notes.txt"]);
    });

    test("what a rule hides is not found by a search either, or moved with its folder", async () => {
      const files = { "src/keep/secret.txt": "needle\n", "src/open.txt": "needle\n", "a.txt": "one\n" };
      const directory = project({
        ...files,
        ".sortie/permissions.jsonc": `{ "deny": ["read(src/keep/)", "write(secret.txt)"] } // narrow`,
      });
      const client = clientFor(directory);
      const taskID = await scripted(client, [
        { calls: [{ tool: "search", input: { pattern: "needle" } }] },
        { calls: [{ tool: "git", input: { action: "mv", from: "src", to: "lib" } }] },
      ]);
      await settled(client, taskID);
      const outputs = dataOf(await eventsOf(taskID), "tool.finished").map(({ output }) => output as string);
      expect(outputs[0]).toContain("src/open.txt");
      expect(outputs[0]).not.toContain("secret.txt");
      expect(outputs[1]).toContain("secret.txt");
      expect(git(directory, "ls-files", "src")).toBe("src/keep/secret.txt\nsrc/open.txt");
    });
  });

  once("the default rules", () => {
    test("hold file by file where no other rule is about files: nothing of .sortie goes or comes with its folder", async () => {
      const files = {
        ".sortie/permissions.jsonc": '{ "deny": ["shell(git push)"] }',
        ".sortie/squads/own/squad.json": "{}",
        ".sortie/zz.txt": "z\n",
        "planted/permissions.jsonc": "{}",
        "planted/squads/evil/squad.json": "{}",
        "free/a.txt": "a\n",
      };
      const directory = project(files);
      const client = clientFor(directory);
      const git_ = (input: object) => ({ calls: [{ tool: "git", input }] });
      const taskID = await scripted(client, [
        git_({ action: "mv", from: ".sortie", to: "away" }),
        git_({ action: "rm", paths: ["free/a.txt", ".sortie"] }),
        git_({ action: "mv", from: "planted", to: ".SORTIE" }),
        // Control: what no rule is about.
        git_({ action: "mv", from: "free", to: "moved" }),
      ]);
      expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed" });
      const ends = dataOf(await eventsOf(taskID), "tool.finished").map(({ outcome, output }) => [outcome, output]);
      expect(ends.slice(0, 4)).toEqual([
        ["error", expect.stringMatching(/permissions\.jsonc" \(rule write\(\/\.sortie\/permissions\.jsonc\)\)/)],
        ["error", expect.stringMatching(/^Expected files that may be changed, got .*nothing was removed\.$/)],
        ["error", expect.stringMatching(/rule write\(\/\.sortie\//)],
        ["ok", expect.stringContaining("Moved")],
      ]);
      expect(git(directory, "ls-files").split("\n")).toEqual(
        [...Object.keys(files).filter((path) => path !== "free/a.txt"), "moved/a.txt"].toSorted(),
      );
    });
  });

  once("a project's own rules", () => {
    const file = ".sortie/permissions.jsonc";

    test("narrow, are read before the work, and stand whatever the agent does to the file", async () => {
      const directory = project({ "a.txt": "one\n", [file]: '{ "deny": ["write(a.txt)"], "ask": ["write(b.txt)"] }' });
      const client = clientFor(directory);
      const taskID = await scripted(client, [shell(`echo '{}' > ${file}`), write("a.txt"), write("b.txt")], {
        isolation: "directory",
      });
      const ask = await waiting(client, taskID);
      await client.task.answer({ path: { taskID, askID: ask.id }, body: { decision: "allow" } });
      expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed" });
      expect(readText(directory, "a.txt")).toBe("one\n");
      expect(readText(directory, "b.txt")).toBe("x\n");
      const events = await eventsOf(taskID);
      expect(dataOf(events, "permissions.read")).toEqual([{ file, deny: ["write(a.txt)"], ask: ["write(b.txt)"] }]);
      expect(dataOf(events, "permission.decided")).toMatchObject([
        { decision: "deny", origin: "project" },
        { decision: "ask", origin: "project" },
        { decision: "allow", by: "caller" },
      ]);
    });

    test.each([
      ['{ "allow": ["read(.env)"] }', /permissions\.jsonc: the file: .*Expected deny and ask/],
      [
        '{ "deny": ["shel(git push)"] }',
        /Expected a rule about one of .*, got "shel\(git push\)"|Expected a rule about one of .*; got/,
      ],
      ["{ deny", /permissions\.jsonc: .* at offset/],
    ])("a file that cannot be kept fails the Task, and says why: %s", async (text, message) => {
      const directory = project();
      mkdirSync(join(directory, ".sortie"));
      writeFileSync(join(directory, file), text);
      const client = clientFor(directory);
      const taskID = await scripted(client, [write("b.txt")]);
      const end = await settled(client, taskID);
      expect(end).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "permissions_invalid" } });
      expect(end.error).toMatch(message);
      // Mended, a message goes on.
      writeFileSync(join(directory, file), "{}");
      await client.task.message({ path: { taskID }, body: { source: "test", text: "go on" } });
      expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed" });
    });
  });
});
