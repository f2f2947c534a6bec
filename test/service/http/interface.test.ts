import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Route } from "../../../src/protocol/route/route.ts";
import { createRoutes } from "../../../src/protocol/route/table.ts";
import type { TaskStatus } from "../../../src/protocol/task/status.ts";
import { makeProject, temporary, until } from "../../harness/project.ts";
import { entriesOf } from "../../harness/entries.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { fairMs } from "../../harness/pace.ts";

/** Single promises of the published interface, each on a real service and a real port. */

const folder = temporary("sortie-interface-");
let service: TestService;
let project = "";
let other = "";

beforeAll(async () => {
  const files = {
    "package.json": JSON.stringify({ scripts: { test: "true", build: "echo new > made.txt; sleep 60" } }),
  };
  project = makeProject(join(folder.path, "project"), files);
  other = makeProject(join(folder.path, "other"), { "a.txt": "a\n" });
  service = await startService(join(folder.path, "data"), { SERVICE_MAX_RUNNING: "2" });
});
afterAll(async () => {
  await service.close();
  folder[Symbol.dispose]();
});

type Got = { status: number; headers: Headers; body: Record<string, unknown>; text: string };

const send = async (
  method: string,
  target: string,
  { body, directory = project, headers = {} }: { body?: unknown; directory?: string; headers?: object } = {},
): Promise<Got> => {
  const response = await fetch(service.url + target, {
    method,
    headers: {
      "x-service-directory": directory,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  const json = response.headers.get("content-type")?.startsWith("application/json") === true && text !== "";
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: json ? (JSON.parse(text) as Record<string, unknown>) : {},
  };
};

/** With ids that nothing has, in the forms that ids have. */
const targetOf = (path: string): string => path.replace(/\{(\w+)\}/g, (_, name: string) => name.toLowerCase());

const task = { request: "run the tests", productPillar: "code" };
/** At work for a minute, unless it is cancelled. */
const long = { request: "run the build", productPillar: "code", checks: [] };

const create = async (body: object = task, more: object = {}): Promise<string> => {
  const made = await send("POST", "/task", { body, ...more });
  expect([made.status, made.text]).toEqual([202, expect.any(String)]);
  return String(made.body["taskID"]);
};
const statusOf = async (taskID: string): Promise<TaskStatus> =>
  (await send("GET", `/task/${taskID}/status`)).body as TaskStatus;
const ended = (taskID: string): Promise<TaskStatus> =>
  until(
    () => statusOf(taskID),
    ({ status }) => status === "inactive",
  );
const cancel = async (taskID: string): Promise<void> => {
  await send("POST", `/task/${taskID}/cancel`);
  await ended(taskID);
};

describe("what is sent", () => {
  test("white space alone is no request, message or direction", async () => {
    const taskID = await create();
    for (const blank of [" ", "\n\t ", "\u00a0\u3000"])
      for (const [target, body, path] of [
        ["/task", { ...task, request: blank }, "body.request"],
        [`/task/${taskID}/message`, { source: "test", text: blank }, "body.text"],
        ["/mission/wake", { missionID: "blank", text: blank }, "body.text"],
      ] as const) {
        const refused = await send("POST", target, { body });
        expect([target, refused.status, refused.body["code"]]).toEqual([target, 400, "invalid_request"]);
        expect(refused.body["message"]).toBe(`${path}: Expected more than white space, got nothing else`);
      }
    await create({ ...task, request: " \nrun the tests\n " });
    expect((await send("POST", "/task", { body: { ...task, request: "" } })).body["issues"]).toHaveLength(1);
  });

  const routes: Route[] = Object.values(createRoutes());
  const bodiless = routes.filter(({ method, bodyOptional }) => method === "POST" && bodyOptional === true);
  test.each(bodiless.map(({ path }) => path))(
    "`{}` is as good as no body for POST %s, which needs none; anything else is refused",
    async (path) => {
      const target = targetOf(path);
      const without = await send("POST", target);
      const empty = await send("POST", target, { body: {} });
      expect([empty.status, empty.body["code"]]).toEqual([without.status, without.body["code"]]);
      expect([200, 404, 422]).toContain(without.status);
      for (const body of [{ a: 1 }, [], "text", 5])
        expect([body, (await send("POST", target, { body })).status]).toEqual([body, 400]);
    },
  );
  test("control: every other POST has a body, and refuses `{}` as it refuses none", async () => {
    const needing = routes.filter(({ method, bodyOptional }) => method === "POST" && bodyOptional !== true);
    expect(needing.filter(({ body }) => body === undefined).map(({ path }) => path)).toEqual([]);
    expect(Math.min(bodiless.length, needing.length)).toBeGreaterThan(6);
    for (const { path } of needing) {
      const target = targetOf(path);
      expect([path, (await send("POST", target)).body["code"]]).toEqual([path, "invalid_json"]);
      expect([path, (await send("POST", target, { body: {} })).body["code"]]).toEqual([path, "invalid_request"]);
    }
  });

  test("budget: null takes a budget away, {} sets an empty one", async () => {
    const taskID = await create({ ...task, budget: { maxSteps: 50 } });
    await ended(taskID);
    const patch = (budget: unknown) => send("PATCH", `/task/${taskID}`, { body: { budget } });
    expect((await patch({ maxTokens: 900 })).body["budget"]).toEqual({ maxTokens: 900 });
    expect((await patch(null)).body["budget"]).toBeNull();
    expect((await statusOf(taskID)).budget).toBeNull();
    expect((await patch({})).body["budget"]).toEqual({});
    expect((await patch(5)).status).toBe(400);

    const wake = (more: object) =>
      send("POST", "/mission/wake", { body: { missionID: "capped", text: "run the tests", ...more } });
    const cap = async () => (await send("GET", "/mission/capped/status")).body["budget"];
    await wake({ budget: { maxTokens: 900 } });
    await wake({});
    expect(await cap()).toEqual({ maxTokens: 900 });
    await wake({ budget: null });
    expect(await cap()).toBeNull();
  });

  test("a squad of another pillar is refused by name, one of the pillar is taken", async () => {
    const refused = await send("POST", "/task", {
      body: { ...task, promptProfile: "advanced", productPillar: "work" },
    });
    expect(refused).toMatchObject({ status: 422, body: { code: "squad_not_available" } });
    expect(refused.body["message"]).toContain("Expected a squad for work, got advanced");
    for (const [promptProfile, productPillar] of [
      ["advanced", "code"],
      ["research", "code"],
      ["research", "work"],
      ["docs", "code"],
      ["docs", "work"],
    ])
      await create({ ...task, promptProfile, productPillar });
  });

  test("an idempotency key counts for the project, however its path is spelt; elsewhere it is another", async () => {
    symlinkSync(project, join(folder.path, "link"));
    const keyed = (directory: string) => ({ directory, headers: { "idempotency-key": "one" } });
    const first = await create(task, keyed(project));
    for (const spelling of [`${project}/`, `${project}/.`, `${other}/../project`, join(folder.path, "link")])
      expect([spelling, await create(task, keyed(spelling))]).toEqual([spelling, first]);
    expect(await create(task, keyed(other))).not.toBe(first);
  });

  test("DELETE of a Task takes its reason in the query, too, as that of a Mission does", async () => {
    const taskID = await create();
    await ended(taskID);
    const target = `/task/${taskID}?surface=api&reason=old`;
    expect((await send("DELETE", `${target}&why=old`)).status).toBe(400);
    expect((await send("DELETE", target)).body).toEqual({ taskID, deleted: true });
  });
});

describe("what is answered", () => {
  test("directory_mismatch names no path but the caller's", async () => {
    const taskID = await create();
    await send("POST", "/mission/wake", { body: { missionID: "mine", text: "run the tests" } });
    for (const [method, target] of [
      ["POST", `/task/${taskID}/cancel`],
      ["GET", `/task/${taskID}/project-archive`],
      ["GET", "/mission/mine/status"],
    ] as const) {
      const refused = await send(method, target, { directory: other });
      expect([target, refused.status, refused.body["code"]]).toEqual([target, 409, "directory_mismatch"]);
      expect(refused.text).toContain(other);
      expect(refused.text).not.toContain(project);
      expect([target, (await send(method, target)).body["code"]]).not.toEqual([target, "directory_mismatch"]);
    }
  });

  test("the archive of a running Task names the new files that it leaves out", async () => {
    const taskID = await create(long);
    const archived = async () => {
      const response = await fetch(`${service.url}/task/${taskID}/project-archive`, {
        headers: { "x-service-directory": project },
      });
      const entries = entriesOf(Buffer.from(await response.arrayBuffer()));
      const manifest = entries.find(({ path }) => path === "execution-flow/manifest.json");
      return {
        names: entries.map(({ path }) => path),
        omitted: (JSON.parse(String(manifest?.read())) as { omitted: { path: string; reason: string }[] }).omitted,
      };
    };
    const running = await until(archived, ({ omitted }) => omitted.length > 0);
    expect((await statusOf(taskID)).status).toBe("running");
    expect(running.omitted).toEqual([{ path: "made.txt", reason: "new, and not tracked by Git" }]);
    expect(running.names).not.toContain("project/made.txt");
    await cancel(taskID);
    const after = await until(archived, ({ omitted }) => omitted.length === 0);
    expect(after.names).toContain("project/made.txt");
  });

  test("a diff between commits that a Task without a workspace cannot have is 404, its whole diff is empty", async () => {
    const busy = [await create(long), await create(long)];
    const taskID = await create(long);
    await cancel(taskID);
    expect((await statusOf(taskID)).git.baseCommit).toBeNull();
    expect(await send("GET", `/task/${taskID}/diff?from=abc&to=def`)).toMatchObject({
      status: 404,
      body: { code: "commit_not_found" },
    });
    expect(await send("GET", `/task/${taskID}/diff`)).toMatchObject({ status: 200, text: "" });
    for (const one of busy) await cancel(one);
  });

  test("what a Task has not got is 404 by a code of its own", async () => {
    const taskID = await create();
    await ended(taskID);
    const missing = [
      ["GET", "checks/none/log", "check_not_found"],
      ["GET", "artifacts/art_none", "artifact_not_found"],
      ["GET", "call/call_none/output", "call_not_found"],
      ["GET", `diff?from=${"a".repeat(40)}&to=${"b".repeat(40)}`, "commit_not_found"],
      ["POST", "pending/ask_none", "ask_not_found"],
      ["POST", "session/ses_none/interrupt", "session_not_found"],
      ["GET", "none", "route_not_found"],
    ] as const;
    for (const [method, path, code] of missing) {
      const body = method === "POST" ? { body: code === "ask_not_found" ? { answer: "yes" } : {} } : {};
      const said = await send(method, `/task/${taskID}/${path}`, body);
      expect([path, said.status, said.body["code"]]).toEqual([path, 404, code]);
    }
  });

  test("every list has Link to its next page, and none on its last; bodies are as they were", async () => {
    const directory = makeProject(join(folder.path, "listed"), {
      "package.json": JSON.stringify({ scripts: { test: "true" } }),
    });
    const done = await create(task, { directory });
    await create(task, { directory });
    await create();
    for (const missionID of ["first", "second", "third"])
      await send("POST", "/mission/wake", { directory, body: { missionID, text: "run the tests" } });
    for (const missionID of ["first", "second", "third"])
      await send("GET", `/mission/${missionID}/status?wait=15`, { directory });
    // What still changes changes places while it is paged.
    await until(
      async () => (await send("GET", "/overview")).body["total"] as { running: number; queued: number },
      ({ running, queued }) => running + queued === 0,
    );
    for (const [list, limit, elements] of [
      ["/tasks?archived=1", 2, (body: unknown) => body as unknown[]],
      ["/missions?archived=1", 1, (body: unknown) => body as unknown[]],
      ["/projects", 1, (body: unknown) => body as unknown[]],
      [`/task/${done}/messages`, 1, (body: unknown) => (body as { messages: unknown[] }).messages],
      [`/task/${done}/events?format=json`, 5, (body: unknown) => (body as { events: unknown[] }).events],
      ["/mission?archived=1", 1, (body: unknown) => body as unknown[]],
      ["/mission/first/messages", 1, (body: unknown) => (body as { messages: unknown[] }).messages],
      ["/mission/first/events?format=json", 5, (body: unknown) => (body as { events: unknown[] }).events],
      ["/events?format=json&after=0", 40, (body: unknown) => (body as { events: unknown[] }).events],
    ] as const) {
      const joined = list.includes("?") ? "&" : "?";
      const whole = elements((await send("GET", `${list}${joined}limit=200`, { directory })).body);
      const paged: unknown[] = [];
      let next: string | undefined = `${list}${joined}limit=${limit}`;
      let pages = 0;
      while (next !== undefined) {
        const page: Got = await send("GET", next, { directory });
        paged.push(...elements(page.body));
        pages += 1;
        next = /^<([^>]+)>; rel="next"$/.exec(page.headers.get("link") ?? "")?.[1];
        expect([list, page.headers.has("link")]).toEqual([list, next !== undefined]);
      }
      expect([list, paged.length]).toEqual([list, whole.length]);
      expect([list, pages]).toEqual([list, Math.ceil(whole.length / limit)]);
      expect([list, pages > 1]).toEqual([list, true]);
    }
    for (const list of ["/webhooks", "/webhook/deliveries", "/squads"])
      expect([list, (await send("GET", list)).headers.has("link")]).toEqual([list, false]);
  }, 60_000);
});

describe("without a stream", () => {
  test("?wait= answers when the Task ends, or after that time; with If-None-Match when it has changed", async () => {
    const taskID = await create(long);
    for (const record of ["status", "board"]) {
      const target = `/task/${taskID}/${record}`;
      const begun = performance.now();
      const late = await send("GET", `${target}?wait=1`);
      expect(performance.now() - begun).toBeGreaterThan(950);
      expect([late.status, late.headers.get("cache-control")]).toEqual([200, "private, no-cache"]);
      expect(late.text).toContain('"status":"running"');
      const at = performance.now();
      expect((await send("GET", target)).status).toBe(200);
      expect(performance.now() - at).toBeLessThan(fairMs(900));
    }
    await until(
      () => statusOf(taskID),
      ({ now }) => now?.kind === "tool",
    );
    const seen = await send("GET", `/task/${taskID}/status`);
    const had = { headers: { "if-none-match": seen.headers.get("etag") ?? "" } };
    const same = await send("GET", `/task/${taskID}/status?wait=1`, had);
    expect([same.status, same.text, same.headers.get("etag")]).toEqual([304, "", seen.headers.get("etag")]);
    const changed = send("GET", `/task/${taskID}/status?wait=50`, had);
    const over = ["status", "board"].map((record) => send("GET", `/task/${taskID}/${record}?wait=50`));
    await send("PATCH", `/task/${taskID}`, { body: { title: "Another title" } });
    expect((await changed).body["title"]).toBe("Another title");
    expect((await statusOf(taskID)).status).toBe("running");
    await cancel(taskID);
    for (const answered of over) expect((await answered).text).toContain('"status":"inactive"');
    const begun = performance.now();
    await send("GET", `/task/${taskID}/status?wait=50`);
    expect(performance.now() - begun).toBeLessThan(5_000);
    expect((await send("GET", `/task/${taskID}/status?wait=61`)).status).toBe(400);
    expect((await send("GET", "/task/task_x/status?wait=50")).status).toBe(404);
  });

  test("a Mission's status likewise, and its ETag is not of when it was read", async () => {
    const woken = { missionID: "waited", text: "1. run the tests" };
    await send("POST", "/mission/wake", { body: woken });
    const target = "/mission/waited/status";
    const done = await send("GET", `${target}?wait=50`);
    expect(done.body).toMatchObject({ status: "inactive", agentStatus: "inactive", finished: { outcome: "done" } });
    const had = { headers: { "if-none-match": done.headers.get("etag") ?? "" } };
    expect((await send("GET", target, had)).status).toBe(304);
    const changed = send("GET", `${target}?wait=50`, had);
    await send("PATCH", "/mission/waited/title", { body: { title: "Another title" } });
    expect((await changed).body["title"]).toBe("Another title");
    expect((await send("GET", target, had)).status).toBe(200);
  });

  test("who waits counts as a stream, and is answered when the service stops", async () => {
    using own = temporary("sortie-waits-");
    const place = makeProject(join(own.path, "project"), {
      "package.json": JSON.stringify({ scripts: { build: "sleep 60" } }),
    });
    const stopping = await startService(join(own.path, "data"));
    const made = await fetch(`${stopping.url}/task?directory=${encodeURIComponent(place)}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(long),
    });
    const { taskID } = (await made.json()) as { taskID: string };
    const waiting = fetch(`${stopping.url}/task/${taskID}/status?wait=50`);
    await new Promise((resolve) => setTimeout(resolve, 300));
    const begun = performance.now();
    const closed = stopping.close();
    expect((await waiting).status).toBe(200);
    expect(performance.now() - begun).toBeLessThan(10_000);
    await closed;
  });

  test("the document is asked for again and not sent again", async () => {
    const first = await send("GET", "/openapi.json");
    const tag = first.headers.get("etag") ?? "";
    expect([first.status, tag.length > 10, first.headers.get("cache-control")]).toEqual([
      200,
      true,
      "private, no-cache",
    ]);
    const again = await send("GET", "/openapi.json", { headers: { "if-none-match": tag } });
    expect([again.status, again.text]).toEqual([304, ""]);
    expect((await send("GET", "/openapi.json", { headers: { "if-none-match": '"x"' } })).status).toBe(200);
  });
});
