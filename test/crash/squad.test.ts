import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Frame } from "../../src/protocol/event/frame.ts";
import type { TaskStatus } from "../../src/protocol/task/status.ts";
import { git, makeProject, readText, temporary, until, writeFiles } from "../harness/project.ts";
import { at, createTask, logOf, send, statusOf } from "../harness/double/hostile-text.ts";
import {
  type MockProvider,
  type MockRequest,
  type MockTurn,
  partsOf,
  startMockProvider,
  textOf,
} from "../harness/double/mock-provider.ts";
import { teamOf } from "../harness/double/squads.ts";
import { nothingLeft, startProcess } from "./process.ts";
import { sampleByDay } from "../harness/night.ts";

/**
 * A squad at work: two builders at once in files of their own, then a review. The service is killed (SIGKILL) after
 * every event in turn and started again: no session begun twice, no work lost or doubled, the same end.
 */

/** What leaves the next start most to decide: the Task has to have all of it. */
const delicate = new Set(["session.started builder", "session.ended", "review.finished"]);

const team = teamOf("team", {
  orchestrator: ["read, delegate", "delegates: [builder]"],
  builder: ["read, write"],
  reviewer: ["verdict"],
});

/** What each role says depends on what it reads alone; an interrupted write is done again. */
const script = ({ body, turn, first }: MockRequest): MockTurn => {
  const system = textOf(body.messages.find(({ role }) => role === "system")?.content);
  const newest = textOf(body.messages.at(-1)?.content);
  if (system.includes("You are the reviewer.")) {
    const verdict = newest.includes("+one") && newest.includes("+two") ? "accepted" : "rejected";
    return {
      calls: [{ tool: "verdict", input: { parts: partsOf(first).map((part) => ({ part, verdict, notes: "Read." })) } }],
    };
  }
  if (system.includes("You are the builder.")) {
    const name = first.includes("Build one") ? "one" : "two";
    return turn === 0 || newest.includes("Interrupted:")
      ? { calls: [{ tool: "write", input: { path: `${name}.txt`, content: `${name}\n` } }] }
      : { text: `Built ${name}.` };
  }
  return turn === 0
    ? {
        calls: ["one", "two"].map((name) => ({
          tool: "delegate",
          input: { agent: "builder", brief: `Build ${name}` },
        })),
      }
    : { text: "Both are there." };
};

let provider: MockProvider;
beforeAll(async () => {
  provider = await startMockProvider(script, { reviews: "script" });
});
afterAll(() => provider.close());

const verify = async (
  url: string,
  taskID: string,
  project: string,
  dataDir: string,
  lose?: (project: string) => void,
): Promise<Frame[]> => {
  const status: TaskStatus = await until(
    () => statusOf(url, taskID),
    (asked) => asked.status === "inactive",
    30_000,
  );
  expect(status).toMatchObject({ lifecycleStatus: "completed", attempt: 1 });
  lose?.(project);
  expect(["one", "two"].map((name) => readText(project, `${name}.txt`))).toEqual(["one\n", "two\n"]);
  expect(git(project, "rev-list", "--count", "HEAD")).toBe("2");
  expect(git(project, "status", "--porcelain")).toBe("");
  git(project, "fsck", "--strict");
  const events = await logOf(url, taskID);
  const began = events.flatMap((event) => (event.type === "session.started" ? [event.data] : []));
  const ended = events.flatMap((event) => (event.type === "session.ended" ? [event.data.sessionID] : []));
  expect(began.filter(({ purpose }) => purpose === "work")).toHaveLength(2);
  expect(ended.toSorted()).toEqual(began.map(({ sessionID }) => sessionID).toSorted());
  const started = events.flatMap((event) => (event.type === "tool.started" ? [event.data.callID] : []));
  const finished = events.flatMap((event) => (event.type === "tool.finished" ? [event.data.callID] : []));
  expect(finished.toSorted()).toEqual(started.toSorted());
  expect(status.goals).toMatchObject([{ review: { verdict: "accepted" }, settlement: { state: "accepted" } }]);
  // Nothing of the builders' own files is left, on disk or as a branch.
  expect(readdirSync(join(dataDir, "worktrees")).filter((name) => name.startsWith(`${taskID}-`))).toEqual([]);
  expect(git(project, "branch", "--list", `sortie/${taskID}-*`)).toBe("");
  await nothingLeft(dataDir);
  return events;
};

/** 0: not killed. */
const killedAt = async (version: number, lose?: (project: string) => void): Promise<Frame[]> => {
  using root = temporary("sortie-squad-");
  const dataDir = join(root.path, "data");
  writeFiles(join(dataDir, "squads"), team);
  const project = makeProject(join(root.path, "project"), { "a.txt": "one\n" });
  const config = join(root.path, "config.jsonc");
  const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
  writeFileSync(config, JSON.stringify({ model: "mock/large", squad: "team", providers }));
  const env = { SERVICE_DATA_DIR: dataDir, SERVICE_CONFIG: config, HOME: root.path };
  let taskID = "";
  {
    await using service = await startProcess({ ...env, TEST_KILL_AT: String(version) });
    // The kill may fall before the POST has its answer.
    const created = createTask(service.url, project, { request: "Make one.txt and two.txt" });
    taskID = version === 0 ? await created : await created.catch(() => "");
    if (version === 0) return await verify(service.url, taskID, project, dataDir, lose);
    await service.gone;
  }
  await using again = await startProcess(env);
  if (taskID === "") {
    const { body } = await send(again.url, at("/tasks", project));
    taskID = String((body as unknown as { taskID: string }[])[0]?.taskID);
  }
  return await verify(again.url, taskID, project, dataDir);
};

describe("a squad, killed after every event in turn", () => {
  test("comes to the same end from every point", { timeout: 900_000 }, async () => {
    const frames = await killedAt(0);
    const kindOf = ({ type, data }: Frame) =>
      "tool" in data ? `${type} ${data.tool}` : type === "session.started" ? `${type} ${data.agent}` : type;
    const kinds = frames.map(kindOf);
    for (const kind of delicate) expect(kinds).toContain(kind);
    // The first event is the POST's answer.
    const versions = sampleByDay(
      "squad sweep",
      kinds.slice(1).map((_, index) => index + 2),
      // The day's other kills of a squad are in ./whole.
      1,
    );
    console.log(`squad sweep: killed after ${versions.length} of ${frames.length} events`);
    const worker = async () => {
      for (let version = versions.shift(); version !== undefined; version = versions.shift()) {
        const point = version;
        await killedAt(point).catch((error: unknown) => {
          throw new Error(`killed after event ${point}, ${kinds[point - 1]}: ${String(error)}`, { cause: error });
        });
      }
    };
    await Promise.all([worker(), worker()]);
  });

  test("control: work that was lost is found out", { timeout: 60_000 }, async () => {
    await expect(killedAt(0, (project) => rmSync(join(project, "two.txt")))).rejects.toThrow("two.txt");
  });
});
