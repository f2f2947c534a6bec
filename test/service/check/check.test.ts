import { readdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import { findProgram } from "../../../src/process/sandbox/sandbox.ts";
import { git, makeProject, readText, temporary, until, writeFiles } from "../../harness/project.ts";
import { type MockProvider, type MockTurn, startMockProvider, textOf } from "../../harness/double/mock-provider.ts";
import { sandboxesHere } from "../../harness/sandboxes.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** Acceptance checks over HTTP: what each kind decides, on which files it runs, and that nothing can lie for it. */

const scripts: Record<string, MockTurn[]> = {};
const counted = new Map<string, number>();
const root = temporary("sortie-checks-");
const boxed = (await sandboxesHere()).some(({ tier }) => tier === 1);
let provider: MockProvider;
let service: TestService;
let count = 0;

beforeAll(async () => {
  provider = await startMockProvider(({ first, turn }) => {
    const marker = /\[(\w+)\]/.exec(first)?.[1] ?? "";
    const at = counted.get(marker) ?? turn;
    if (counted.has(marker)) counted.set(marker, at + 1);
    return scripts[marker]?.[at] ?? { text: "Done." };
  });
  service = await start({}, join(root.path, "data"));
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

const start = (settings: object, dataDir: string): Promise<TestService> => {
  const config = `${dataDir}.jsonc`;
  const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
  writeFileSync(config, JSON.stringify({ providers, limits: { checkRounds: 1 }, ...settings }));
  return startService(dataDir, { SERVICE_CONFIG: config });
};

/** What is done here is done by a service with other settings. */
const onAnother = async (settings: object, act: (dataDir: string) => Promise<void>): Promise<void> => {
  const dataDir = join(root.path, `data-${(count += 1)}`);
  await using another = await start(settings, dataDir);
  const before = service;
  service = another;
  try {
    await act(dataDir);
  } finally {
    service = before;
  }
};

const project = (files: Record<string, string> = {}) =>
  makeProject(join(root.path, `project-${(count += 1)}`), { "a.txt": "one\n", ...files });
const clientFor = (directory: string) => createServiceClient({ baseUrl: service.url, directory });
type Client = ReturnType<typeof clientFor>;
type Create = NonNullable<Parameters<Client["task"]["create"]>[0]>["body"];
type Checks = NonNullable<Create["checks"]>;

const write = (path: string, content: string): MockTurn => ({ calls: [{ tool: "write", input: { path, content } }] });

/** A Task of the scripted model, to its end. */
const run = async (
  directory: string,
  turns: MockTurn[],
  checks: Checks | undefined,
  body: Partial<Create> = {},
  /** By what the model is at its next turn: an empty reply is no message that it is sent again. */
  by: "messages" | "requests" = "messages",
) => {
  const client = clientFor(directory);
  const marker = `c${(count += 1)}`;
  scripts[marker] = turns;
  if (by === "requests") counted.set(marker, 0);
  const request = { request: `do it [${marker}]`, model: "mock/large", productPillar: "code" as const, ...body };
  const made = await client.task.create({ body: { ...request, ...(checks === undefined ? {} : { checks }) } });
  if (made.data === undefined) throw new Error(JSON.stringify(made.error));
  const path = { taskID: made.data.taskID };
  const { data: status, error } = await client.task.wait({ path, timeoutMs: 20_000 });
  if (status === undefined) throw new Error(JSON.stringify(error));
  const log = async (checkID: string) => String((await client.task.checkLog({ path: { ...path, checkID } })).data);
  return { client, taskID: path.taskID, status, log, marker };
};

describe("a round", () => {
  /** What was said to the model in its requests: the last user message of each. */
  const told = (marker: string) =>
    provider.requests
      .filter(({ first }) => first.includes(`[${marker}]`))
      .map(({ body }) => textOf(body.messages.findLast(({ role }) => role === "user")?.content));
  const kinds = async (taskID: string, type: string) => {
    const answer = await fetch(`${service.url}/task/${taskID}/events?format=json&after=0`);
    const { events } = (await answer.json()) as {
      events: { type: string; data: { finish?: string; agent?: string } }[];
    };
    return events.filter((event) => event.type === type && event.data.agent !== "reviewer");
  };

  test("is not cost by an empty reply: the model is asked again, and told why", async () => {
    const made = { file: "made.txt" };
    const { status, taskID, marker } = await run(
      project(),
      [{}, { text: " \n" }, write(made.file, "1\n"), { text: "" }, { text: "Made." }],
      [{ kind: "file", path: made.file }],
      {},
      "requests",
    );
    expect(status).toMatchObject({ lifecycleStatus: "completed", checks: [{ state: "passed", round: 0 }] });
    const said = told(marker);
    expect(said.map((text) => text.startsWith("Your last reply was empty."))).toEqual([false, true, true, false, true]);
    expect((await kinds(taskID, "reply.finished")).map(({ data }) => data.finish)).toEqual([
      "empty",
      "empty",
      "calls",
      "empty",
      "end",
    ]);
    expect(await kinds(taskID, "check.started")).toHaveLength(1);
  });

  test("is not cost by a call that names no tool: the model is told, and goes on", async () => {
    const nameless = { text: "I write it now.", calls: [{ tool: "", input: { path: "a.txt" } }] };
    const { status, taskID, marker } = await run(
      project(),
      [nameless, write("made.txt", "1\n"), { text: "Made." }],
      [{ kind: "file", path: "made.txt" }],
      {},
      "requests",
    );
    expect(told(marker)[1]).toMatch(/^Your last reply announced a call, but none with the name of a tool came\. Go on/);
    expect(status).toMatchObject({ lifecycleStatus: "completed", checks: [{ state: "passed", round: 0 }] });
    expect(await kinds(taskID, "check.started")).toHaveLength(1);
    // Control: words alone are an end, and one that always calls so is asked twice more, too.
    const words = await run(project(), [{ text: "I write it now." }], [{ kind: "file", path: "made.txt" }]);
    expect((await kinds(words.taskID, "reply.finished")).map(({ data }) => data.finish)).toEqual(["end", "end"]);
    const always = Array.from({ length: 9 }, () => nameless);
    const lost = await run(project(), always, [{ kind: "file", path: "made.txt" }], {}, "requests");
    expect((await kinds(lost.taskID, "reply.finished")).map(({ data }) => data.finish)).toEqual([
      "empty",
      "empty",
      "end",
      "empty",
      "empty",
      "end",
    ]);
  });

  test("control: the third empty reply in a row is the end, and the checks judge", async () => {
    const { status, taskID } = await run(
      project(),
      Array.from({ length: 9 }, () => ({})),
      [{ kind: "file", path: "made.txt" }],
      {},
      "requests",
    );
    expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "checks_failed" } });
    const ends = (await kinds(taskID, "reply.finished")).map(({ data }) => data.finish);
    expect(ends).toEqual(["empty", "empty", "end", "empty", "empty", "end"]);
  });

  test("after which nothing changed says so, and no check is run anew, whatever was called; a change has them run", async () => {
    await onAnother({ limits: { checkRounds: 3 } }, async () => {
      const { status, taskID, marker } = await run(
        project(),
        [
          write("b.txt", "b\n"),
          { text: "Done." },
          { calls: [{ tool: "shell", input: { command: "cat b.txt; touch c.txt; rm c.txt" } }] },
          { text: "I see nothing wrong." },
          write("b.txt", "mended\n"),
          { text: "Mended." },
        ],
        ["grep -q mended b.txt"],
      );
      expect(status).toMatchObject({ lifecycleStatus: "completed", checks: [{ state: "passed", round: 2 }] });
      const [first = "", again = ""] = [...new Set(told(marker))].filter((text) => text.includes("(round "));
      expect(first).toContain("1 of 1 failed (round 1 of 3)");
      expect(first).toContain("`grep -q mended b.txt`: exit 1, without any output\n\nFix the cause.");
      expect(again).toContain(
        "Nothing changed in the files since the checks failed, so they were not run again: `grep",
      );
      expect(again).toContain("(round 2 of 3)");
      expect(await kinds(taskID, "check.started")).toHaveLength(2);
    });
  });
});

describe("a file check", () => {
  test("is there, is not there, has a text in it; a red one says what came", async () => {
    const directory = project({ "old.txt": "old\n", "folder/b.txt": "b\n" });
    const { status, log } = await run(
      directory,
      [write("made.txt", "first\nsecond line\n")],
      [
        { kind: "file", path: "made.txt" },
        { kind: "file", path: "made.txt", matches: "^second" },
        { kind: "file", path: "folder" },
        { kind: "file", path: "gone.txt", exists: false, baseline: true },
        { kind: "file", id: "old", path: "old.txt", exists: false, required: false },
        { kind: "file", id: "text", path: "a.txt", matches: "^two", required: false },
        { kind: "file", id: "missing", path: "b.txt", matches: "x", required: false },
        { kind: "file", id: "secret", path: ".env", required: false },
      ],
    );
    expect(status.lifecycleStatus).toBe("completed");
    expect(status.checks.map(({ state }) => state).join(" ")).toBe(
      "passed passed passed passed failed failed failed error",
    );
    expect(status.checks[3]).toMatchObject({ name: "file gone.txt", baseline: { state: "passed" }, exitCode: null });
    expect(await Promise.all(["old", "text", "missing", "secret"].map(log))).toEqual([
      "Expected nothing at old.txt, got something there\n",
      "Expected a.txt to match /^two/, got no match\n",
      "Expected a file at b.txt, got nothing there\n",
      expect.stringContaining("protected"),
    ]);
  });

  test("a required one that fails goes back to the agent, which mends it", async () => {
    const { status } = await run(
      project(),
      [write("b.txt", "1\n"), { text: "Done." }, write("b.txt", "2\n")],
      [{ kind: "file", path: "b.txt", matches: "^2$" }],
    );
    expect(status).toMatchObject({ lifecycleStatus: "completed", checks: [{ state: "passed", round: 1 }] });
  });
});

const serve = (answer: string) =>
  `node -e 'require("http").createServer((q, r) => { ${answer} }).listen(4599, "127.0.0.1", () => console.log("serving"))'`;
const url = "http://127.0.0.1:4599/page?x=1";

describe("an http check", () => {
  const http = (start: string, more: object = {}) => ({
    kind: "http" as const,
    start,
    url,
    timeoutSeconds: 20,
    ...more,
  });

  test("passes on status and body, a red one shows the answer, and its server is gone afterwards", async () => {
    const made = `r.setHeader("x-n", 1); r.end("héllo " + q.url + "\\nsecond")`;
    const { status, log } = await run(
      project(),
      [write("b.txt", "1\n")],
      [
        http(`sleep 0.3; ${serve(made)}`, { expect: { bodyMatches: "^héllo /page\\?x=1$" } }),
        http(serve(`r.statusCode = 404; r.end("nothing here")`), { expect: { status: 404 } }),
        http(serve(made), { required: false, expect: { status: 201 } }),
        http(serve(made), { required: false, expect: { bodyMatches: "^second.$" } }),
        http("echo broken >&2; exit 7", { required: false }),
        http("no-such-program", { required: false }),
        http("sleep 30", { required: false, timeoutSeconds: 1 }),
        // It keeps the connection open.
        http(serve(`r.writeHead(200, { "content-length": 2 }); r.write("ok")`), { expect: { bodyMatches: "^ok$" } }),
      ],
    );
    expect(status.checks.map(({ state }) => state).join(" ")).toBe(
      "passed passed failed failed failed error failed passed",
    );
    expect(status).toMatchObject({
      lifecycleStatus: "completed",
      checks: [{ exitCode: null, name: `GET ${url}` }, {}, {}, {}, {}, {}, {}, {}],
    });
    const logs = await Promise.all(status.checks.map(({ id }) => log(id)));
    expect(logs[0]).toContain("serving\n");
    expect(logs[2]).toMatch(
      /HTTP\/1\.1 200 OK\r\nx-n: 1\r\n[^]*\r\n\r\nhéllo[^]*\nExpected status 201 of .*, got 200\n$/,
    );
    expect(logs[3]).toContain("Expected a body that matches /^second.$/, got none\n");
    expect(logs[4]).toMatch(/broken\n[^]*the server exited \(exit 7\) before .* answered\n$/);
    expect(logs[5]).toContain("no-such-program was not found: install it");
    expect(logs[6]).toContain("did not answer within 1 s");
  });

  test("on a machine whose network is shared: a stranger on the port is no answer; two take turns", async () => {
    await onAnother({ sandbox: { tier: 3 } }, async () => {
      const one = (text: string, more: object = {}) =>
        run(
          project(),
          [write("b.txt", "1\n")],
          [http(serve(`setTimeout(() => r.end("${text}"), 300)`), { expect: { bodyMatches: `^${text}$` }, ...more })],
        );
      const both = await Promise.all([one("one"), one("two")]);
      expect(both.map(({ status }) => status.lifecycleStatus)).toEqual(["completed", "completed"]);
      const stranger = createServer((_, response) => response.end("mine")).listen(4599, "127.0.0.1");
      const { status, log } = await one("mine", { required: false }).finally(() => stranger.close());
      expect(status.checks[0]?.state).toBe("error");
      expect(await log("check-1")).toContain("127.0.0.1:4599 already answers before the server is started");
    });
  });

  test("two at once on one port do not meet", async () => {
    const one = (text: string) =>
      run(
        project(),
        [write("b.txt", "1\n")],
        [http(serve(`setTimeout(() => r.end("${text}"), 500)`), { expect: { bodyMatches: `^${text}$` } })],
      );
    const both = await Promise.all([one("one"), one("two")]);
    expect(both.map(({ status }) => status.lifecycleStatus)).toEqual(["completed", "completed"]);
  });
});

describe("the files that checks run on", () => {
  const shell = (command: string): MockTurn => ({ calls: [{ tool: "shell", input: { command } }] });

  test("are those that will land: what an agent left in ignored files is not there, nor in their dependencies", async () => {
    const directory = project({ ".gitignore": "ignored\nnode_modules\n" });
    writeFiles(directory, { "node_modules/dep/index.js": "1\n" });
    const { status } = await run(
      directory,
      [shell("echo 1 > ignored; mkdir -p node_modules/dep; echo 2 > node_modules/dep/index.js; echo b > b.txt")],
      [
        "test ! -e ignored && grep -q 1 node_modules/dep/index.js && grep -q b b.txt",
        { kind: "test", run: "git status --porcelain | grep . && exit 1; git log -1 --format=%s | grep -q 'do it'" },
        // Control: what it says no to would be seen.
        { kind: "command", run: "test -e ignored", required: false },
      ],
    );
    expect(status.checks.map(({ state }) => state)).toEqual(["passed", "passed", "failed"]);
    expect(status.lifecycleStatus).toBe("completed");
  });

  test("what one leaves reaches neither another, nor the next round, nor the project", async () => {
    const directory = project({ ".gitignore": "ignored\nnode_modules\n" });
    writeFiles(directory, { "node_modules/dep/index.js": "1\n" });
    const spoil =
      "test ! -e ignored && test ! -e new && grep -q one a.txt && grep -q 1 node_modules/dep/index.js && " +
      "echo x > ignored && echo x > new && echo x > a.txt && echo x > node_modules/dep/index.js";
    const { status } = await run(
      directory,
      [shell("echo b > b.txt"), { text: "Done." }, shell("echo 2 > b.txt")],
      [spoil, spoil, { kind: "command", run: `${spoil} && grep -q 2 b.txt`, baseline: true }],
    );
    expect(status).toMatchObject({ lifecycleStatus: "completed", checks: [{}, {}, { round: 1, flaky: false }] });
    expect(git(directory, "show", "--format=", "--name-only", "HEAD")).toBe("b.txt");
    expect(readText(directory, "node_modules/dep/index.js")).toBe("1\n");
  });

  test("in place they are the project's own, and checks take turns", async () => {
    const directory = join(root.path, "plain");
    writeFiles(directory, { "a.txt": "one\n" });
    const turn = "test ! -e busy && touch busy && sleep 0.2 && rm busy";
    const { status } = await run(directory, [shell("echo 1 > made")], [turn, turn, "test -e made"]);
    expect(status).toMatchObject({ lifecycleStatus: "completed", checks: [{ commit: null }, {}, {}] });
  });

  test.skipIf(!boxed)("each has its own, so they run at the same time", async () => {
    const { taskID } = await run(project(), [shell("echo b > b.txt")], ["sleep 0.5", "sleep 0.5"]);
    const response = await fetch(`${service.url}/task/${taskID}/events?format=json&after=0`);
    const { events } = (await response.json()) as { events: { type: string }[] };
    expect(events.map(({ type }) => type).filter((type) => type.startsWith("check."))).toEqual([
      "check.started",
      "check.started",
      "check.finished",
      "check.finished",
    ]);
  });

  test("where there is no sandbox for that they take turns, and the tree is put back after each", async () => {
    const setup = { sandbox: { tier: 3 }, workspace: { setup: "mkdir made && touch made/it" } };
    await onAnother(setup, async (dataDir) => {
      const directory = project({ ".gitignore": "ignored\nnode_modules\nmade\n" });
      writeFiles(directory, { "node_modules/dep/index.js": "1\n" });
      const spoil =
        "test ! -e ignored && test -e made/it && test ! -e new && grep -q one a.txt && test -e node_modules/dep/index.js && " +
        "echo x > ignored && echo x > new && rm a.txt && mkdir a.txt";
      const { status, log } = await run(directory, [shell("echo x > ignored; echo b > b.txt")], [spoil, spoil]);
      expect(
        status.checks.map(({ state }) => state),
        await log("check-1"),
      ).toEqual(["passed", "passed"]);
      const left = () => readdirSync(join(dataDir, "worktrees")).filter((name) => name.includes("checkout"));
      await until(
        () => Promise.resolve(left()),
        (names) => names.length === 0,
      );
    });
  });
});

describe("a check that fails once", () => {
  test("runs once more on the same files: it passes as flaky, its log has both; one that fails twice is red", async () => {
    const runs = join(root.path, "runs");
    await onAnother({ sandbox: { tier: 3 } }, async () => {
      const once = `echo run >> ${runs}; [ $(wc -l < ${runs}) -gt 1 ]`;
      const { status, log } = await run(
        project(),
        [write("b.txt", "1\n")],
        [once, { kind: "command", run: "echo no; false", required: false }],
      );
      expect(status).toMatchObject({
        lifecycleStatus: "completed",
        checks: [
          { state: "passed", flaky: true, exitCode: 0 },
          { state: "failed", flaky: false, exitCode: 1 },
        ],
      });
      expect(await log("check-1")).toContain("--- exit 1; once more ---");
      expect(await log("check-2")).toBe("no\n");
    });
  });
});

describe("a request without checks", () => {
  const scripts = (test: string) => ({
    "package.json": JSON.stringify({ scripts: { test, lint: "test -f b.txt" } }),
  });
  const typesOf = async (taskID: string): Promise<string[]> => {
    const response = await fetch(`${service.url}/task/${taskID}/events?format=json&after=0`);
    return ((await response.json()) as { events: { type: string }[] }).events.map(({ type }) => type);
  };

  test("has the project's own after the work, once; they decide nothing, and are those from before the work", async () => {
    const { status, log, taskID } = await run(
      project(scripts("echo never; exit 3")),
      [write("package.json", JSON.stringify({ scripts: { build: "true" } })), write("b.txt", "b\n")],
      undefined,
    );
    expect(status).toMatchObject({
      lifecycleStatus: "completed",
      checks: [
        { id: "project-test", name: "npm test", kind: "test", origin: "project", required: false, state: "failed" },
        { id: "project-lint", name: "npm run lint", kind: "lint", origin: "project", state: "failed" },
      ],
    });
    expect(status.git.landedCommit).not.toBeNull();
    expect(await log("project-lint")).toContain("Missing script");
    const types = await typesOf(taskID);
    expect(types.filter((type) => type === "checks.found")).toHaveLength(1);
    expect(types.filter((type) => type === "message.received")).toEqual([]);
  });

  test("they pass too; not where nothing changed, checks are named, the project has none, or the operator said 0", async () => {
    const green = await run(project(scripts("test -f a.txt")), [write("b.txt", "b\n")], undefined);
    expect(green.status.checks.map(({ state }) => state)).toEqual(["passed", "passed"]);
    const nothing = await run(project(scripts("true")), [], undefined);
    const named = await run(project(scripts("true")), [write("b.txt", "b\n")], ["true"]);
    const none = await run(project(), [write("b.txt", "b\n")], undefined);
    expect([nothing, named, none].map(({ status }) => status.checks.map(({ id }) => id))).toEqual([
      [],
      ["check-1"],
      [],
    ]);
    expect(await typesOf(none.taskID)).not.toContain("check.started");
    await onAnother({ limits: { projectCheckSeconds: 0 } }, async () => {
      const off = await run(project(scripts("true")), [write("b.txt", "b\n")], undefined);
      expect(off.status.checks).toEqual([]);
    });
  });
});

describe("the project's own checks, which passed before the work", () => {
  const green = (more = "true") => ({
    "package.json": JSON.stringify({ scripts: { test: "grep -q one a.txt", lint: more } }),
  });
  const eventsOf = async (taskID: string) => {
    const response = await fetch(`${service.url}/task/${taskID}/events?format=json&after=0`);
    return ((await response.json()) as { events: { type: string; data: { on?: string; ranFor?: string } }[] }).events;
  };
  const onBase = async (taskID: string) => (await eventsOf(taskID)).filter(({ data }) => data.on === "base");

  test("go back to the agent when they fail, and then fail the Task; red before, they decide nothing", async () => {
    const { status, taskID, client } = await run(project(green("false")), [write("a.txt", "two\n")], undefined);
    expect(status).toMatchObject({
      lifecycleStatus: "failed",
      verified: null,
      errorInfo: { code: "checks_failed" },
      checks: [
        { id: "project-test", required: false, gates: true, state: "failed", baseline: { state: "passed" } },
        { id: "project-lint", required: false, gates: false, state: "failed", baseline: { state: "failed" } },
      ],
      git: { landedCommit: null },
    });
    expect(status.error).toMatch(/`npm test`, exit 1\. Nothing landed\. .*its own `checks`.*`\[\]` for none/);
    const { data } = await client.task.messages({ path: { taskID } });
    const told = data?.messages.filter(({ source }) => source === "checks").map(({ text }) => text);
    expect(told).toEqual([expect.stringContaining("One that passed before your work fails now (round 1 of 1)")]);
    expect(told?.[0]).not.toContain("npm run lint");
  });

  test("pass once mended, and the next Task knows from that what its base is worth", async () => {
    const directory = project(green());
    const turns = [write("a.txt", "two\n"), { text: "Done." }, write("a.txt", "one and two\n")];
    const first = await run(directory, turns, undefined);
    expect(first.status).toMatchObject({
      lifecycleStatus: "completed",
      verified: true,
      checks: [
        { gates: true, state: "passed" },
        { gates: true, state: "passed" },
      ],
    });
    const types = (await eventsOf(first.taskID)).map(({ type, data }) => `${type} ${data.on ?? ""}`.trim());
    // Nothing is run before the model has asked for a change.
    expect(types.indexOf("check.started base")).toBeGreaterThan(types.indexOf("tool.finished"));
    expect(types.filter((type) => type === "check.started base")).toHaveLength(2);
    const second = await run(directory, [write("b.txt", "b\n")], undefined);
    expect(second.status).toMatchObject({ verified: true, checks: [{ gates: true }, { gates: true }] });
    expect((await onBase(second.taskID)).map(({ type, data }) => [type, data.ranFor])).toEqual(
      [1, 2].map(() => ["check.finished", first.taskID]),
    );
  });

  test("decide nothing where the caller says so, and are not run in place", async () => {
    const named = await run(project(green()), [write("a.txt", "two\n")], ["true"]);
    const none = await run(project(green()), [write("a.txt", "two\n")], []);
    expect([named, none].map(({ status }) => [status.lifecycleStatus, status.verified, status.checks.length])).toEqual([
      ["completed", true, 1],
      ["completed", false, 0],
    ]);
    const place = await run(project(green()), [write("a.txt", "two\n")], undefined, { isolation: "directory" });
    expect(place.status).toMatchObject({ lifecycleStatus: "completed", verified: false, checks: [] });
  });

  test("hold for the built-in rules", async () => {
    const model = "builtin/rules-1" as const;
    const swap = (to: string) => ({ model, request: `replace "one" with "${to}" in a.txt` });
    const broken = await run(project(green()), [], undefined, swap("two"));
    expect(broken.status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "checks_failed" } });
    const kept = await run(project(green()), [], undefined, swap("one or two"));
    expect(kept.status).toMatchObject({ lifecycleStatus: "completed", verified: true });
  });
});

describe("a check that the Task changes", () => {
  const shell = (command: string): MockTurn => ({ calls: [{ tool: "shell", input: { command } }] });
  const strict = "#!/bin/sh\ngrep -q done work.txt\n";
  const files = {
    "scripts/check.sh": strict,
    "package.json": JSON.stringify({ scripts: { test: "sh scripts/check.sh" } }),
    Makefile: "test:\n\tsh scripts/check.sh\n",
    "work.txt": "open\n",
  };
  const lies: [name: string, run: string, turn: MockTurn, named: string][] = [
    ["its script", "sh scripts/check.sh", write("scripts/check.sh", "exit 0\n"), "scripts/check.sh"],
    ["its script, through npm", "npm test", write("scripts/check.sh", "exit 0\n"), "scripts/check.sh"],
    [
      "the test command",
      "npm test",
      write("package.json", JSON.stringify({ scripts: { test: "true" } })),
      "package.json (scripts.test)",
    ],
    ["the target", "sh -c 'exec make test' || make test", write("Makefile", "test:\n\ttrue\n"), "Makefile"],
    [
      "its script, by a link",
      "sh scripts/check.sh",
      shell("echo exit 0 > own.sh; ln -sf ../own.sh scripts/check.sh"),
      "scripts/check.sh",
    ],
  ];
  const makes = ["npm", "make"].filter((name) => findProgram(name, process.env["PATH"] ?? "") !== undefined);
  const runs = ([, command]: (typeof lies)[number]) => !command.includes("make") || makes.includes("make");

  test.each(lies.filter(runs))("to pass is caught: %s", async (_name, command, turn, named) => {
    const { status, log } = await run(project(files), [turn], [command]);
    expect(status).toMatchObject({ lifecycleStatus: "failed", checks: [{ state: "failed", redefined: [named] }] });
    expect(status.error).toContain(`passes only with the Task's own ${named}`);
    expect(await log("check-1")).toContain(`--- with ${named} as before the work ---`);
  });

  test("control: without the guard, which is not there in place, each would pass", async () => {
    for (const [, command, turn] of lies.filter(runs)) {
      const { status } = await run(project(files), [turn], [command], { isolation: "directory" });
      expect(status.checks.map(({ state }) => state)).toEqual(["passed"]);
    }
  });

  test("honest changes pass: the work, a test file, another script, a check that asks for more", async () => {
    const done = write("work.txt", "done\n");
    const tested = {
      ...files,
      "work.test.js": "old\n",
      "package.json": JSON.stringify({ scripts: { test: "grep -q new work.test.js" } }),
    };
    const honest = await Promise.all([
      run(project(files), [done], ["npm test", "sh scripts/check.sh"]),
      run(project(tested), [write("work.test.js", "new\n")], ["npm test"]),
      run(
        project(files),
        [
          done,
          write("package.json", JSON.stringify({ name: "p", scripts: { test: "sh scripts/check.sh", build: "true" } })),
        ],
        ["npm test"],
      ),
      run(project(files), [done, write("scripts/check.sh", `${strict}test -f a.txt\n`)], ["sh scripts/check.sh"]),
      run(project(files), [write("greet.sh", "echo hello\n")], ["sh greet.sh | grep -q hello"]),
    ]);
    expect(honest.map(({ status }) => status.lifecycleStatus)).toEqual(honest.map(() => "completed"));
    expect(honest.map(({ status }) => status.checks.flatMap(({ redefined }) => redefined))).toEqual([
      [],
      [],
      [],
      ["scripts/check.sh"],
      [],
    ]);
  });

  test("caught too where checks take turns on one tree", async () => {
    await onAnother({ sandbox: { tier: 3 } }, async () => {
      const [lie] = lies;
      const { status } = await run(
        project(files),
        [lie?.[2] ?? {}],
        ["sh scripts/check.sh", "grep -q 'exit 0' scripts/check.sh"],
      );
      expect(status.checks.map(({ state }) => state)).toEqual(["failed", "passed"]);
    });
  });
});
