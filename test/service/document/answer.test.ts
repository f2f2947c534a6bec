import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Answered, createJudge } from "../../harness/answer/judge.ts";
import { faults, setHollow } from "../../harness/answer/record.ts";
import { makeProject, temporary } from "../../harness/project.ts";
import { startService } from "../../harness/service.ts";
import { createDouble } from "../mission/double.ts";

/**
 * Every answer of every test is held against the document (test/harness/answer). Here: that a wrong one is noticed, and
 * what the records of a Mission are called.
 */

type Schema = { $ref?: string; additionalProperties?: boolean; properties?: Record<string, Schema>; items?: Schema };
const text = readFileSync(new URL("../../../docs/openapi.json", import.meta.url), "utf8");
const documentNow = () =>
  JSON.parse(text) as Parameters<typeof createJudge>[0] & { components: { schemas: Record<string, Schema> } };

const answer = (target: string, status: number, body: unknown, more: Partial<Answered> = {}): Answered => ({
  method: "GET",
  target,
  status,
  type: "application/json",
  body: JSON.stringify(body),
  hollow: false,
  ...more,
});

const error = (code: string, status: number) => ({ message: "m", code, status, requestID: "r", retryable: false });

test("what no operation declares is noticed: status, code, type, field, frame", () => {
  const judge = createJudge(documentNow());
  const path = "/task/task_1/status";
  expect(judge(answer(path, 404, error("task_not_found", 404)))).toBeUndefined();
  expect(judge(answer(path, 404, error("squad_not_found", 404)))).toContain("task.status (GET) 404 declares no squad_");
  expect(judge(answer(path, 409, error("task_busy", 409)))).toContain("409 with task_busy is not declared");
  expect(judge(answer(path, 404, { message: "m" }))).toContain("is no Error");
  expect(judge(answer(path, 202, {}))).toContain("202 is not declared");
  expect(judge(answer(path, 200, { taskID: "t" }))).toContain("must have required property");
  expect(judge(answer(path, 200, {}, { type: "text/plain" }))).toContain("declares application/json, got text/plain");
  const stream = { type: "text/event-stream" };
  const end = { type: "stream.end", at: "2026-01-01T00:00:00.000Z", data: {} };
  const framed = (frame: object) => ({ ...stream, body: `id: 1\ndata: ${JSON.stringify(frame)}\n\n` });
  expect(judge(answer("/events", 200, "", framed(end)))).toBeUndefined();
  expect(judge(answer("/events", 200, "", framed({ ...end, type: "stream.stop" })))).toContain("frame stream.stop");
});

test("and it is noticed where a service sends it", async () => {
  await using double = await createDouble({ health: () => ({ healthy: "yes" }) as never });
  const port = Number(new URL(double.url).port);
  // Whole: the head is answered, and kept, before the body.
  const ask = async () => await (await fetch(`${double.url}/health`)).text();
  expect(faults()).toEqual([]);
  await ask();
  expect(faults()).toEqual([]);
  setHollow(port, false);
  await ask();
  expect(faults()).toEqual([expect.stringContaining("service.health (GET) 200")]);
  setHollow(port, true);
});

test("a Mission's status is valid, with its session and its Tasks by name; the mistake of before would be seen", async () => {
  using folder = temporary();
  const project = makeProject(join(folder.path, "project"), { "a.txt": "a\n" });
  await using service = await startService(join(folder.path, "data"));
  const query = `directory=${encodeURIComponent(project)}`;
  const woken = await fetch(`${service.url}/mission/wake?${query}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ missionID: "m", text: "run the tests" }),
  });
  const { sessionID } = (await woken.json()) as { sessionID: string };
  const target = `/mission/m/status?${query}`;
  const status = (await (await fetch(service.url + target)).json()) as { session: object };
  expect(status.session).toEqual({
    sessionID,
    kind: "mission",
    agent: "mission",
    model: "builtin/rules-1",
    state: expect.stringMatching(/^(?:running|idle)$/),
  });
  expect(createJudge(documentNow())(answer(target, 200, status))).toBeUndefined();

  const before = documentNow();
  const { properties = {} } = before.components.schemas["MissionStatus"] ?? {};
  expect(properties["tasks"]?.items).toEqual({ $ref: "#/components/schemas/TaskStatusDetail" });
  properties["usage"] = { ...properties["usage"], additionalProperties: false };
  expect(createJudge(before)(answer(target, 200, status))).toContain("/usage must NOT have additional properties");
});
