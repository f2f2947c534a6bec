import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import Database from "better-sqlite3";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { TaskStatus } from "../../../src/protocol/task/status.ts";
import { makeProject, temporary, until } from "../../harness/project.ts";
import { createTask, post, shell, statusOf } from "../../harness/double/hostile-text.ts";
import { invariants } from "../../harness/invariants.ts";
import { type MockProvider, type MockTurn, startMockProvider, textOf } from "../../harness/double/mock-provider.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { night } from "../../harness/night.ts";

/**
 * Messages, interrupts and cancels at any moment, while a background command, an ask, a permission, a quota, a summary,
 * a check or an external agent is under way. Whatever comes, each Task is settled or waits with a due mark, and what
 * the service promises always holds.
 */

const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
console.log(
  `under way: fast-check seed ${seed}; repeat with TEST_SEED=${seed} vitest run test/service/task/interruption.test.ts`,
);

const repository = fileURLToPath(new URL("../../..", import.meta.url));
const agent = fileURLToPath(new URL("../../fixtures/acp/agent.ts", import.meta.url));
const call = (tool: string, input: object): MockTurn => ({ calls: [{ tool, input }] });

/** What is under way, each by the turns of its model, which then says that it is done. */
const works = {
  background: [shell("sleep 300", { background: true }), shell("sleep 0.4")],
  command: [shell("sleep 0.4"), shell("echo late > late.txt")],
  question: [call("ask", { question: "Which colour?", options: ["red", "blue"], default: "red" })],
  permission: [shell("make deploy"), shell("sleep 0.1")],
  quota: [{ fail: { status: 429, message: "slow down", headers: { "retry-after": "3600" } } }],
  summary: Array.from({ length: 8 }, (_, turn) => call("read", { path: `part-${turn}.txt` })),
  check: [shell("echo x > x.txt")],
  external: [call("terminal", { command: "sleep 0.4" }), call("permitted", { command: "touch y.txt" })],
} satisfies Record<string, MockTurn[]>;
type Work = keyof typeof works;
const kinds = Object.keys(works) as Work[];

let provider: MockProvider;
let service: TestService;
let root: ReturnType<typeof temporary>;
let count = 0;
let summaries = 0;

beforeAll(async () => {
  root = temporary("sortie-under-way-");
  provider = await startMockProvider(({ first: request, turn, body }) => {
    const said = JSON.stringify(body.messages.filter(({ role }) => role !== "system"));
    const read = Math.max(-1, ...[...said.matchAll(/part-(\d)\.txt/g)].map(([, number]) => Number(number)));
    if (textOf(body.messages.at(-1)?.content).includes("this conversation is about to")) {
      summaries += 1;
      return { text: `All of the parts up to part-${read}.txt were read; go on with the next one.`, latencyMs: 300 };
    }
    const work = /\[(\w+)\]/.exec(request)?.[1] as Work | undefined;
    const turns: MockTurn[] = work === undefined ? [] : works[work];
    // A summary takes turns out of the conversation, and says how far it got.
    const at = work === "summary" ? read + 1 : turn;
    return turns[at] ?? { text: "Done.", latencyMs: 50 };
  });
  const config = join(root.path, "config.jsonc");
  writeFileSync(
    config,
    JSON.stringify({
      providers: {
        mock: {
          kind: "openai-compatible",
          baseURL: provider.baseURL,
          apiKey: "none",
          models: ["large", { id: "small", contextWindow: 16_000 }],
        },
      },
      sandbox: { tier: 3, paths: [repository] },
      agents: { small: { command: `exec ${process.execPath} ${agent}`, env: ["MODEL_URL"] } },
      permissions: { deny: [], ask: ["shell(make deploy)", "shell(touch)"], allow: [] },
    }),
  );
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config, MODEL_URL: provider.baseURL });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

const create = async (work: Work): Promise<[taskID: string, directory: string]> => {
  const parts =
    work === "summary"
      ? Object.fromEntries(works.summary.map((_, at) => [`part-${at}.txt`, `${"word ".repeat(300)}\n`.repeat(6)]))
      : {};
  const directory = makeProject(join(root.path, `p-${(count += 1)}`), { "a.txt": "one\n", ...parts });
  const taskID = await createTask(service.url, directory, {
    request: `do it [${work}]`,
    ...(work === "external"
      ? { promptProfile: "acp-small" }
      : { model: work === "summary" ? "mock/small" : "mock/large" }),
    ...(work === "check" ? { checks: [{ kind: "command", run: "sleep 0.4" }] } : {}),
  });
  return [taskID, directory];
};

type Act =
  | { do: "message"; onBusy: "auto" | "queue" | "interrupt" | "reject" }
  | { do: "cancel"; mode: "stop" | "wrap_up" }
  | { do: "answer"; decision: "allow" | "deny" };
const act: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("message" as const),
      onBusy: fc.constantFrom("auto" as const, "queue" as const, "interrupt" as const, "reject" as const),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("cancel" as const),
      mode: fc.constantFrom("stop" as const, "wrap_up" as const),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("answer" as const),
      decision: fc.constantFrom("allow" as const, "deny" as const),
    }),
  },
);
const course = fc.record({
  work: fc.constantFrom(...kinds),
  acts: fc.array(fc.tuple(fc.nat(700), act), { minLength: 1, maxLength: 4 }),
});

const answer = async (taskID: string, directory: string, decision: "allow" | "deny"): Promise<void> => {
  for (const { id, kind } of (await statusOf(service.url, taskID)).pending) {
    const body = kind === "permission" ? { decision } : { answer: "blue" };
    const { status } = await post(service.url, `/task/${taskID}/pending/${id}`, directory, body);
    // It may be over, or answered, since we looked.
    expect([200, 202, 404, 409]).toContain(status);
  }
};

/** Nobody works at it, and only an answer or a distant time moves it on: it is due then, held by nobody. */
const isLeft = (taskID: string): boolean => {
  const database = new Database(join(service.dataDir, "sortie.db"), { readonly: true });
  const mark = database
    .prepare<[string], { holder: string | null; due_at: number | null }>("select * from streams where stream = ?")
    .get(taskID);
  database.close();
  return mark?.holder === null && mark.due_at !== null && mark.due_at > Date.now() + 60_000;
};

test("whatever comes while something is under way, each Task ends, or waits with a due mark", {
  timeout: night ? 900_000 : 60_000,
}, async () => {
  const runs = fc.sample(course, { seed, numRuns: night ? 240 : 8 });
  // Every kind at least once.
  const quiet = { work: "summary" as const, acts: [[300, { do: "message", onBusy: "queue" }] as [number, Act]] };
  const courses = [quiet, ...runs.map((run, at) => ({ ...run, work: kinds[at] ?? run.work }))];
  const messages = new Map<string, string>();
  const tasks = new Map<string, string>();
  const follow = async ({ work, acts }: (typeof courses)[number]): Promise<void> => {
    const [taskID, directory] = await create(work);
    tasks.set(taskID, directory);
    for (const [ms, step] of acts) {
      await new Promise((resolve) => setTimeout(resolve, ms));
      if (step.do === "answer") await answer(taskID, directory, step.decision);
      else if (step.do === "cancel")
        await post(service.url, `/task/${taskID}/cancel`, directory, {
          surface: "api",
          reason: "enough",
          mode: step.mode,
        });
      else {
        const { status, body } = await post(service.url, `/task/${taskID}/message`, directory, {
          source: "api",
          text: "And this.",
          onBusy: step.onBusy,
        });
        expect([JSON.stringify(body), [200, 202, 409].includes(status)]).toEqual([JSON.stringify(body), true]);
        if (status < 300) messages.set(String(body["messageID"]), taskID);
      }
    }
    // An external agent waits with its process, and holds the Task.
    const rests = ({ status, phase }: TaskStatus) =>
      status === "inactive" || isLeft(taskID) || (work === "external" && phase === "waiting");
    await until(() => statusOf(service.url, taskID), rests);
    // What waits is cancelled, which ends it whatever it waits for.
    await until(
      async () => {
        const status = await statusOf(service.url, taskID);
        if (status.status !== "inactive")
          await post(service.url, `/task/${taskID}/cancel`, directory, { surface: "api", reason: "end", mode: "stop" });
        return status;
      },
      ({ status }) => status === "inactive",
    );
  };
  for (let at = 0; at < courses.length; at += 7) await Promise.all(courses.slice(at, at + 7).map(follow));
  await invariants({ url: service.url, dataDir: service.dataDir, tasks, messages });
  // The control: what was to be under way, was.
  expect([messages.size > 0, summaries > 0]).toEqual([true, true]);
});
