import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { at, createTask, expectWhole, logOf, send, settledTask } from "../harness/double/hostile-text.ts";
import { type MockRequest, type MockTurn, startMockProvider, textOf } from "../harness/double/mock-provider.ts";
import { sampleByDay } from "../harness/night.ts";
import { git, makeProject, readText, temporary } from "../harness/project.ts";
import { nothingLeft, startProcess } from "./process.ts";

/** A Task that meets what the sweep's own runs do not, killed right after each of it: the same end from every point. */

const seldom = [
  "permissions.read",
  "checks.found",
  "reply.retried",
  "slice.defined",
  "slice.ordered",
  "slice.dropped",
  "slice.revised",
  "artifact.recorded",
  "budget.warned",
  "commit.described",
] as const;

const call = (tool: string, input: object): MockTurn => ({ calls: [{ tool, input }] });
const part = (title: string) => ({ title, objective: `${title} is there.`, acceptance: [`${title} says so.`] });

/** Ids of the plan's slices, as their tool told them. */
const slicesIn = ({ body }: MockRequest): string[] => [
  ...new Set(textOf(body.messages.map(({ content }) => textOf(content)).join("\n")).match(/slice_\w+/g) ?? []),
];

const turns: ((slices: string[]) => MockTurn)[] = [
  () => call("slice", { plan: [part("One"), part("Two"), part("Three")] }),
  ([one, two, three]) => call("slice", { order: [two, one, three] }),
  ([, , three]) => call("slice", { drop: { slice: three, reason: "Nobody asked for it." } }),
  ([, two]) => call("slice", { plan: [{ slice: two, ...part("Two, anew") }] }),
  () => call("write", { path: "b.txt", content: "b\n" }),
  () => call("artifact", { path: "b.txt", title: "What was made" }),
  // Enough to come near the budget.
  ...[1, 2, 3, 4, 5, 6, 7].map((limit) => () => call("read", { path: "long.txt", limit })),
  () => ({ text: "All is there." }),
];

/** More than one line: what the commit says is asked for. */
const longRequest = "Make it.\n\nAnd say in b.txt what was done, because nobody can tell otherwise.";

/** How often each of it came. */
const play = async (point: string): Promise<Record<string, number>> => {
  using root = temporary("sortie-seldom-");
  let refused = false;
  const provider = await startMockProvider((request) => {
    if (request.turn === 4 && !refused) {
      refused = true;
      return { fail: { status: 503, message: "busy" } };
    }
    return turns[request.turn]?.(slicesIn(request)) ?? { text: "Nothing more." };
  });
  try {
    const dataDir = join(root.path, "data");
    const config = join(root.path, "config.jsonc");
    const project = makeProject(join(root.path, "project"), {
      "package.json": JSON.stringify({ scripts: { test: "test -e long.txt" } }),
      "long.txt": "line\n".repeat(20),
      ".sortie/permissions.jsonc": '{ "deny": ["read(secret.txt)"] }',
    });
    const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
    writeFileSync(config, JSON.stringify({ model: "mock/large", providers }));
    const env = { SERVICE_DATA_DIR: dataDir, SERVICE_CONFIG: config, HOME: root.path };
    const create = (url: string) => createTask(url, project, { request: longRequest, budget: { maxSteps: 16 } });
    if (point !== "") {
      await using service = await startProcess({ ...env, TEST_KILL_ON: point });
      await create(service.url).catch(() => undefined);
      await Promise.race([service.gone, new Promise((_, reject) => setTimeout(reject, 30_000, new Error("it lives")))]);
    }
    await using service = await startProcess(env);
    if (point === "") await create(service.url);
    const listed = (await send(service.url, at("/tasks", project))).body as unknown as { taskID: string }[];
    const taskID = listed[0]?.taskID ?? "";
    const status = await settledTask(service.url, taskID, 30_000);
    expect(status, status.error).toMatchObject({ lifecycleStatus: "completed", attempt: 1, verified: true });
    expect(status.goals.map(({ contract }) => contract.title)).toEqual(["Two, anew", "One", "Three"]);
    expect(git(project, "rev-list", "--count", "HEAD")).toBe("2");
    expect(readText(project, "b.txt")).toBe("b\n");
    expectWhole(project);
    const types = (await logOf(service.url, taskID)).map(({ type }) => type);
    await nothingLeft(dataDir);
    return Object.fromEntries(
      [...seldom, "task.settled" as const].map((type) => [type, types.filter((each) => each === type).length]),
    );
  } finally {
    await provider.close();
  }
};

test("killed right after each of it: the same end; control: without a kill it meets all of it", {
  timeout: 600_000,
}, async () => {
  const plain = await play("");
  expect(Object.keys(plain).filter((type) => plain[type] === 0)).toEqual([]);
  for (const point of sampleByDay("what is seldom", [...seldom], 1))
    expect([point, await play(point)]).toEqual([point, plain]);
});
