import { appendFileSync, existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Frame } from "../../src/protocol/event/frame.ts";
import type { TaskStatus, TaskSummary } from "../../src/protocol/task/status.ts";
import { cassettes, ensureCassette } from "../harness/double/cassette.ts";
import { git, makeProject, readText, temporary, until } from "../harness/project.ts";
import { type MockProvider, type MockRequest, startMockProvider } from "../harness/double/mock-provider.ts";
import { freshSchema, postgresURL, countSkipped } from "../harness/postgres.ts";
import { nothingLeft, startProcess } from "./process.ts";
import { night, sampleByDay } from "../harness/night.ts";

/**
 * A Task of several steps, the service killed (SIGKILL) after every event in turn and started again: the same final
 * state, no side effect repeated by us, nothing acknowledged lost, nobody left over.
 */

/** What leaves the next start most to decide: the Task has to have all of it. */
const delicate = new Set([
  "task.created",
  "tool.started shell",
  "tool.finished shell",
  "note.written",
  "check.finished",
  "landing.started",
  "landing.finished",
]);

const fixed = "export const sum = (a, b) => a + b;\n";

/** What the model wants, in order. The two commands leave a mark each time they run. */
const steps = (marks: string): { tool: string; input: Record<string, string>; repeatable: boolean }[] => [
  { tool: "read", input: { path: "sum.js" }, repeatable: true },
  { tool: "note", input: { text: "1. first 2. write 3. second" }, repeatable: true },
  { tool: "shell", input: { command: `echo first >> ${marks}` }, repeatable: false },
  { tool: "write", input: { path: "sum.js", content: fixed }, repeatable: true },
  { tool: "shell", input: { command: `echo second >> ${marks}` }, repeatable: false },
];

/** The next step that is not done; an interrupted one counts as done where repeating it could do it twice. */
const script = ({ body, first }: MockRequest) => {
  const marks = /marks=(\S+)/.exec(first)?.[1] ?? "";
  const wanted = steps(marks);
  const done = new Set<number>();
  const asked = new Map<string, string>();
  for (const message of body.messages) {
    for (const call of message.tool_calls ?? []) asked.set(call.id, call.function.arguments);
    if (message.tool_call_id === undefined) continue;
    const args = asked.get(message.tool_call_id) ?? "";
    const index = wanted.findIndex(({ input }) => JSON.stringify(input) === JSON.stringify(JSON.parse(args)));
    if (wanted[index]?.repeatable !== true || !String(message.content).includes("Interrupted:")) done.add(index);
  }
  const next = wanted.find((_step, index) => !done.has(index));
  return next === undefined ? { text: "The sum is right now." } : { calls: [{ tool: next.tool, input: next.input }] };
};

if (postgresURL === undefined) countSkipped(1);

let provider: MockProvider;
beforeAll(async () => {
  provider = await startMockProvider(script);
});
afterAll(() => provider.close());

type Place = { dataDir: string; project: string; marks: string; env: Record<string, string> };

const makePlace = (root: string, extra: Record<string, string> = {}): Place => {
  const dataDir = join(root, "data");
  const project = makeProject(join(root, "project"), {
    "sum.js": "export const sum = (a, b) => a - b;\n",
    ".gitignore": "marks\n",
  });
  // The project's own path is the Task's tree where a command has files of its own, and the user's checkout elsewhere.
  const marks = join(project, "marks");
  // Not committed: the Task begins from a snapshot, which no branch of the user's holds.
  writeFileSync(join(project, "mine.txt"), "mine\n");
  const config = join(root, "config.jsonc");
  writeFileSync(
    config,
    JSON.stringify({
      model: "mock/large",
      providers: { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } },
    }),
  );
  return { dataDir, project, marks, env: { SERVICE_DATA_DIR: dataDir, SERVICE_CONFIG: config, HOME: root, ...extra } };
};

const ask = async <T>(url: string, path: string, init?: RequestInit): Promise<T> => {
  const response = await fetch(`${url}${path}`, init);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
};

const create = (url: string, { project, marks }: Place, model?: string): Promise<{ taskID: string }> =>
  ask(url, `/task?directory=${encodeURIComponent(project)}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      request: `Make the sum right. marks=${marks}`,
      productPillar: "code",
      title: "Make the sum right",
      ...(model === undefined ? {} : { model }),
      checks: [{ id: "right", kind: "test", run: "grep -q 'a + b' sum.js", baseline: true }],
    }),
  });

const settledStatus = (url: string, taskID: string): Promise<TaskStatus> =>
  until(
    () => ask<TaskStatus>(url, `/task/${taskID}/status`),
    ({ status }) => status === "inactive",
    30_000,
  );

const eventsOf = async (url: string, taskID: string): Promise<Frame[]> =>
  (await ask<{ events: Frame[] }>(url, `/task/${taskID}/events?format=json&after=0&limit=1000`)).events;

/** The file with the marks, wherever the command's tier has put it. */
const marksFile = ({ dataDir, marks }: Place, taskID: string): string => {
  const own = join(dataDir, "worktrees", taskID, "marks");
  return existsSync(own) ? own : marks;
};

const marksOf = (place: Place, taskID: string): string[] => {
  const file = marksFile(place, taskID);
  return existsSync(file) ? readText(file).trimEnd().split("\n") : [];
};

/** The user's repository is sound, and what its user may do at any time takes nothing from the Task. */
const tidy = ({ project }: Place): void => {
  expect(git(project, "fsck", "--full", "--strict", "--no-dangling")).toBe("");
  git(project, "reflog", "expire", "--expire=now", "--all");
  git(project, "gc", "--quiet", "--prune=now");
};

/** Everything that must hold in the end, whatever happened on the way. */
const verify = async (url: string, taskID: string, place: Place): Promise<void> => {
  const status = await settledStatus(url, taskID);
  expect(status).toMatchObject({
    lifecycleStatus: "completed",
    attempt: 1,
    checks: [{ id: "right", state: "passed", stale: false, baseline: { state: "failed" } }],
  });
  expect(status).not.toHaveProperty("error");

  expect(readText(place.project, "sum.js")).toBe(fixed);
  expect(git(place.project, "log", "--format=%s")).toBe("Make the sum right\nfirst");
  expect(git(place.project, "log", "-1", "--format=%B")).toContain(`Task: ${taskID}`);
  expect(git(place.project, "rev-parse", "HEAD")).toBe(status.git.landedCommit);
  expect(git(place.project, "rev-parse", "HEAD^{tree}")).toBe(status.git.checkedTree);
  expect(git(place.project, "status", "--porcelain")).toBe("?? mine.txt");
  tidy(place);
  expect(existsSync(join(place.project, ".git", "index.lock"))).toBe(false);

  const events = await eventsOf(url, taskID);
  const ids = events.map(({ id }) => id);
  expect(ids).toEqual([...new Set(ids)].sort((a, b) => a - b));
  const started = events.flatMap((event) => (event.type === "tool.started" ? [event.data.callID] : []));
  const finished = events.flatMap((event) => (event.type === "tool.finished" ? [event.data.callID] : []));
  expect(finished.toSorted()).toEqual(started.toSorted());
  expect(events.filter(({ type }) => type === "task.settled")).toHaveLength(1);
  expect(events.filter(({ type }) => type === "landing.started")).toHaveLength(1);

  // A fact of ours stands once, with the result of its call, wherever the kill fell.
  const noted = events.flatMap((event) => (event.type === "note.written" ? [event.data.callID] : []));
  const notes = events.flatMap((event) =>
    event.type === "tool.finished" && event.data.tool === "note" ? [event] : [],
  );
  expect(noted).toHaveLength(1);
  expect(notes.map(({ data }) => [data.callID, data.outcome])).toEqual([[noted[0], "ok"]]);

  // No side effect repeated by us: at most one mark each, and one unless its call was interrupted.
  const marks = marksOf(place, taskID);
  for (const mark of ["first", "second"]) expect(marks.filter((line) => line === mark).length).toBeLessThanOrEqual(1);
  const interrupted = events.filter((event) => event.type === "tool.finished" && event.data.outcome === "interrupted");
  if (interrupted.length === 0) expect(marks).toEqual(["first", "second"]);

  const [row] = await ask<TaskSummary[]>(url, `/tasks?directory=${encodeURIComponent(place.project)}`);
  expect(row).toMatchObject({ taskID, lifecycleStatus: "completed", lastEventID: status.lastEventID, git: status.git });
  await nothingLeft(place.dataDir);
};

/** `unanswered`: the kill may fall before the POST has its answer, and the Task is found in the list. */
type Killing = { extra?: Record<string, string>; unanswered?: boolean };

/** One run with a kill at an event's version (0: none), and one without that finishes it. */

const framesKilledAt = async (version: number, { extra = {}, unanswered = false }: Killing = {}): Promise<Frame[]> => {
  using root = temporary("sortie-crash-");
  const place = makePlace(root.path, extra);
  let taskID: string | undefined;
  {
    await using service = await startProcess({ ...place.env, TEST_KILL_AT: String(version) });
    const answer = create(service.url, place);
    ({ taskID } = unanswered ? await answer.catch(() => ({ taskID: undefined })) : await answer);
    if (version === 1) await service.kill("SIGKILL");
    if (version > 0) {
      await service.gone;
      tidy(place);
    } else {
      await verify(service.url, taskID ?? "", place);
      return await eventsOf(service.url, taskID ?? "");
    }
  }
  await using again = await startProcess(place.env);
  taskID ??=
    (await ask<TaskSummary[]>(again.url, `/tasks?directory=${encodeURIComponent(place.project)}`))[0]?.taskID ?? "";
  await verify(again.url, taskID, place);
  return await eventsOf(again.url, taskID);
};

/** Two at a time: the machine has two cores, and the service is started twice for each. */
const killAtEach = async (versions: readonly number[], kill: (version: number) => Promise<unknown>): Promise<void> => {
  const left = [...versions];
  const worker = async () => {
    for (let version = left.shift(); version !== undefined; version = left.shift()) {
      const at = version;
      await kill(at).catch((error: unknown) => {
        throw new Error(`killed after event ${at}: ${String(error)}`, { cause: error });
      });
    }
  };
  await Promise.all([worker(), worker()]);
};

describe("killed after every event in turn", () => {
  test("the same end from every point", { timeout: 600_000 }, async () => {
    const frames = await framesKilledAt(0);
    expect(frames.length).toBeGreaterThan(20);
    const kinds = frames.map(({ type, data }) => ("tool" in data ? `${type} ${data.tool}` : type));
    for (const kind of delicate) expect(kinds).toContain(kind);
    const firstReply = kinds.indexOf("reply.finished");
    const versions = sampleByDay(
      "sweep",
      frames.map((_, index) => index + 1),
      3,
    );
    console.log(`sweep: killed after ${versions.length} of ${frames.length} events`);
    // A model at the other end of a socket takes longer than the answer.
    await killAtEach(versions, (at) => framesKilledAt(at, { unanswered: at > 1 && at <= firstReply }));
  });

  test.skipIf(postgresURL === undefined)("on PostgreSQL, at a few of them", { timeout: 120_000 }, async () => {
    const url = new URL(postgresURL ?? "");
    await using schema = freshSchema(url.href);
    await schema.create();
    url.searchParams.set("options", `-c search_path=${schema.name}`);
    for (const version of sampleByDay("sweep on PostgreSQL", [2, 8, 13, 19, 22], 1))
      await framesKilledAt(version, { extra: { SERVICE_DATABASE_URL: url.href }, unanswered: version === 2 });
  });

  // At night alone: by day the same events are killed with the model itself.
  if (night)
    test("on recorded exchanges, wherever no call is cut in two", { timeout: 120_000 }, async () => {
      await ensureCassette({
        name: "crash-sweep",
        provider: async () => ({ kind: "openai-compatible", baseURL: provider.baseURL }),
        model: "large",
        note: "Recorded from the mock provider of test/crash/sweep.test.ts on OpenAI's chat format, not from a real model.",
        async act(service, model) {
          using root = temporary("sortie-crash-");
          const place = makePlace(root.path);
          const { taskID } = await create(service.url, place, model);
          await settledStatus(service.url, taskID);
        },
      });
      // Recorded replies come at once, so any of these kills may be first.
      const replayed = {
        extra: { SERVICE_CASSETTES: cassettes, SERVICE_MODEL: "replay/crash-sweep" },
        unanswered: true,
      };
      const asked = provider.count();
      const frames = await framesKilledAt(0, { ...replayed, unanswered: false });
      // Right after an intent nobody knows what happened to it: the model is told so, which is another conversation.
      const cut = (index: number) =>
        frames[index]?.type === "tool.started" || frames[index + 1]?.type === "tool.started";
      const quiet = frames.flatMap((_frame, index) => (cut(index) ? [] : [index + 1]));
      expect(quiet.length).toBeGreaterThan(10);
      await killAtEach(quiet, (at) => framesKilledAt(at, replayed));
      expect(provider.count()).toBe(asked);
    });

  test("control: a repeated effect is found out", async () => {
    using root = temporary("sortie-crash-");
    const place = makePlace(root.path);
    await using service = await startProcess(place.env);
    const { taskID } = await create(service.url, place);
    await verify(service.url, taskID, place);
    appendFileSync(marksFile(place, taskID), "first\n");
    await expect(verify(service.url, taskID, place)).rejects.toThrow();
  });
});
