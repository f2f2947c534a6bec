import { createConnection } from "node:net";
import { Readable } from "node:stream";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import { createBodies } from "../../../src/http/request/body.ts";
import { createDocument } from "../../../src/http/openapi.ts";
import { checkAttachments } from "../../../src/http/request/attachment.ts";
import type { ErrorBody } from "../../../src/protocol/error.ts";
import { defaultLimits } from "../../../src/protocol/limit.ts";
import type { Route } from "../../../src/protocol/route/route.ts";
import { createRoutes } from "../../../src/protocol/route/table.ts";
import { makeProject, temporary, writeFiles } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { longestTurnMs } from "../../harness/pace.ts";

/**
 * Every field of every route wrong in every way that its schema names: the decided 4xx, a message that says expected
 * and got, and nothing written. The wrong values are made from the published document, so a new field is covered
 * the day it appears.
 */

type Schema = {
  $ref?: string;
  type?: string;
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  /** Objects told apart by their `kind`. */
  oneOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  propertyNames?: Schema;
  items?: Schema;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  format?: string;
  minimum?: number;
  exclusiveMinimum?: number;
  maximum?: number;
  maxItems?: number;
};
type Operation = {
  operationId: string;
  parameters?: { in: string; name: string; schema: Schema }[];
  requestBody?: { content: { "application/json": { schema: Schema } } };
};

const routes = createRoutes() as Record<string, Route>;
const document = (await createDocument(createRoutes(), "0")) as {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
};
const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods));
const resolve = (schema: Schema): Schema =>
  schema.$ref === undefined ? schema : resolve(document.components.schemas[schema.$ref.split("/").at(-1) ?? ""] ?? {});

/** One wrong value: the whole body, and where the fault is. */
type Wrong = { path: string; value: unknown; why: string };

const missing = Symbol("missing");
const brief = (value: unknown) => (JSON.stringify(value) ?? "nothing").slice(0, 40);

/** Values that the schema refuses, for one field; `path` as the service will name it. */
const wrongs = (given: Schema, path: string, good: unknown): Wrong[] => {
  const schema = resolve(given);
  const bad = (value: unknown, why: string): Wrong => ({ path, value, why });
  const types = (...values: unknown[]) => values.map((value) => bad(value, `type ${brief(value)}`));
  if (schema.anyOf !== undefined) {
    // Any JSON is allowed there: nothing can be wrong.
    if (schema.anyOf.length > 3) return [];
    const fitting = schema.anyOf
      .map(resolve)
      .find(({ type, oneOf }) =>
        typeof good === "object" ? type === "object" || oneOf !== undefined : type === typeof good,
      );
    const orNull = schema.anyOf.some(({ type }) => type === "null");
    return [
      ...types(5, true, ...(orNull ? [] : [null])),
      ...(fitting === undefined ? [] : wrongs(fitting, path, good).filter(({ why }) => !why.startsWith("type"))),
    ];
  }
  if (schema.oneOf !== undefined) {
    const { kind } = good as { kind: string };
    const form = schema.oneOf.find(({ properties }) =>
      (properties?.["kind"]?.enum ?? [properties?.["kind"]?.const]).includes(kind),
    );
    return wrongs(form ?? {}, path, good);
  }
  if (schema.enum !== undefined)
    return [
      ...types(5, null, true, [], {}),
      bad("nope", "not of the list"),
      bad("", "empty"),
      bad(String(schema.enum[0]).toUpperCase(), "capitals"),
    ];
  switch (schema.type) {
    case "string": {
      const found = types(5, null, false, [], {});
      if (schema.minLength !== undefined) found.push(bad("", "empty"));
      if (schema.maxLength !== undefined) found.push(bad("x".repeat(schema.maxLength + 1), "too long"));
      const { pattern } = schema;
      if (pattern !== undefined && schema.format !== "base64") {
        const form = new RegExp(pattern, "u");
        const other = ["a b", "ü", "-", "/", " \n"].filter((text) => !form.test(text));
        expect(other.length, `a text against ${pattern}`).toBeGreaterThan(0);
        found.push(...other.map((text) => bad(text, "form")));
      }
      if (schema.format === "base64")
        found.push(...["a b=", "YQ", "YQ=", "Y!==", "YQ==\n", "_-==", "YR=="].map((text) => bad(text, "base64")));
      return found;
    }
    case "integer":
    case "number": {
      const found = types("1", null, true, [], {});
      if (schema.type === "integer") found.push(bad(1.5, "a fraction"), bad(1e300, "beyond safe integers"));
      if (schema.exclusiveMinimum !== undefined)
        found.push(bad(schema.exclusiveMinimum, "at the open end"), bad(-5, "too small"));
      if (schema.minimum !== undefined && schema.minimum > -1e15) found.push(bad(schema.minimum - 1, "too small"));
      if (schema.maximum !== undefined && schema.maximum < 1e15) found.push(bad(schema.maximum + 1, "too large"));
      return found;
    }
    case "boolean":
      return types("true", 1, null, [], {});
    case "array": {
      const elements = good as unknown[];
      const found = types("x", 5, null, {});
      if (schema.maxItems !== undefined)
        found.push(
          bad(
            Array.from({ length: schema.maxItems + 1 }, () => elements[0]),
            "too many",
          ),
        );
      for (const [index, element] of elements.entries())
        for (const inner of wrongs(schema.items ?? {}, `${path}[${index}]`, element))
          found.push({ ...inner, value: elements.with(index, inner.value) });
      return found;
    }
    case "object": {
      const fields = good as Record<string, unknown>;
      const found = types("x", 5, null, []);
      if (schema.additionalProperties === false)
        found.push({ path: `${path}.surprise`, value: { ...fields, surprise: 1 }, why: "unknown field" });
      for (const name of schema.required ?? []) {
        const { [name]: _out, ...rest } = fields;
        found.push({ path: `${path}.${name}`, value: rest, why: "missing" });
      }
      for (const [name, field] of Object.entries(schema.properties ?? {})) {
        expect(fields, `a good value for ${path}.${name}`).toHaveProperty([name]);
        for (const inner of wrongs(field, `${path}.${name}`, fields[name]))
          if (inner.value !== missing) found.push({ ...inner, value: { ...fields, [name]: inner.value } });
      }
      if (typeof schema.additionalProperties === "object")
        for (const inner of wrongs(schema.additionalProperties, `${path}.KEY`, "x"))
          found.push({ ...inner, value: { ...fields, KEY: inner.value } });
      if (schema.propertyNames?.pattern !== undefined)
        found.push({ path: `${path}.1 x`, value: { ...fields, "1 x": "v" }, why: "key" });
      return found;
    }
    default:
      throw new Error(`No wrong values known for ${JSON.stringify(schema)}`);
  }
};

const attachments = [{ filename: "a.txt", mime: "text/plain", data: "YQ==" }];
const budget = { maxCostUSD: 1, maxTokens: 1000, maxSteps: 10, maxMinutes: 1.5 };
const checks = [
  "true",
  {
    id: "second",
    name: "Second",
    kind: "command",
    run: "true",
    cwd: ".",
    env: { A: "1" },
    timeoutSeconds: 5,
    required: false,
    baseline: false,
    expect: { exitCode: 0, stdoutMatches: "^" },
  },
  {
    id: "third",
    name: "Third",
    kind: "file",
    path: "a.txt",
    exists: true,
    matches: "a",
    timeoutSeconds: 5,
    required: false,
    baseline: false,
  },
  {
    id: "fourth",
    name: "Fourth",
    kind: "http",
    start: "exit 1",
    cwd: ".",
    env: { A: "1" },
    url: "http://localhost:4597/",
    expect: { status: 200, bodyMatches: "a" },
    timeoutSeconds: 5,
    required: false,
    baseline: false,
  },
];
const sources = { path: "/nowhere", zip: "YQ==", git: { path: "/nowhere", ref: "main" } };
/** A body of each route with every field in it; the document says when one is forgotten here. */
const goodBodies: Record<string, Record<string, unknown>> = {
  "task.create": {
    request: "run the checks",
    productPillar: "code",
    title: "A title",
    promptProfile: "base",
    priority: "high",
    attachments,
    checks,
    metadata: { team: "x", nested: { deep: [1, null, true] } },
    model: "builtin/rules-1",
    source: "test",
    budget,
    isolation: "worktree",
    landing: "branch",
    approve: ["plan", "landing"],
    contrast: false,
    repository: { url: "https://nowhere.invalid/x.git", ref: "main" },
    effort: "high",
    outputSchema: { type: "object", properties: { a: { type: "string" } } },
    limits: { askSeconds: 60 },
    callbackURL: "https://nowhere.invalid/hook",
  },
  "task.update": { title: "New", priority: "low", archived: false, budget },
  "task.message": { source: "test", text: "run the checks", attachments, onBusy: "auto" },
  "task.retry": { source: "test" },
  "task.revert": { source: "test", checks: ["npm test"] },
  "task.cancel": { surface: "api", reason: "because", mode: "stop" },
  "task.interrupt": { surface: "api", reason: "because" },
  "task.answer": { decision: "allow", answer: "yes", source: "test" },
  "task.capture": { url: "http://127.0.0.1:3000/", viewport: { width: 800, height: 600 } },
  "task.delete": { surface: "api", reason: "because" },
  "mission.wake": {
    repository: { url: "https://nowhere.invalid/x.git", ref: "main" },
    missionID: "m-1",
    title: "A title",
    text: "run the checks",
    attachments,
    model: "builtin/rules-1",
    productPillar: "code",
    squads: ["base"],
    allowSquadProduction: false,
    checks,
    models: { agent: "builtin/rules-1", tasks: "builtin/rules-1", review: "builtin/rules-1" },
    approve: ["plan", "squad", "landing"],
    landing: "branch",
    merge: "auto",
    priority: "high",
    metadata: { team: "x", nested: { deep: [1, null, true] } },
    callbackURL: "https://nowhere.invalid/hook",
    limits: { askSeconds: 60 },
    budget,
  },
  "mission.plan": {
    phases: [
      { id: "a", title: "A", phase: "docs/page", objective: "A is there.", acceptance: ["It is seen"], after: [] },
    ],
    revision: 0,
    approve: false,
    source: "test",
  },
  "mission.merge": {},
  "mission.rename": { title: "New" },
  "mission.archive": { archived: false },
  "mission.abort": { surface: "api", reason: "because", cascade: false },
  "mission.delete": { surface: "api", reason: "because" },
  "mission.answer": { decision: "allow", answer: "yes", source: "test" },
  "service.testModel": { model: "builtin/rules-1" },
  "service.drainNode": {},
  "service.moveBlobs": {},
  "service.setKey": { provider: "anthropic", key: "sk-ant-0123456789", model: "claude-x" },
  "squad.validate": { ...sources, scope: "user" },
  "squad.install": { ...sources, scope: "user", expectedDigest: "0".repeat(64) },
  "webhook.create": { url: "https://nowhere.invalid/hook", events: ["task.completed"], description: "A hook" },
  "webhook.update": {
    url: "https://nowhere.invalid/hook",
    events: ["task.completed"],
    description: "A hook",
    state: "paused",
  },
  "webhook.rotate": { keepHours: 1 },
  "webhook.test": {},
  "webhook.redeliver": {},
  "webhook.callbackSecret": { rotate: true, keepHours: 1 },
  "webhook.redeliverDead": { since: "2026-01-01T00:00:00.000Z", webhookID: "callback" },
};

/** What webhooks may not be sent to; the control is the good bodies' own. */
const wrongTargets = [
  "nowhere.invalid/hook",
  "http://nowhere.invalid/hook",
  "ftp://nowhere.invalid/hook",
  "https://user:password@nowhere.invalid/hook",
  "https://nowhere.invalid:8443/hook",
  "https://nowhere.invalid/hook#part",
  "https://localhost/hook",
  "https://127.0.0.1/hook",
  "https://2130706433/hook",
  "https://[::1]/hook",
  "https://10.0.0.7/hook",
  "https://169.254.169.254/latest",
  "https://metadata.google.internal/",
];

/** A body that the route takes: of an answer's two forms and a package's three sources only one at a time. */
const goodBody = (id: string) => {
  if (id === "task.answer" || id === "mission.answer") return { decision: "allow" };
  // The requests name a directory.
  if (id === "task.create" || id === "mission.wake") return { ...(goodBodies[id] as object), repository: undefined };
  return id.startsWith("squad.") ? { path: "/nowhere", scope: "user" } : goodBodies[id];
};

/** The requests name a directory, so that a body names a repository only where that is what is wrong. */
const ofOneProject = (body: unknown, path: string): unknown => {
  if (typeof body !== "object" || body === null || Array.isArray(body) || path.startsWith("body.repository"))
    return body;
  return "repository" in body ? { ...body, repository: undefined } : body;
};

/** Of a package's sources the one that the path names, or the first. */
const ofOneSource = (body: unknown, path: string): unknown => {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return body;
  const named = Object.keys(sources).find((name) => path.startsWith(`body.${name}`)) ?? "path";
  return Object.fromEntries(Object.entries(body).filter(([name]) => name === named || !(name in sources)));
};

const folder = temporary("sortie-bad-");
let service: TestService;
let directory = "";
let taskID = "";

beforeAll(async () => {
  directory = makeProject(join(folder.path, "project"), { "a.txt": "a\n" });
  writeFiles(folder.path, { "file.txt": "x" });
  service = await startService(join(folder.path, "data"), { SERVICE_MODEL: "builtin/rules-1" });
  const client = createServiceClient({ baseUrl: service.url, directory });
  const { data } = await client.task.create({
    body: { request: "run the checks", productPillar: "code", checks: ["true"] },
  });
  taskID = data?.taskID ?? "";
  const settled = await client.task.wait({ path: { taskID }, timeoutMs: 15_000 });
  expect(settled.data?.lifecycleStatus).toBe("completed");
});
afterAll(async () => {
  await service.close();
  folder[Symbol.dispose]();
});

const send = async (
  method: string,
  path: string,
  body?: RequestInit["body"],
  headers: Record<string, string> = { "content-type": "application/json" },
) => {
  const response = await fetch(service.url + path, { method, ...(body == null ? {} : { body }), headers });
  const text = await response.text();
  return { status: response.status, body: (/^[{[]/.test(text) ? JSON.parse(text) : text) as ErrorBody };
};
const query = () => `directory=${encodeURIComponent(directory)}`;
const addressOf = ({ path }: Route, id = taskID) =>
  path
    .replace("{taskID}", id)
    .replace("{missionID}", "m-1")
    .replace("{checkID}", "check-1")
    .replace("{askID}", "ask_1");
const routeOf = (operation: string): Route => {
  const route = routes[operation];
  if (route === undefined) throw new Error(`No route ${operation}`);
  return route;
};

/** Everything the service has written, as the log tells it. */
const written = async () => {
  const { body } = await send("GET", "/events?format=json&limit=1000");
  const { body: list } = await send("GET", `/tasks?archived=true&${query()}`);
  return JSON.stringify([body, list]);
};

/** Refused with this code, the place named, expected and got told. */
const expectRefusal = (
  got: { status: number; body: ErrorBody },
  wanted: { status: number; code: string; path?: string },
  about: string,
) => {
  expect({ about, status: got.status, code: got.body.code }).toEqual({
    about,
    status: wanted.status,
    code: wanted.code,
  });
  expect(got.body.message, about).toMatch(/Expected|Give|not available|No |not /);
  expect(got.body).toMatchObject({
    status: wanted.status,
    requestID: expect.any(String),
    retryable: expect.any(Boolean),
  });
  if (wanted.path === undefined) return;
  expect(
    got.body.issues?.map(({ path }) => path),
    about,
  ).toContain(wanted.path);
  expect(got.body.message.startsWith(got.body.issues?.[0]?.path ?? "?"), about).toBe(true);
  for (const { message } of got.body.issues ?? [])
    expect(message, about).toMatch(/^Expected .+ got |^The check kind /s);
};

describe("every field of every body", () => {
  const withBody = operations.filter(({ requestBody }) => requestBody !== undefined);

  test("the document and the good bodies speak of the same routes", () => {
    expect(withBody.map(({ operationId }) => operationId).sort()).toEqual(Object.keys(goodBodies).sort());
  });

  test.each(withBody.map((operation) => [operation.operationId, operation] as const))("%s", async (id, operation) => {
    const schema = operation.requestBody?.content["application/json"].schema ?? {};
    const cases = wrongs(schema, "body", goodBodies[id]);
    // Of a body without fields only its own form can be wrong.
    expect(cases.length).toBeGreaterThan(Object.keys(goodBodies[id] ?? {}).length === 0 ? 3 : 10);
    const before = await written();
    const route = routeOf(id);
    for (const { path, value, why } of cases) {
      const body = id.startsWith("squad.") ? ofOneSource(value, path) : ofOneProject(value, path);
      const got = await send(route.method, `${addressOf(route)}?${query()}`, JSON.stringify(body));
      expectRefusal(got, { status: 400, code: "invalid_request", path }, `${id} ${path}: ${why}: ${brief(value)}`);
    }
    expect(await written()).toBe(before);
  });

  test("sizes that the document cannot say", async () => {
    const before = await written();
    const create = goodBody("task.create") ?? {};
    const long = (size: number) => "ü".repeat(size / 2 + 1);
    for (const [id, path, value] of [
      ["task.create", "body.request", { ...create, request: long(defaultLimits.requestBytes) }],
      ["task.message", "body.text", { ...goodBodies["task.message"], text: long(defaultLimits.requestBytes) }],
      ["task.cancel", "body.reason", { reason: long(defaultLimits.reasonBytes) }],
      ["task.delete", "body.reason", { reason: long(defaultLimits.reasonBytes) }],
      ["task.create", "body.metadata", { ...create, metadata: { a: long(defaultLimits.metadataBytes) } }],
      ["task.update", "body", {}],
      ["task.answer", "body", {}],
      ["task.answer", "body", goodBodies["task.answer"]],
      ["task.answer", "body.answer", { answer: long(16 * 1024) }],
      ["task.create", "body.checks[0].cwd", { ...create, checks: [{ kind: "test", run: "x", cwd: "../up" }] }],
      ["task.create", "body.checks[0].kind", { ...create, checks: [{ kind: "smell", run: "x" }] }],
      ["task.create", "body.checks[0].run", { ...create, checks: [{ kind: "review", criteria: "x", run: "x" }] }],
      ["task.create", "body.checks[0].criteria", { ...create, checks: [{ kind: "review" }] }],
      ["task.create", "body.checks[0].run", { ...create, checks: [{ kind: "file", path: "a", run: "x" }] }],
      ["task.create", "body.checks[0].path", { ...create, checks: [{ kind: "file", path: "/a" }] }],
      ["task.create", "body.checks[0].matches", { ...create, checks: [{ kind: "file", path: "a", matches: "(" }] }],
      ...["https://localhost/", "http://example.org/", "http://u:p@localhost/", "localhost:80", "http://10.0.0.1"].map(
        (url) =>
          ["task.create", "body.checks[0].url", { ...create, checks: [{ kind: "http", start: "x", url }] }] as const,
      ),
      [
        "task.create",
        "body.checks[0].matches",
        { ...create, checks: [{ kind: "file", path: "a", exists: false, matches: "a" }] },
      ],
      ...wrongTargets.map((url) => ["task.create", "body.callbackURL", { ...create, callbackURL: url }] as const),
      ...wrongTargets.map((url) => ["webhook.create", "body.url", { url }] as const),
      ["webhook.update", "body", {}],
    ] as const) {
      const route = routeOf(id);
      const body = id.startsWith("squad.") ? ofOneSource(value, path) : value;
      const got = await send(route.method, `${addressOf(route)}?${query()}`, JSON.stringify(body));
      expectRefusal(got, { status: 400, code: "invalid_request", path }, `${id} ${path}`);
    }
    expect(await written()).toBe(before);
  });
});

describe("every query parameter", () => {
  test.each(operations.map((operation) => [operation.operationId, operation] as const))("%s", async (id, operation) => {
    const route = routeOf(id);
    const parameters = (operation.parameters ?? []).filter(
      (parameter) => parameter.in === "query" && parameter.name !== "directory",
    );
    const before = await written();
    const ask = (text: string) =>
      send(
        route.method,
        `${addressOf(route)}?${query()}&${text}`,
        route.body === undefined ? undefined : JSON.stringify(goodBody(id)),
      );
    expectRefusal(
      await ask("surprise=1"),
      { status: 400, code: "invalid_request", path: "query.surprise" },
      `${id} unknown`,
    );
    expectRefusal(
      await ask(`directory=${directory}`),
      { status: 400, code: "invalid_request", path: "query.directory" },
      `${id} twice`,
    );
    expectRefusal(await ask("%zz=1"), { status: 400, code: "invalid_request" }, `${id} escape`);
    for (const { name, schema } of parameters) {
      const path = `query.${name}`;
      const values: string[] = [];
      if (schema.enum !== undefined) values.push("nope", "", String(schema.enum[0]).toUpperCase());
      else if (schema.type === "integer")
        values.push(
          "x",
          "",
          "1.5",
          "-1",
          "1e2",
          " 1",
          "0x10",
          String((schema.minimum ?? 0) - 1),
          String((schema.maximum ?? 0) + 1),
        );
      else if (schema.type === "boolean") values.push("maybe", "", "TRUE");
      else if (schema.maxLength !== undefined) values.push("", "x".repeat(schema.maxLength + 1));
      for (const value of values)
        expectRefusal(
          await ask(`${name}=${encodeURIComponent(value)}`),
          { status: 400, code: "invalid_request", path },
          `${id} ${name}=${value.slice(0, 30)}`,
        );
      expectRefusal(
        await ask(`${name}=1&${name}=1`),
        { status: 400, code: "invalid_request", path },
        `${id} ${name} twice`,
      );
    }
    expect(await written()).toBe(before);
  });

  test("cursors and event ids", async () => {
    for (const [text, code] of [
      ["cursorUpdated=5", "invalid_cursor"],
      [`cursorTaskID=${taskID}`, "invalid_cursor"],
      [`cursorUpdated=x&cursorTaskID=${taskID}`, "invalid_cursor"],
      ["cursorUpdated=5&cursorTaskID=x", "invalid_cursor"],
    ] as const)
      expectRefusal(await send("GET", `/tasks?${query()}&${text}`), { status: 400, code }, text);
    for (const path of ["/events", `/task/${taskID}/events`])
      for (const after of ["x", "-1", "1.5", "999999999", "9".repeat(30)]) {
        expectRefusal(
          await send("GET", `${path}?format=json&after=${after}`),
          { status: 400, code: "invalid_event_id" },
          after,
        );
        expectRefusal(
          await send("GET", path, undefined, { "last-event-id": after }),
          { status: 400, code: "invalid_event_id" },
          after,
        );
      }
    for (const text of ["limit=5", "format=json&follow=1"])
      expectRefusal(await send("GET", `/events?${text}`), { status: 400, code: "invalid_request" }, text);
  });

  test("a cursor whose Task has moved on still gives a page", async () => {
    const stale = await send("GET", `/tasks?${query()}&cursorUpdated=1&cursorTaskID=${taskID}`);
    expect([stale.status, stale.body]).toEqual([200, []]);
    const all = await send("GET", `/tasks?${query()}&cursorUpdated=${Date.now() + 1000}&cursorTaskID=${taskID}`);
    expect([all.status, (all.body as unknown as object[]).length]).toEqual([200, 1]);
  });
});

describe("bodies", () => {
  const post = (body: RequestInit["body"], headers?: Record<string, string>) =>
    send("POST", `/task?${query()}`, body, headers);
  const good = JSON.stringify({ request: "run the checks", productPillar: "code" });

  test.each([
    ["half an object", "{"],
    ["a trailing comma", '{"request":"x",}'],
    ["single quotes", "{'request':'x'}"],
    ["a bare word", "request"],
    ["a number with a zero before", "01"],
    ["two values", "{}{}"],
    ["a comment", "{}//"],
    ["NaN", '{"a":NaN}'],
    ["white space", "   "],
    ["an open text", '{"a":"b'],
    ["a raw line feed in a text", '{"a":"\n"}'],
    ["a byte order mark", "\ufeff{}"],
    ["a wrong escape", '{"a":"\\x"}'],
  ])("JSON that is none: %s", async (about, body) => {
    const before = await written();
    expectRefusal(await post(body), { status: 400, code: "invalid_json" }, about);
    expect(await written()).toBe(before);
  });

  test("bytes that are not UTF-8, and none at all", async () => {
    expectRefusal(
      await post(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])),
      { status: 400, code: "invalid_json" },
      "0xff",
    );
    expectRefusal(
      await post(Buffer.from('{"a":"\xc0\xaf"}', "latin1")),
      { status: 400, code: "invalid_json" },
      "overlong",
    );
    expectRefusal(await post(""), { status: 400, code: "invalid_json" }, "empty");
  });

  test("JSON that is another value", async () => {
    for (const body of ["null", "[]", "5", '"x"', "true"])
      expectRefusal(await post(body), { status: 400, code: "invalid_request", path: "body" }, body);
  });

  test("depth, keys, values, and the key that cannot be kept", async () => {
    const of = (metadata: string) => good.replace("{", `{"metadata":${metadata},`);
    const nested = (depth: number) => '{"a":'.repeat(depth) + "1" + "}".repeat(depth);
    const keys = `{${Array.from({ length: 10_001 }, (_, index) => `"${index}":1`).join()}}`;
    for (const [about, metadata] of [
      ["depth", nested(32)],
      ["keys", keys],
      ["values", `{"a":[${"1,".repeat(20_001)}1]}`],
      ["proto", '{"__proto__":{}}'],
    ] as const)
      expectRefusal(await post(of(metadata)), { status: 400, code: "invalid_request" }, about);
    expectRefusal(
      await post(of(`{"a":"${'\\"'.repeat(500_001)}"}`)),
      { status: 400, code: "invalid_request" },
      "escapes",
    );
    expectRefusal(await post("[".repeat(900_000)), { status: 400, code: "invalid_request" }, "brackets");
  });

  test("media types", async () => {
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "multipart/form-data; boundary=x",
      "application/json; charset=utf-16",
      "application/jsonp",
      "application/problem+json",
      "*/*",
    ])
      expectRefusal(await post(good, { "content-type": type }), { status: 415, code: "unsupported_media_type" }, type);
    expectRefusal(await post(Buffer.from(good), {}), { status: 415, code: "unsupported_media_type" }, "none");
    expectRefusal(
      await post(good, { "content-type": "application/json", "content-encoding": "gzip" }),
      { status: 415, code: "unsupported_media_type" },
      "gzip",
    );
  });

  test("sizes: 30 MiB, declared or chunked; 2 MiB where only 1 may be", async () => {
    const before = await written();
    const large = Buffer.alloc(30 * 1024 * 1024, 0x20);
    expectRefusal(await post(large), { status: 413, code: "body_too_large" }, "declared");
    const stream = () =>
      new ReadableStream({
        start(controller) {
          for (let at = 0; at < 30; at += 1) controller.enqueue(new Uint8Array(1024 * 1024).fill(0x20));
          controller.close();
        },
      });
    const chunked = await fetch(`${service.url}/task?${query()}`, {
      method: "POST",
      body: stream(),
      duplex: "half",
      headers: { "content-type": "application/json" },
    });
    expect([chunked.status, ((await chunked.json()) as ErrorBody).code]).toEqual([413, "body_too_large"]);
    const cancel = await send("POST", `/task/${taskID}/cancel?${query()}`, Buffer.alloc(2 * 1024 * 1024, 0x20));
    expectRefusal(cancel, { status: 413, code: "body_too_large" }, "cancel");
    expect(await written()).toBe(before);
  });

  test("a caller that leaves in the middle leaves nothing", async () => {
    const before = await written();
    const socket = createConnection(service.port, "127.0.0.1");
    socket.write(
      `POST /task?${query()} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n${good}`,
    );
    await new Promise((done) => setTimeout(done, 100));
    socket.destroy();
    await new Promise((done) => setTimeout(done, 50));
    expect(await written()).toBe(before);
  });

  test("two large bodies at once; the third waits for one of them", async () => {
    const size = 2 * 1024 * 1024;
    const head = `POST /task?${query()} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${size}\r\nConnection: close\r\n\r\n`;
    const open = (bytes: number) => {
      const socket = createConnection(service.port, "127.0.0.1");
      let text = "";
      socket.on("data", (chunk) => void (text += chunk.toString()));
      socket.on("error", () => {});
      socket.write(head);
      socket.write(Buffer.alloc(bytes, 0x20));
      return { socket, text: () => text };
    };
    const slow = [open(1000), open(1000)];
    await new Promise((done) => setTimeout(done, 100));
    const third = open(size);
    await new Promise((done) => setTimeout(done, 300));
    expect(third.text()).toBe("");
    expect((await send("GET", "/health")).status).toBe(200);
    slow[0]?.socket.destroy();
    await expect.poll(() => third.text(), { timeout: 3000 }).toContain("invalid_json");
    slow[1]?.socket.destroy();
  });

  test("28 MiB are parsed in steps that let others through", { timeout: 30_000 }, async () => {
    const route = { ...routeOf("task.create") };
    const outgoing = {} as never;
    const measure = async (bytes: Buffer) => {
      const incoming = Object.assign(Readable.from([bytes]), {
        headers: { "content-type": "application/json", "content-length": String(bytes.length) },
      });
      return Math.round(
        await longestTurnMs(() => createBodies(defaultLimits).read(route, incoming as never, outgoing)),
      );
    };
    const text = (unit: string, size: number) => Buffer.from(`{"data":"${unit.repeat(size / unit.length)}"}`);
    const most = 27 * 1024 * 1024;
    const figures = {
      base64: await measure(text("QUJD", most)),
      escapes: await measure(text('\\"' + "x".repeat(62), most)),
      unicode: await measure(text("é", most / 2)),
    };
    const control = await longestTurnMs(async () => JSON.parse(text('\\"' + "x".repeat(62), most).toString()));
    console.info(`28 MiB body, longest turn of the loop in ms: ${JSON.stringify({ ...figures, control })}`);
    for (const figure of Object.values(figures)) expect(figure).toBeLessThan(Math.min(100, control / 2));
  });
});

describe("attachments", () => {
  const png = Buffer.from("89504e470d0a1a0a0000000d49484452", "hex");
  const pdf = Buffer.from("%PDF-1.7\n");
  const file = (over: Partial<{ filename: string; mime: string; data: string }>) => ({
    filename: "a.txt",
    mime: "text/plain",
    data: "YQ==",
    ...over,
  });
  const refused = async (one: ReturnType<typeof file>) => {
    try {
      await checkAttachments([one], defaultLimits);
      return undefined;
    } catch (error) {
      return (
        (error as { code: string; issues?: { path: string }[] }).issues?.[0]?.path ?? (error as { code: string }).code
      );
    }
  };

  test("images and PDFs are what their media type says", async () => {
    const samples: Record<string, Buffer> = {
      "image/png": png,
      "image/jpeg": Buffer.from("ffd8ffe0", "hex"),
      "image/gif": Buffer.from("GIF89a"),
      "image/webp": Buffer.from("RIFF\0\0\0\0WEBPVP8 "),
      "image/bmp": Buffer.from("BM\0\0"),
      "image/tiff": Buffer.from("II*\0"),
      "image/avif": Buffer.from("\0\0\0\x20ftypavif\0\0\0\0avifmif1"),
      "image/heic": Buffer.from("\0\0\0\x18ftypheic\0\0\0\0mif1heic"),
      "image/svg+xml": Buffer.from('<?xml version="1.0"?><svg xmlns="x"/>'),
      "application/pdf": pdf,
    };
    for (const mime of Object.keys(samples))
      for (const [name, bytes] of Object.entries(samples))
        expect([mime, name, await refused(file({ mime, data: bytes.toString("base64") }))]).toEqual([
          mime,
          name,
          mime === name ? undefined : "body.attachments[0].mime",
        ]);
    expect(await refused(file({ mime: "IMAGE/PNG; x=y", data: png.toString("base64") }))).toBeUndefined();
    expect(await refused(file({ mime: "image/x-unheard-of" }))).toBe("body.attachments[0].mime");
    expect(await refused(file({ mime: "application/octet-stream" }))).toBeUndefined();
    for (const mime of ["text", "/", "text/", "text/plain; x", "text plain", "a/b\r\nc: d", `a/${"b".repeat(300)}`])
      expect([mime, await refused(file({ mime }))]).toEqual([mime, "body.attachments[0].mime"]);
  });

  test("names are bare names", async () => {
    for (const filename of ["a/b", "..", ".", "/a", "a\\b", "a\0b", "a\nb", "\ud800", "ü".repeat(128), "a\u0085"])
      expect([filename, await refused(file({ filename }))]).toEqual([filename, "body.attachments[0].filename"]);
    for (const filename of ["a", "ä ö.txt", ".env", "..a", "a:b", "x".repeat(255)])
      expect([filename, await refused(file({ filename }))]).toEqual([filename, undefined]);
  });

  test("base64 is canonical", async () => {
    for (const data of ["YQ", "YR==", "YQ==\n", "Y Q==", "YQ=", "YQ===", "_-Y=", "YQ==YQ=="])
      expect([data, await refused(file({ data }))]).toEqual([data, "body.attachments[0].data"]);
    expect(await refused(file({ data: "" }))).toBeUndefined();
  });

  test("over HTTP: broken base64, a wrong type, one too large, all together too large", {
    timeout: 30_000,
  }, async () => {
    const before = await written();
    const post = (files: object[]) =>
      send(
        "POST",
        `/task?${query()}`,
        JSON.stringify({ request: "run the checks", productPillar: "code", attachments: files }),
      );
    const zeros = (mib: number) => Buffer.alloc(mib * 1024 * 1024 + 1).toString("base64");
    expectRefusal(
      await post([file({ data: "YR==" })]),
      { status: 400, code: "invalid_request", path: "body.attachments[0].data" },
      "bits",
    );
    expectRefusal(
      await post([file({ mime: "image/png" })]),
      { status: 400, code: "invalid_request", path: "body.attachments[0].mime" },
      "png",
    );
    expectRefusal(
      await post([file({}), file({ data: zeros(10) })]),
      { status: 413, code: "attachment_too_large" },
      "one",
    );
    expectRefusal(
      await post([1, 2, 3].map(() => file({ data: zeros(6.7) }))),
      { status: 413, code: "attachment_too_large" },
      "all",
    );
    expect(await written()).toBe(before);
  });
});

describe("ids, directories, choices", () => {
  test.each(
    operations
      .filter(({ parameters }) =>
        parameters?.some((parameter) => parameter.in === "path" && parameter.name === "taskID"),
      )
      .map(({ operationId }) => [operationId]),
  )("%s of a Task that is not", async (id) => {
    const route = routeOf(id);
    const ask = async (given: string) =>
      send(
        route.method,
        `${addressOf(route, given)}?${query()}`,
        route.body === undefined ? undefined : JSON.stringify(goodBody(id)),
      );
    const messages = [];
    for (const given of ["x", `task_${"0".repeat(26)}`, taskID.toUpperCase(), taskID.replace("task", "msg")]) {
      const got = await ask(given);
      expectRefusal(got, { status: 404, code: "task_not_found" }, `${id} ${given}`);
      messages.push(got.body.message);
    }
    expect(new Set(messages).size).toBe(1);
  });

  test("directories that are none", async () => {
    const before = await written();
    const good = JSON.stringify({ request: "run the checks", productPillar: "code" });
    for (const [given, status, code] of [
      ["relative/path", 400, "directory_invalid"],
      [".", 400, "directory_invalid"],
      ["", 400, "directory_invalid"],
      [`${directory}/none`, 400, "directory_invalid"],
      [join(folder.path, "file.txt"), 400, "directory_invalid"],
      [`${directory}\0`, 400, "directory_invalid"],
      ["/", 403, "directory_not_allowed"],
      ["/etc", 403, "directory_not_allowed"],
      [service.dataDir, 403, "directory_not_allowed"],
    ] as const)
      expectRefusal(await send("POST", `/task?directory=${encodeURIComponent(given)}`, good), { status, code }, given);
    expectRefusal(await send("POST", "/task", good), { status: 400, code: "directory_required" }, "none");
    const both = await send("POST", `/task?${query()}`, good, {
      "content-type": "application/json",
      "x-service-directory": "/tmp",
    });
    expectRefusal(both, { status: 400, code: "directory_invalid" }, "both");
    expect(await written()).toBe(before);
  });

  test("a squad, a model, a combination that is not to be had", async () => {
    const before = await written();
    const of = (over: object) =>
      send("POST", `/task?${query()}`, JSON.stringify({ request: "run the checks", productPillar: "code", ...over }));
    expectRefusal(await of({ promptProfile: "no-such" }), { status: 422, code: "squad_not_available" }, "squad");
    expectRefusal(await of({ model: "nobody/nothing" }), { status: 422, code: "model_not_found" }, "model");
    expectRefusal(
      await of({ isolation: "directory", landing: "commit" }),
      { status: 400, code: "invalid_request" },
      "landing",
    );
    expect(await written()).toBe(before);
  });

  test("another project's Task", async () => {
    const other = makeProject(join(folder.path, "other"), { "b.txt": "b\n" });
    const before = await written();
    for (const id of ["task.update", "task.delete", "task.message", "task.cancel", "task.projectArchive"]) {
      const route = routeOf(id);
      const got = await send(
        route.method,
        `${addressOf(route)}?directory=${encodeURIComponent(other)}`,
        route.body === undefined ? undefined : JSON.stringify(goodBody(id)),
      );
      expectRefusal(got, { status: 409, code: "directory_mismatch" }, id);
    }
    expect(await written()).toBe(before);
  });
});

/** The control of everything above, and therefore last: the same bodies without a fault are accepted. */
describe("the good bodies", () => {
  test("are all accepted", async () => {
    const client = createServiceClient({ baseUrl: service.url, directory });
    const statuses: Record<string, number> = {};
    const use = async (id: string) => {
      const route = routeOf(id);
      // Nobody is there who approves anything.
      const good = id === "task.create" ? { ...goodBody(id), approve: [] } : goodBody(id);
      const { status, body } = await send(route.method, `${addressOf(route)}?${query()}`, JSON.stringify(good));
      statuses[id] = status;
      if (id === "task.create") {
        ({ taskID } = body as unknown as { taskID: string });
        expect((await client.task.status({ path: { taskID } })).data?.metadata).toEqual(goodBody(id)?.["metadata"]);
      }
      await client.task.wait({ path: { taskID }, timeoutMs: 15_000 });
    };
    await use("task.create");
    await use("task.update");
    await use("task.message");
    const cancelled = await send(
      "POST",
      `/task/${taskID}/cancel?${query()}`,
      JSON.stringify(goodBodies["task.cancel"]),
    );
    expect([200, 202, 409]).toContain(cancelled.status);
    await use("task.delete");
    expect(statuses).toEqual({ "task.create": 202, "task.update": 200, "task.message": 202, "task.delete": 200 });
  });
});
