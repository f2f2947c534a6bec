import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defaultLimits } from "../../../src/protocol/limit.ts";
import { git, readText, until } from "../../harness/project.ts";
import { send } from "../../harness/double/hostile-text.ts";
import { dispatch, finish, missionOf, openStage, plan, type Stage } from "../../harness/double/missions.ts";
import { createDouble, raw } from "../mission/double.ts";

/** The MCP face through a real client: what another agent can hand over, hear and stop, and how refusals read. */

let stage: Stage;
beforeAll(async () => {
  stage = await openStage({}, { permissions: { ask: ["write(asked.txt)"] } });
});
afterAll(() => stage[Symbol.asyncDispose]());

type Said = { text: string; isError: boolean; data: Record<string, unknown> };

const urlOf = (base: string, directory?: string) =>
  new URL(`${base}/mcp${directory === undefined ? "" : `?directory=${encodeURIComponent(directory)}`}`);

/** A client, and a way to call. `modern`: the revision without a handshake. */
const connect = async (
  url: URL,
  { headers = {}, modern = false }: { headers?: Record<string, string>; modern?: boolean } = {},
) => {
  const client = new Client(
    { name: "test", version: "1" },
    modern ? { versionNegotiation: { mode: { pin: "2026-07-28" } } } : {},
  );
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
  const call = async (name: string, given: Record<string, unknown> = {}): Promise<Said> => {
    const { content, isError, structuredContent } = await client.callTool({ name, arguments: given });
    const [first] = content as { type: string; text: string }[];
    return {
      text: first?.text ?? "",
      isError: isError === true,
      data: (structuredContent ?? {}) as Record<string, unknown>,
    };
  };
  return { client, call, [Symbol.asyncDispose]: () => client.close() };
};

const rules = { productPillar: "code", model: "builtin/rules-1" };
const message = (method: string) => ({ jsonrpc: "2.0", id: 1, method, params: {} });
const accept = { accept: "application/json, text/event-stream" };
const post = (body: unknown, headers: Record<string, string> = {}, base = stage.service.url) =>
  send(base, "/mcp", { method: "POST", body, headers: { ...accept, ...headers } });

describe("the protocol", () => {
  test.each([false, true])("a client finds six tools and how to use them (modern: %s)", async (modern) => {
    await using mcp = await connect(urlOf(stage.service.url), { modern });
    expect(mcp.client.getServerVersion()).toMatchObject({ name: "sortie" });
    expect(mcp.client.getInstructions()).toContain("task_create");
    const { tools } = await mcp.client.listTools();
    expect(
      tools.map(({ name, annotations }) => [name, annotations?.readOnlyHint, annotations?.idempotentHint]),
    ).toEqual([
      ["task_create", false, false],
      ["task_status", true, true],
      ["task_message", false, false],
      ["task_cancel", false, true],
      ["mission_wake", false, false],
      ["mission_status", true, true],
    ]);
    const [create] = tools;
    expect(create?.inputSchema).toMatchObject({
      type: "object",
      required: ["request", "productPillar"],
      additionalProperties: false,
    });
    // The routes' own limits, in one piece, and small enough to stand in every context of an agent.
    const text = JSON.stringify(tools);
    expect(text).toContain(`"maxLength":${defaultLimits.titleChars}`);
    expect(text).not.toContain("$ref");
    expect(text.length).toBeLessThan(24_500);
    for (const { name, title, description, outputSchema } of tools)
      expect([name, (title ?? "").length > 5, (description ?? "").length > 100, outputSchema?.type]).toEqual([
        name,
        true,
        true,
        "object",
      ]);
  });

  test("there is no session: GET and DELETE are refused, a call needs no handshake", async () => {
    for (const method of ["GET", "DELETE"]) {
      const { status, headers } = await send(stage.service.url, "/mcp", { method, headers: accept });
      expect([method, status, headers.get("allow")]).toEqual([method, 405, "POST"]);
    }
    const { status, headers, body } = await post(message("tools/list"));
    expect([status, headers.get("mcp-session-id")]).toEqual([200, null]);
    expect(JSON.stringify(body)).toContain("task_create");
    expect((await post({ jsonrpc: "2.0", method: "notifications/initialized" })).status).toBe(202);
  });

  test("what is no message of the protocol is refused in its own form", async () => {
    const { url } = stage.service;
    const bare = (body: string, headers: Record<string, string> = {}) =>
      fetch(`${url}/mcp`, {
        method: "POST",
        body,
        headers: { "content-type": "application/json", ...accept, ...headers },
      });
    const cases: [string, Promise<Response>, number, number][] = [
      ["half a text", bare("{"), 400, -32700],
      ["a batch", bare(JSON.stringify([message("tools/list")])), 400, -32600],
      [
        "a parameter that is none",
        fetch(`${url}/mcp?dir=/p`, { method: "POST", body: "{}", headers: { "content-type": "application/json" } }),
        400,
        -32600,
      ],
      ["another type", bare("{}", { "content-type": "text/plain" }), 415, -32000],
      [
        "a version that nobody has",
        bare(JSON.stringify(message("tools/list")), { "mcp-protocol-version": "1999-01-01" }),
        400,
        -32000,
      ],
    ];
    for (const [what, asked, status, code] of cases) {
      const response = await asked;
      const body = (await response.json()) as { error: { code: number } };
      expect([what, response.status, body.error.code]).toEqual([what, status, code]);
    }
    const known = await bare(JSON.stringify(message("tools/list")), { "mcp-protocol-version": "2025-06-18" });
    expect(known.status).toBe(200);
    await known.text();
  });

  test("an unknown tool and an unknown method are errors of the protocol", async () => {
    await using mcp = await connect(urlOf(stage.service.url));
    await expect(mcp.call("task_delete")).rejects.toMatchObject({
      code: -32602,
      message: expect.stringContaining("task_create"),
    });
    const { body } = await post(message("resources/list"));
    expect(JSON.stringify(body)).toContain("-32601");
    expect((await mcp.call("task_status", { taskID: "x" })).isError).toBe(true);
  });
});

test("a project's saved requests are prompts of its connection; another connection has none", async () => {
  const directory = stage.project({
    ".claude/commands/fix.md": "---\ndescription: Fixes it\nargument-hint: <issue>\n---\nFix issue $1.\n",
  });
  await using mcp = await connect(urlOf(stage.service.url, directory));
  const { prompts } = await mcp.client.listPrompts();
  expect(prompts).toEqual([
    {
      name: "fix",
      description: "Fixes it",
      arguments: [{ name: "arguments", description: "<issue>", required: false }],
    },
  ]);
  const { messages } = await mcp.client.getPrompt({ name: "fix", arguments: { arguments: "12" } });
  expect(JSON.stringify(messages)).toContain("word for word:\\n\\nFix issue 12.");
  await expect(mcp.client.getPrompt({ name: "fix", arguments: { arguments: "x".repeat(300_000) } })).rejects.toThrow(
    /at most 262144 characters/,
  );
  await expect(mcp.client.getPrompt({ name: "no" })).rejects.toThrow(/saved requests \(fix\); got "no"/);
  await expect(mcp.client.getPrompt({ name: "" })).rejects.toThrow(/saved requests \(fix\); got ""/);
  await using bare = await connect(urlOf(stage.service.url));
  expect(await bare.client.listPrompts()).toMatchObject({ prompts: [] });
});

describe("Tasks", () => {
  test.each([false, true])("created, waited for, landed, and gone on with (modern: %s)", async (modern) => {
    const directory = stage.project({ "sum.js": "export const sum = (a, b) => a - b;\n" });
    await using mcp = await connect(urlOf(stage.service.url, directory), { modern });
    const created = await mcp.call("task_create", {
      ...rules,
      request: 'replace "a - b" with "a + b" in sum.js',
      checks: ["grep -q 'a + b' sum.js"],
      metadata: { ticket: "A-17" },
      effort: "low",
    });
    expect(created.data).toMatchObject({
      taskID: expect.stringMatching(/^task_/),
      directory,
      squad: "base",
      repeated: false,
    });
    const { taskID } = created.data as { taskID: string };
    const done = await mcp.call("task_status", { taskID, waitSeconds: 20 });
    expect(JSON.parse(done.text)).toEqual(done.data);
    const landed = git(directory, "rev-parse", "HEAD");
    expect(done.data).toMatchObject({
      state: "completed",
      phase: "settled",
      nextPollSeconds: null,
      next: expect.stringContaining(landed),
      checks: [{ state: "passed", required: true, exitCode: 0, stale: false }],
      goals: [{ state: "accepted" }],
      git: { landedCommit: landed, changed: "1 files, +1 -1" },
      error: null,
      summary: expect.stringMatching(/./),
      waitingFor: [],
    });
    expect(readText(directory, "sum.js")).toContain("a + b");
    const { body } = await send(stage.service.url, `/task/${taskID}`);
    expect(body).toMatchObject({ source: "mcp", metadata: { ticket: "A-17" }, effort: "low" });

    const more = await mcp.call("task_message", { taskID, text: 'replace "sum" with "add" in sum.js', onBusy: "auto" });
    expect(more.data).toMatchObject({ taskID, disposition: "restarted", repeated: false });
    const again = await mcp.call("task_status", { taskID, waitSeconds: 20 });
    expect(again.data).toMatchObject({ state: "completed", attempt: 2 });
    expect(readText(directory, "sum.js")).toContain("add");
  });

  test("the same key makes one Task, another request under it none", async () => {
    const directory = stage.project();
    await using mcp = await connect(urlOf(stage.service.url), { headers: { "x-service-directory": directory } });
    const create = (request: string, idempotencyKey?: string) =>
      mcp.call("task_create", {
        request,
        ...rules,
        ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
      });
    const first = await create("list the files", "k1");
    const second = await create("list the files", "k1");
    expect([first.data["repeated"], second.data["repeated"]]).toEqual([false, true]);
    expect(second.data["taskID"]).toBe(first.data["taskID"]);
    const other = await create("count the files", "k1");
    expect(other).toMatchObject({ isError: true, text: expect.stringContaining("idempotency_key_reused") });
    expect((await create("list the files")).data["taskID"]).not.toBe(first.data["taskID"]);
    const { body } = await send(stage.service.url, `/tasks?directory=${encodeURIComponent(directory)}`);
    expect(body).toHaveLength(2);
  });

  test("cancelled, which a second time changes nothing; what ended otherwise is not", async () => {
    const directory = stage.project();
    await using mcp = await connect(urlOf(stage.service.url, directory));
    const { taskID } = (await mcp.call("task_create", { ...rules, request: "run the checks", checks: ["sleep 60"] }))
      .data;
    const waiting = await mcp.call("task_status", { taskID, waitSeconds: 1 });
    expect(waiting.data).toMatchObject({ state: "active", nextPollSeconds: 2 });
    expect((await mcp.call("task_cancel", { taskID, reason: "not wanted" })).isError).toBe(false);
    const over = await mcp.call("task_status", { taskID, waitSeconds: 20 });
    expect(over.data).toMatchObject({
      state: "cancelled",
      error: { code: "cancelled", message: "Cancelled by mcp: not wanted" },
    });
    expect((await mcp.call("task_cancel", { taskID })).data).toMatchObject({ state: "cancelled" });

    const done = (await mcp.call("task_create", { ...rules, request: "list the files" })).data["taskID"];
    await mcp.call("task_status", { taskID: done, waitSeconds: 20 });
    const refused = await mcp.call("task_cancel", { taskID: done });
    expect(refused).toMatchObject({ isError: true, text: expect.stringMatching(/task_settled[\s\S]*What to do: /) });
  });

  test("a permission is for a person: the agent is told whom to ask", async () => {
    const directory = stage.project();
    await using mcp = await connect(urlOf(stage.service.url, directory));
    const request = "```txt file=asked.txt\nyes\n```";
    const { taskID } = (await mcp.call("task_create", { ...rules, request })).data;
    const asking = await mcp.call("task_status", { taskID, waitSeconds: 20 });
    const [ask] = asking.data["waitingFor"] as { id: string; kind: string }[];
    expect(asking.data).toMatchObject({
      state: "active",
      next: expect.stringContaining(`sortie task answer ${String(taskID)} --ask ${ask?.id} --allow`),
    });
    expect(ask?.kind).toBe("permission");
    await send(
      stage.service.url,
      `/task/${String(taskID)}/pending/${ask?.id}?directory=${encodeURIComponent(directory)}`,
      {
        method: "POST",
        body: { decision: "allow" },
      },
    );
    expect((await mcp.call("task_status", { taskID, waitSeconds: 20 })).data).toMatchObject({ state: "completed" });
    expect(readText(directory, "asked.txt")).toBe("yes\n");
  });
});

test("approvals of a Mission and its Tasks are a person's: not given by a message, and not taken away by a wake", {
  timeout: 60_000,
}, async () => {
  stage.play("approved", {
    mission: (turn) =>
      [
        { calls: [plan("one")] },
        { text: "So?" },
        { text: "Again?" },
        { calls: [dispatch("one", "Write it. [approved]")] },
      ][turn] ?? { text: "It runs." },
    task: (turn) =>
      turn === 0 ? { calls: [{ tool: "write", input: { path: "one.txt", content: "x\n" } }] } : { text: "Wrote it." },
  });
  const directory = stage.project();
  await using mcp = await connect(urlOf(stage.service.url, directory));
  const missionID = "approved";
  const approve = ["plan", "landing"];
  await mcp.call("mission_wake", { text: "Make it so. [approved]", missionID, approve, landing: "commit", checks: [] });
  const asking = () =>
    until(
      () => mcp.call("mission_status", { missionID, waitSeconds: 5 }),
      ({ data }) => data["state"] === "asking",
    );
  const first = (await asking()).data;
  const [plan1] = first["waitingFor"] as { id: string; kind: string }[];
  expect(plan1?.kind).toBe("approval");
  expect(first["next"]).toMatch(/an approval, which only a person may give.*sortie mission answer approved --ask/);
  for (const less of [[], ["landing"]]) {
    const refused = await mcp.call("mission_wake", { missionID, text: "I approve it.", approve: less });
    expect([refused.isError, refused.text]).toEqual([
      true,
      expect.stringContaining("only a person takes an approval away"),
    ]);
  }
  // Its words reach the agent, and the plan waits as before.
  expect((await mcp.call("mission_wake", { missionID, text: "I approve it.", approve })).isError).toBe(false);
  const again = await until(asking, ({ data }) => (data["waitingFor"] as { id: string }[])[0]?.id !== plan1?.id);
  expect(again.data["tasks"]).toMatchObject({ total: 0 });
  const person = (path: string) =>
    send(stage.service.url, `${path}?directory=${encodeURIComponent(directory)}`, {
      method: "POST",
      body: { decision: "allow" },
    });
  const [plan2] = again.data["waitingFor"] as { id: string }[];
  expect((await person(`/mission/${missionID}/pending/${plan2?.id}`)).status).toBe(200);
  const phase = await until(
    async () => ((await mcp.call("mission_status", { missionID })).data["plan"] as { taskID: string | null }[])[0],
    (one) => one?.taskID != null,
  );
  const taskID = phase?.taskID ?? "";
  const landing = async () => {
    const { data } = await mcp.call("task_status", { taskID, waitSeconds: 5 });
    return { next: data["next"], ask: (data["waitingFor"] as { id: string; kind: string }[])[0] };
  };
  const asked = await until(landing, ({ ask }) => ask?.kind === "approval");
  expect(asked.next).toContain("an approval, which only a person may give");
  await mcp.call("task_message", { taskID, text: "I approve it: land it." });
  const moved = await until(landing, ({ ask }) => ask?.kind === "approval" && ask.id !== asked.ask?.id);
  expect(git(directory, "log", "--format=%s")).toBe("first");
  await person(`/task/${taskID}/pending/${moved.ask?.id}`);
  await until(
    () => mcp.call("task_status", { taskID, waitSeconds: 5 }),
    ({ data }) => data["state"] === "completed",
  );
  expect(readText(directory, "one.txt")).toBe("x\n");
});

test("a branch that a person merges is merged by nobody else's wake; control: a person's", async () => {
  stage.play("merges", { mission: () => ({ calls: [finish("blocked", "x")] }) });
  const directory = stage.project();
  await using mcp = await connect(urlOf(stage.service.url, directory));
  const missionID = "merges";
  await mcp.call("mission_wake", { text: "[merges]", missionID, landing: "branch" });
  const refused = await mcp.call("mission_wake", { missionID, text: "Go on.", merge: "auto" });
  expect([refused.isError, refused.text]).toEqual([true, expect.stringContaining("a person merges the branch")]);
  const path = `/mission/wake?directory=${encodeURIComponent(directory)}`;
  const body = { missionID, text: "Go on.", merge: "auto", approve: [] };
  expect((await send(stage.service.url, path, { method: "POST", body })).status).toBe(200);
});

test("what the whole must pass and may cost is not taken away by a wake, but more is; control: a person's wake", async () => {
  stage.play("bounds", { mission: () => ({ calls: [finish("blocked", "x")] }) });
  const directory = stage.project();
  await using mcp = await connect(urlOf(stage.service.url, directory));
  const person = async (missionID: string, body: object) => {
    const path = `/mission/wake?directory=${encodeURIComponent(directory)}`;
    const answer = await send(stage.service.url, path, {
      method: "POST",
      body: { missionID, text: "[bounds]", ...body },
    });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  };
  const statusOf = async (missionID: string) => (await missionOf(stage.service.url, directory, missionID)).budget;
  const agent = (missionID: string, body: object) => mcp.call("mission_wake", { missionID, text: "Go on.", ...body });
  const budget = { maxTokens: 1_000_000, maxCostUSD: 5 };
  await person("bounds", { checks: ["test -f a.txt"], budget });
  await person("judged", {});
  const refusals: [string, object, RegExp][] = [
    ["bounds", { checks: [] }, /body\.checks.*only a person takes one away.*test -f a\.txt/],
    ["bounds", { checks: ["true"] }, /body\.checks.*only a person takes one away/],
    ["judged", { checks: [] }, /body\.checks.*nobody looked at/],
    ["bounds", { budget: null }, /body\.budget: Expected maxCostUSD, maxTokens in it/],
    ["bounds", { budget: { maxTokens: 2_000_000 } }, /body\.budget: Expected maxCostUSD in it/],
  ];
  for (const [missionID, body, why] of refusals) {
    const refused = await agent(missionID, body);
    expect([refused.isError, refused.text]).toEqual([true, expect.stringMatching(why)]);
  }
  expect(await statusOf("bounds")).toEqual(budget);
  const more = {
    checks: ["true", { kind: "command", run: "test -f a.txt" }],
    budget: { ...budget, maxTokens: 2_000_000 },
  };
  expect((await agent("bounds", more)).text).not.toContain("invalid_request");
  expect(await statusOf("bounds")).toEqual(more.budget);
  expect((await agent("judged", { checks: ["true"], budget })).isError).toBe(false);
  await person("bounds", { checks: [], budget: null });
  expect(await statusOf("bounds")).toBeNull();
  // Who wants no look at the whole has none taken away.
  expect((await agent("bounds", { checks: [], budget: null })).isError).toBe(false);
});

test("a Mission: woken, followed to its end, and its Task with it", async () => {
  stage.play("mcp", {
    mission: (turn) =>
      [
        { calls: [plan("one")] },
        { calls: [dispatch("one", "Write one.txt. [mcp]")] },
        { text: "One Task runs." },
        { calls: [finish()] },
      ][turn] ?? { text: "Nothing more." },
    task: (turn) =>
      turn === 0
        ? { calls: [{ tool: "write", input: { path: "one.txt", content: "made\n" } }] }
        : { text: "Wrote it." },
  });
  const directory = stage.project();
  await using mcp = await connect(urlOf(stage.service.url, directory));
  const woken = await mcp.call("mission_wake", { text: "Make it so. [mcp]", missionID: "so" });
  expect(woken.data).toMatchObject({ missionID: "so", created: true, repeated: false });
  const rested = await until(
    () => mcp.call("mission_status", { missionID: "so", waitSeconds: 10 }),
    ({ data }) => data["state"] === "done",
  );
  expect(rested.data).toMatchObject({
    plan: [{ id: "one", state: "done", squad: "base", taskID: expect.stringMatching(/^task_/) }],
    verified: true,
    // The phase's, and the one that judged the whole.
    tasks: { total: 2, running: 0, inactive: 2 },
    nextPollSeconds: null,
    error: null,
  });
  const [phase] = rested.data["plan"] as { taskID: string }[];
  expect((await mcp.call("task_status", { taskID: phase?.taskID })).data).toMatchObject({ state: "completed" });
  expect((await mcp.call("mission_wake", { missionID: "so" })).data).toMatchObject({ created: false });
});

describe("what is refused has changed nothing and says what to do", () => {
  test("by the tools", async () => {
    const directory = stage.project();
    await using here = await connect(urlOf(stage.service.url, directory));
    await using nowhere = await connect(urlOf(stage.service.url));
    const create = { ...rules, request: "list the files" };
    const gone = `task_${"0".repeat(26)}`;
    const cases: [string, Promise<Said>, RegExp][] = [
      ["no directory", nowhere.call("task_create", create), /directory_required[\s\S]*`directory`/],
      [
        "a directory that is not there",
        here.call("task_create", { ...create, directory: "/nowhere" }),
        /directory_invalid/,
      ],
      ["a relative one", here.call("task_create", { ...create, directory: "a/b" }), /directory_invalid/],
      ["one of the system", here.call("task_create", { ...create, directory: "/etc" }), /directory_not_allowed/],
      [
        "a field that is none",
        here.call("task_create", { ...create, sourc: "x" }),
        /invalid_request.*arguments\.sourc/,
      ],
      [
        "two faults",
        here.call("task_create", { request: "", productPillar: "x" }),
        /arguments\.request[\s\S]*- arguments\.productPillar/,
      ],
      ["a bad key", here.call("task_create", { ...create, idempotencyKey: "ä" }), /arguments\.idempotencyKey/],
      [
        "a model that is none",
        here.call("task_create", { ...create, model: "no/such" }),
        /model_not_\w+[\s\S]*Leave `model` out/,
      ],
      [
        "an attachment that is none",
        here.call("task_create", { ...create, attachments: [{ filename: "../x", mime: "text/plain", data: "YQ==" }] }),
        /arguments\.attachments\[0\]\.filename/,
      ],
      ["an unknown Task", here.call("task_status", { taskID: gone }), /task_not_found[\s\S]*task_create answered/],
      ["no id at all", here.call("task_message", { taskID: "x", text: "y" }), /task_not_found/],
      [
        "a wait without a bound",
        here.call("task_status", { taskID: gone, waitSeconds: 3600 }),
        /arguments\.waitSeconds/,
      ],
      ["an unknown Mission", here.call("mission_status", { missionID: "none" }), /mission_not_found/],
      ["a new Mission without a text", here.call("mission_wake", {}), /Expected a text for a new Mission/],
    ];
    for (const [what, asked, words] of cases) {
      const { isError, text } = await asked;
      expect([what, isError]).toEqual([what, true]);
      expect(text, what).toMatch(/^Refused, nothing was changed \(/);
      expect(text, what).toMatch(words);
    }
    const { body } = await send(stage.service.url, `/tasks?directory=${encodeURIComponent(directory)}`);
    expect(body).toEqual([]);
    const control = await nowhere.call("task_create", { ...create, directory });
    expect(control.isError).toBe(false);
    const stranger = stage.project();
    expect(
      (await here.call("task_message", { taskID: control.data["taskID"], text: "x", directory: stranger })).text,
    ).toContain("directory_mismatch");
  });

  test("by the guards, which stand before it as before every route", async () => {
    const auth = { username: "service", password: "p" };
    await using double = await createDouble({ auth });
    const status = async (headers: Record<string, string>) =>
      (await post(message("tools/list"), headers, double.url)).status;
    const right = { authorization: `Basic ${btoa("service:p")}` };
    expect(await status(right)).toBe(200);
    expect(await status({})).toBe(401);
    expect(await status({ authorization: `Basic ${btoa("service:x")}` })).toBe(401);
    expect(await status({ ...right, origin: "https://evil.example" })).toBe(403);
    expect(await status({ ...right, origin: double.url })).toBe(200);
    await expect(connect(urlOf(double.url))).rejects.toThrow();
    await using _control = await connect(urlOf(double.url), { headers: right });

    await using open = await createDouble();
    const asked = async (host: string, length: number) => {
      const body = JSON.stringify(message("tools/list"));
      const { text } = await raw(
        open.port,
        `POST /mcp HTTP/1.1\r\nHost: ${host}\r\nAccept: ${accept.accept}\r\nContent-Type: application/json\r\nContent-Length: ${length || body.length}\r\n\r\n${body}`,
      );
      return text;
    };
    expect(await asked("localhost", 0)).toMatch(/^HTTP\/1.1 200 /);
    expect(await asked("evil.example", 0)).toMatch(/^HTTP\/1.1 403 /);
    expect(await asked("localhost", defaultLimits.largeBodyBytes + 1)).toMatch(/^HTTP\/1.1 413 /);
  });

  test("by the rate of new Tasks, which counts them however they come", async () => {
    await using double = await createDouble({ loopback: false, now: () => 0 });
    await using mcp = await connect(urlOf(double.url, "/p"));
    const create = () => mcp.call("task_create", { request: "x", productPillar: "code" });
    for (let count = 0; count < defaultLimits.createsBurst; count += 1) expect((await create()).isError).toBe(false);
    expect(await create()).toMatchObject({
      isError: true,
      text: expect.stringMatching(/rate_limited[\s\S]*again in 1 s/),
    });
    expect((await mcp.client.listTools()).tools).toHaveLength(6);
  });
});

test("a wait ends when its client leaves, and when the service stops", async () => {
  await using own = await openStage();
  const directory = own.project();
  for (const modern of [false, true]) {
    await using left = await connect(urlOf(own.service.url, directory), { modern });
    const { taskID } = (await left.call("task_create", { ...rules, request: "run the checks", checks: ["sleep 60"] }))
      .data;
    const leaving = new AbortController();
    const given = { name: "task_status", arguments: { taskID, waitSeconds: 50 } };
    const abandoned = left.client.callTool(given, { signal: leaving.signal });
    await new Promise((resolve) => setTimeout(resolve, 300));
    leaving.abort();
    await expect(abandoned).rejects.toThrow();
    expect((await left.call("task_status", { taskID })).data).toMatchObject({ state: "active" });
  }
  const mcp = await connect(urlOf(own.service.url, directory));
  const { taskID } = (await mcp.call("task_create", { ...rules, request: "run the checks", checks: ["sleep 60"] }))
    .data;
  const from = performance.now();
  const waiting = mcp.call("task_status", { taskID, waitSeconds: 50 });
  await new Promise((resolve) => setTimeout(resolve, 300));
  await own.service.close();
  expect((await waiting).data).toMatchObject({ taskID });
  expect(performance.now() - from).toBeLessThan(5_000);
  await mcp.client.close();
});
