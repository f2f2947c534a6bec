import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Fault, faults } from "../../fixtures/planted-fault.ts";
import { createTask, post, settledTask } from "../../harness/double/hostile-text.ts";
import { dispatch, finish, markerOf, restOf, taskOf, wake } from "../../harness/double/missions.ts";
import {
  acceptance,
  isDescription,
  type MockProvider,
  type MockRequest,
  type MockTurn,
  startMockProvider,
  textOf,
} from "../../harness/double/mock-provider.ts";
import { makeProject, temporary } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/**
 * Faults that reviewers missed or could not see, planted in whole Tasks: what the reviewer's model is sent shows each,
 * or two look-ups with the tools that it is offered do, at the tree that would land.
 */

const root = temporary("sortie-faults-");
let provider: MockProvider;
let service: TestService;

/** What the reviewer of a fault's last change was sent: its brief, and the results of its look-ups. */
type Seen = { briefs: string[]; looked: string[] };
const seen = new Map<string, Seen>();
const faultOf = new Map<string, Fault>();
/** Resolves to the Task that carries a marker. */
const tasks = new Map<string, Promise<string>>();

beforeAll(async () => {
  provider = await startMockProvider(answer, { reviews: "script" });
  const config = join(root.path, "config.jsonc");
  const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
  writeFileSync(config, JSON.stringify({ model: "mock/large", providers }));
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

const answer = async (request: MockRequest): Promise<MockTurn> => {
  const name = markerOf(request.first);
  const fault = faultOf.get(name);
  if (fault === undefined || isDescription(request)) return { text: "Nothing." };
  if (textOf(request.body.messages[0]?.content).includes("You lead one Mission")) return lead(name, fault, request);
  return request.first.startsWith("# What was asked for") ? judge(name, fault, request) : work(name, fault, request);
};

const lead = (name: string, { acceptance: criteria = [] }: Fault, { turn }: MockRequest): MockTurn => {
  const phase = { id: "one", title: "Storage", objective: "Codes are kept.", acceptance: criteria };
  const said: MockTurn[] = [
    { calls: [{ tool: "plan", input: { phases: [phase] } }, dispatch("one", `Load the codes. [${name}]`)] },
    { text: "It runs." },
    { calls: [finish()] },
  ];
  return said[turn] ?? { text: "Nothing more." };
};

const work = async (name: string, fault: Fault, { turn }: MockRequest): Promise<MockTurn> => {
  if (turn === 0 && fault.steering !== undefined) {
    const sent = await post(service.url, `/task/${await tasks.get(name)}/message`, join(root.path, name), {
      text: fault.steering,
      source: "user",
    });
    expect(sent.status).toBe(202);
  }
  const change = turn % 2 === 0 ? fault.change[turn / 2] : undefined;
  if (change === undefined) return { text: "Done.\n\nCommit: Change it" };
  return {
    calls: [
      ...Object.entries(change).map(([path, content]) =>
        content === null
          ? { tool: "shell", input: { command: `rm ${path}` } }
          : { tool: "write", input: { path, content } },
      ),
      ...(fault.runs ?? []).map((command) => ({ tool: "shell", input: { command, proves: "request" } })),
    ],
  };
};

const judge = (name: string, { change, looks = [] }: Fault, request: MockRequest): MockTurn => {
  const { briefs, looked } = seen.get(name) as Seen;
  if (request.turn === 0) {
    briefs.push(request.first);
    if (briefs.length === change.length && looks.length > 0)
      return { calls: looks.map(({ tool, input }) => ({ tool, input })) };
  } else
    looked.push(...request.body.messages.filter(({ role }) => role === "tool").map(({ content }) => textOf(content)));
  return acceptance(request);
};

const play = async (name: string, fault: Fault): Promise<void> => {
  const directory = makeProject(join(root.path, name), fault.base);
  const { url } = service;
  if (fault.acceptance !== undefined) {
    const { missionID } = await wake(url, directory, { text: `Keep the codes. [${name}]` });
    const mission = await restOf(url, directory, missionID, 60_000);
    expect(await taskOf(url, mission.tasks[0]?.taskID ?? "")).toMatchObject({ lifecycleStatus: "completed" });
    return;
  }
  const request = `${fault.request ?? "Do it."} [${name}]`;
  const task = createTask(url, directory, { request, ...(fault.checked === true ? {} : { checks: [] }) });
  tasks.set(name, task);
  const taskID = await task;
  expect(await settledTask(url, taskID, 60_000)).toMatchObject({ lifecycleStatus: "completed" });
  if (fault.followUp === undefined) return;
  const sent = await post(url, `/task/${taskID}/message`, directory, { text: fault.followUp, source: "user" });
  expect(sent.status).toBe(202);
  expect(await settledTask(url, taskID, 60_000)).toMatchObject({ lifecycleStatus: "completed" });
};

describe("a fault that was planted can be seen", () => {
  test.each(Object.keys(faults).map((what, index) => [what, `f${index}`] as const))("%s", async (what, name) => {
    const fault = faults[what] as Fault;
    const { sees, lacks, looks = [] } = fault;
    faultOf.set(name, fault);
    seen.set(name, { briefs: [], looked: [] });
    await play(name, fault);
    const { briefs, looked } = seen.get(name) as Seen;
    expect(briefs).toHaveLength(fault.change.length);
    const brief = briefs.at(-1) ?? "";
    for (const pattern of sees) expect(brief).toMatch(pattern);
    if (lacks !== undefined) expect(brief.slice(brief.indexOf("# The diff"))).not.toMatch(lacks);
    expect(looks.length).toBeLessThanOrEqual(2);
    expect(looked).toHaveLength(looks.length);
    for (const [index, { shows }] of looks.entries()) expect(looked[index]).toMatch(shows);
  });
});
