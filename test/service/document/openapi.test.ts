import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { stale, writeDocument } from "../../../scripts/openapi.ts";
import { createServiceClient } from "../../../src/client/client.ts";
import { errorCodes } from "../../../src/error.ts";
import type { Route } from "../../../src/protocol/route/route.ts";
import { createRoutes } from "../../../src/protocol/route/table.ts";
import { version } from "../../../src/package-root.ts";
import { createDouble, knownTask } from "../mission/double.ts";

/** The published document, the page that shows it, and the client made from it. */

type Document = {
  openapi: string;
  security: object[];
  paths: Record<string, Record<string, Operation>>;
  components: {
    securitySchemes: object;
    schemas: Record<string, { properties?: Record<string, { enum?: string[] }> }>;
  };
};
type Operation = {
  operationId: string;
  parameters: { in: string; name: string; required?: boolean; schema: object }[];
  requestBody?: object;
  responses: Record<string, { content?: Record<string, { schema: { $ref?: string } }> }>;
};

const document = JSON.parse(await writeDocument()) as Document;
const routes = Object.entries(createRoutes()) as [string, Route][];
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
);

let double: Awaited<ReturnType<typeof createDouble>>;
beforeAll(async () => {
  double = await createDouble({ auth: { username: "service", password: "pass" }, version });
});
afterAll(() => double.close());
const authorization = `Basic ${btoa("service:pass")}`;

describe("the document", () => {
  test("docs/openapi.json and src/client/gen are what the table of routes says", { timeout: 20_000 }, async () => {
    expect(await stale(), "run node scripts/openapi.ts").toEqual([]);
  });

  test("a stale one would be noticed", async () => {
    const path = join(import.meta.dirname, "../../../docs/openapi.json");
    const written = readFileSync(path, "utf8");
    expect(written).toBe(await writeDocument());
    expect(written.replace('"maxLength": 200', '"maxLength": 201')).not.toBe(await writeDocument());
  });

  test("the service serves it", async () => {
    const response = await fetch(`${double.url}/openapi.json`, { headers: { authorization } });
    expect(await response.json()).toEqual(document);
  });

  test("every route is in it once, and nothing else", () => {
    const seen = operations.map(
      ({ path, method, operation }) => `${operation.operationId} ${method.toUpperCase()} ${path}`,
    );
    expect(seen.toSorted()).toEqual(routes.map(([id, { method, path }]) => `${id} ${method} ${path}`).toSorted());
  });

  test("OpenAPI 3.1 with Basic for all, every reference resolves", () => {
    expect(document.openapi).toBe("3.1.0");
    expect(document.security).toEqual([{ basic: [] }]);
    expect(document.components.securitySchemes).toEqual({ basic: { type: "http", scheme: "basic" } });
    const references = JSON.stringify(document).match(/#\/components\/schemas\/[^"]+/g) ?? [];
    expect(references.length).toBeGreaterThan(100);
    for (const reference of references)
      expect(document.components.schemas).toHaveProperty([reference.split("/").at(-1) ?? ""]);
    expect(Object.keys(document.components.schemas).filter((name) => name.startsWith("_"))).toEqual([]);
    expect(document.components.schemas["Error"]?.properties?.["code"]?.enum).toEqual(errorCodes);
  });

  test.each(operations.map((one) => [one.operation.operationId, one] as const))(
    "%s: parameters and errors",
    (id, { path, operation }) => {
      const route = Object.fromEntries(routes)[id];
      const names = (where: string) => operation.parameters.filter((one) => one.in === where).map(({ name }) => name);
      expect(names("path")).toEqual([...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name));
      expect(names("query")).toContain("directory");
      expect(names("header")).toContain("x-service-directory");
      expect(names("header").includes("Idempotency-Key")).toBe(route?.method === "POST");
      expect(names("header").includes("Last-Event-ID")).toBe(path.endsWith("/events"));
      for (const status of ["400", "401", "403", "429", "503"])
        expect(operation.responses[status]?.content?.["application/json"]?.schema.$ref).toBe(
          "#/components/schemas/Error",
        );
      if (route?.body !== undefined)
        expect(Object.keys(operation.responses)).toEqual(expect.arrayContaining(["413", "415"]));
      expect(Object.keys(operation.responses).includes("404")).toBe(path.includes("{"));
    },
  );

  test("answers may grow, requests may not have unknown fields", () => {
    const { TaskStatus, TaskCreate, Check } = document.components.schemas as Record<
      string,
      { additionalProperties?: unknown; oneOf?: { additionalProperties?: unknown }[] }
    >;
    expect(TaskStatus?.additionalProperties).toBeUndefined();
    const forms = Check?.oneOf ?? [];
    expect(forms.length).toBeGreaterThan(1);
    for (const form of [TaskCreate, ...forms]) expect(form?.additionalProperties).toBe(false);
  });

  test("every route in it demands credentials when a password is set, and works with them", async () => {
    for (const { path, method, operation } of operations) {
      const url = double.url + path.replace("{taskID}", knownTask).replace("{checkID}", "x");
      const without = await fetch(url, { method: method.toUpperCase() });
      expect([operation.operationId, without.status]).toEqual([operation.operationId, 401]);
      await without.text();
      const stop = new AbortController();
      const given = await fetch(url, { method: method.toUpperCase(), headers: { authorization }, signal: stop.signal });
      expect([operation.operationId, given.status]).not.toEqual([operation.operationId, 401]);
      stop.abort();
    }
  });
});

describe("the reference page", () => {
  test("is ours alone: it names no other host, and its policy allows none", async () => {
    const response = await fetch(`${double.url}/doc`, { headers: { authorization } });
    const html = await response.text();
    expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(html).not.toMatch(/https?:|\/\/[a-z]/i);
    expect(html).not.toMatch(/<script(?![^>]*\b(?:src|data-url)=)/);
    const policy = response.headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe-eval|https?:|\*/);
    expect(policy).toMatch(/script-src 'self'(?:;|$)/);
    const sources = [...html.matchAll(/ src="([^"]+)"/g)].map(([, source]) => source);
    expect(sources).toHaveLength(1);
    const script = await fetch(double.url + sources[0], { headers: { authorization } });
    expect([script.status, script.headers.get("content-type")]).toEqual([200, "text/javascript; charset=utf-8"]);
    expect((await script.text()).length).toBeGreaterThan(500_000);
  });
});

describe("the client", () => {
  const client = () => createServiceClient({ baseUrl: `${double.url}/`, directory: "/here", password: "pass" });

  test("adds directory and credentials, and gives data or error", async () => {
    const body = { request: "Run the tests", productPillar: "code" as const };
    const made = await client().task.create({ body });
    expect(made).toMatchObject({
      data: { task_id: expect.stringMatching(/^task_/), directory: "/here" },
      response: { status: 202 },
    });
    expect(made.error).toBeUndefined();
    const elsewhere = await client().task.create({
      body,
      query: { directory: "/there" },
      headers: { "Idempotency-Key": "k" },
    });
    expect(elsewhere.data?.directory).toBe("/there");
    const listed = await client().task.list({ query: { limit: 2, archived: true, metadata: { team: "x" } } });
    expect(listed.data?.[0]).toMatchObject({
      query: { directory: "/here", limit: 3, archived: true, metadata: { team: "x" } },
    });
    const missing = await client().task.status({ path: { taskID: "task_x" } });
    expect(missing.data).toBeUndefined();
    expect(missing).toMatchObject({ error: { code: "task_not_found", status: 404 } });
    const stranger = await createServiceClient({ baseUrl: double.url }).service.health();
    expect(stranger).toMatchObject({ error: { code: "unauthorized" }, response: { status: 401 } });
    await expect(client().task.status({ path: { taskID: "task_x" }, throwOnError: true })).rejects.toMatchObject({
      status: 404,
    });
    const throwing = createServiceClient({ baseUrl: double.url, throwOnError: true });
    await expect(throwing.service.health()).rejects.toMatchObject({ status: 401 });
  });

  test("has every operation of the interface", async () => {
    const path = { taskID: knownTask };
    const { task, service } = client();
    const answers = {
      list: await task.list({ query: { limit: 2 } }),
      get: await task.get({ path }),
      board: await task.board({ path }),
      messages: await task.messages({ path }),
      diff: await task.diff({ path }),
      checkLog: await task.checkLog({ path: { ...path, checkID: "x" } }),
      artifact: await task.artifact({ path: { ...path, artifactID: "art_x" } }),
      preview: await task.preview({ path }),
      capture: await task.capture({ path, body: {} }),
      message: await task.message({ path, body: { source: "test", text: "more" } }),
      cancel: await task.cancel({ path }),
      answer: await task.answer({ path: { ...path, askID: "ask_x" }, body: { decision: "allow" } }),
      interrupt: await task.interrupt({ path: { ...path, sessionID: "ses_x" } }),
      update: await task.update({ path, body: { title: "x" } }),
      delete: await task.delete({ path }),
      health: await service.health(),
      models: await service.models(),
      testModel: await service.testModel({ body: {} }),
    };
    for (const [name, { error, data }] of Object.entries(answers))
      expect([name, error, data === undefined]).toEqual([name, undefined, false]);
    expect(answers.list.data).toHaveLength(2);
    expect(answers.diff.data).toBe("diff --git a b\n");
    expect(answers.checkLog.data).toBe("log\n");
    // Its bytes, whatever they are: not what a client makes of JSON.
    expect(await answers.artifact.data?.text()).toBe('{"a":1}');
    expect(Object.keys(task).toSorted()).toEqual(
      [
        "create",
        "list",
        "get",
        "status",
        "board",
        "messages",
        "message",
        "cancel",
        "answer",
        "interrupt",
        "update",
        "delete",
        "diff",
        "callOutput",
        "checkLog",
        "artifact",
        "preview",
        "capture",
        "projectArchive",
        "retry",
        "revert",
        "events",
        "eventPage",
        "wait",
      ].toSorted(),
    );
  });
});
