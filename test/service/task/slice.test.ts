import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LongText } from "../../../src/protocol/text.ts";
import type { TaskBoard } from "../../../src/protocol/task/board.ts";
import { git, makeProject, readText, temporary, until, writeFiles } from "../../harness/project.ts";
import { createTask, logOf, post, send, settledTask, statusOf } from "../../harness/double/hostile-text.ts";
import {
  type MockProvider,
  type MockRequest,
  type MockTurn,
  partsOf,
  startMockProvider,
  textOf,
} from "../../harness/double/mock-provider.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { teamOf } from "../../harness/double/squads.ts";
import { manifestOf, unpack, verified } from "../../harness/zip-reader.ts";

/** A squad at work over the real wire format: slices, delegation, reviews, and what the service makes of them. */

const team = (version = "1.0.0") =>
  teamOf(
    "team",
    {
      orchestrator: ["read, write, shell, slice, delegate", "delegates: [builder, explorer, stranger]"],
      builder: ["read, write, shell"],
      explorer: ["read, search"],
      stranger: ["read", "model: elsewhere/large"],
      reviewer: ["verdict"],
    },
    { version },
  );

type Role = "orchestrator" | "builder" | "explorer" | "reviewer";
type Say = (turn: number, request: MockRequest, newest: string) => MockTurn | Promise<MockTurn>;

const roleOf = ({ body }: MockRequest): Role => {
  const system = textOf(body.messages.find(({ role }) => role === "system")?.content);
  return (/You are the (\w+)\./.exec(system)?.[1] ?? "orchestrator") as Role;
};
const newestOf = ({ body }: MockRequest): string => textOf(body.messages.at(-1)?.content);
const slicesIn = (text: string): string[] => [...new Set(text.match(/slice_[0-9a-z]{26}/g) ?? [])];

const root = temporary("sortie-slices-");
let provider: MockProvider;
let service: TestService;
const scripts = new Map<string, Partial<Record<Role, Say>>>();
const requests: { role: Role; request: MockRequest }[] = [];

beforeAll(async () => {
  provider = await startMockProvider(
    (request) => {
      const role = roleOf(request);
      requests.push({ role, request });
      const all = request.body.messages.map(({ content }) => textOf(content)).join("\n");
      const script = scripts.get(/\[(\w+)\]/.exec(all)?.[1] ?? "");
      return script?.[role]?.(request.turn, request, newestOf(request)) ?? { text: "Done." };
    },
    { reviews: "script" },
  );
  const data = join(root.path, "data");
  writeFiles(join(data, "squads"), { ...team(), ...teamOf("alone", { orchestrator: ["read, write"] }) });
  const config = join(root.path, "config.jsonc");
  const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
  writeFileSync(config, JSON.stringify({ model: "mock/large", squad: "team", providers }));
  service = await startService(data, { SERVICE_CONFIG: config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

let folders = 0;
const project = (files: Record<string, string> = { "a.txt": "one\n" }) =>
  makeProject(join(root.path, `project-${(folders += 1)}`), files);
const begin = (name: string, script: Partial<Record<Role, Say>>, body: Record<string, unknown> = {}) => {
  scripts.set(name, script);
  const directory = project();
  return createTask(service.url, directory, { request: `Do it [${name}]`, ...body }).then((taskID) => ({
    taskID,
    directory,
  }));
};
const write = (path: string, content: string) => ({ tool: "write", input: { path, content } });
const judge = (request: MockRequest, verdict: string, notes = "Seen in the diff."): MockTurn => ({
  calls: [{ tool: "verdict", input: { parts: partsOf(request.first).map((part) => ({ part, verdict, notes })) } }],
});
const outputOf = (text: LongText): string => (typeof text === "string" ? text : text.head);
const boardOf = async (taskID: string) =>
  (await send(service.url, `/task/${taskID}/board`)).body as unknown as TaskBoard;

describe("a small request", () => {
  test("stays one session and one slice; the review is one model call, before the landing", async () => {
    const { taskID, directory } = await begin("small", {
      orchestrator: (turn) =>
        turn === 0 ? { text: "First b.txt.", calls: [write("b.txt", "two\n")] } : { text: "Made b.txt." },
      reviewer: (_turn, request) => judge(request, "accepted"),
    });
    const status = await settledTask(service.url, taskID);
    expect(status).toMatchObject({ lifecycleStatus: "completed", usage: { modelCalls: 3 } });
    expect(readText(directory, "b.txt")).toBe("two\n");
    const commit = status.git.landedCommit;
    expect(status.goals).toMatchObject([
      {
        order: 1,
        weight: "blocking",
        contract: { revision: 1, title: "Do it [small]", objective: "Do it [small]", acceptance: [] },
        execution: { state: "finished", attempts: 1 },
        evidence: [{ kind: "change", summary: "1 file changed, +1 -0", stale: false }],
        review: { verdict: "accepted", revision: 1, reviewer: "reviewer", notes: "Seen in the diff.", stale: false },
        settlement: { state: "accepted", revision: 1, commit },
      },
    ]);
    const [lead, reviewer] = status.sessionInvocationTopology.nodes;
    expect(status.sessionInvocationTopology).toMatchObject({
      rootSessionID: lead?.sessionID,
      nodes: [
        { agent: "orchestrator", kind: "orchestrator", parentSessionID: null, usage: { modelCalls: 2 } },
        {
          agent: "reviewer",
          kind: "agent",
          state: "ended",
          usage: { modelCalls: 1 },
          sliceIDs: [status.goals[0]?.sliceID],
        },
      ],
      edges: [{ from: lead?.sessionID, to: reviewer?.sessionID, callID: null }],
    });
    // Contract, diff and evidence, and tools that read and judge: of the conversation its report alone.
    const asked = requests.find(({ role, request }) => role === "reviewer" && newestOf(request).includes("[small]"));
    expect(asked?.request.body.tools?.map(({ function: { name } }) => name)).toEqual([
      "read",
      "list",
      "search",
      "git",
      "verdict",
    ]);
    expect(asked && newestOf(asked.request)).toContain("+two");
    expect(asked && newestOf(asked.request)).toContain("Made b.txt.");
    expect(asked && newestOf(asked.request)).not.toContain("First b.txt.");
    expect((await boardOf(taskID)).columns).toEqual({
      todo: [],
      doing: [],
      reviewing: [],
      done: [status.goals[0]?.sliceID],
      blocked: [],
    });
  });

  test("that changes nothing is not reviewed", async () => {
    const { taskID } = await begin("nothing", { orchestrator: () => ({ text: "It is four." }) });
    expect(await settledTask(service.url, taskID)).toMatchObject({
      lifecycleStatus: "completed",
      usage: { modelCalls: 1 },
      goals: [{ review: { verdict: null }, settlement: { state: "accepted" } }],
    });
  });
});

describe("a review", () => {
  test("that rejects goes back with its notes, and judges the new tree; nothing lands before", async () => {
    const { taskID, directory } = await begin("reject", {
      orchestrator: (turn) =>
        turn === 0
          ? { calls: [write("b.txt", "wrong\n")] }
          : turn === 2
            ? { calls: [write("b.txt", "right\n")] }
            : { text: "Done." },
      reviewer: (_turn, request) =>
        newestOf(request).includes("+right")
          ? judge(request, "accepted")
          : judge(request, "rejected", "b.txt is wrong."),
    });
    expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
    expect(readText(directory, "b.txt")).toBe("right\n");
    expect(git(directory, "rev-list", "--count", "HEAD")).toBe("2");
    const log = await logOf(service.url, taskID);
    const told = log.find((frame) => frame.type === "message.received");
    expect(told).toMatchObject({ data: { source: "review" } });
    expect(JSON.stringify(told)).toContain("b.txt is wrong.");
    expect(log.flatMap((frame) => (frame.type === "review.finished" ? [frame.data.verdict] : []))).toEqual([
      "rejected",
      "accepted",
    ]);
  });

  test("reads what was said after the request, and what the author answered to an earlier round", async () => {
    const briefs: string[] = [];
    const { taskID, directory } = await begin("later", {
      orchestrator: (turn) => {
        if (turn === 0 || turn === 2 || turn === 4) return { calls: [write("b.txt", `${turn}\n`)] };
        return { text: turn === 3 ? "I kept the zero on purpose." : "Done." };
      },
      reviewer: (_turn, request) => {
        briefs.push(newestOf(request));
        return judge(request, briefs.length === 1 ? "rejected" : "accepted", "Why a zero?");
      },
    });
    expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
    await post(service.url, `/task/${taskID}/message`, directory, { text: "Now without a zero.", source: "user" });
    expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
    const [first = "", second = "", third = ""] = briefs;
    expect(first).not.toContain("# What was said later");
    expect(second).not.toMatch(/your work|Fix what is right in it|round 1 of 3/);
    expect(second).toMatch(/# Earlier rounds[\s\S]*Why a zero\?[\s\S]*I kept the zero on purpose\./);
    expect(third).toMatch(/# What was said later, in order; later words win[\s\S]*Now without a zero\./);
    // Nothing is said twice.
    expect(third.split("Now without a zero.")).toHaveLength(2);
    // What is judged is the follow-up; what landed before is named, and its review is over.
    const landed = git(directory, "log", "-1", "--skip=1", "--format=%H %s").split(" ");
    expect(third).toContain(
      `# What was accepted before, and must still hold where later words do not change it\n- ${landed[0]?.slice(0, 12)} "${landed.slice(1).join(" ")}" landed on main: 1 file, +1 -0: b.txt\nThe diff below holds only what was changed since`,
    );
    expect(third).toMatch(
      /# Part 1: What was asked for after that\nIts criterion is what the last message above asks; /,
    );
    expect(third).not.toMatch(/All that was asked for|# Earlier rounds/);
    expect(second).toContain("# Part 1: All that was asked for\nIts criterion is the request itself.\n");
    expect(second).not.toContain("# What was accepted before");
    expect(third.indexOf("Do it [later]")).toBeLessThan(third.indexOf("Now without a zero."));
  });

  test("reads the answer to an earlier round though the author was told something in between, and no empty one", async () => {
    const briefs: string[] = [];
    const warned: boolean[] = [];
    const script = (answer: string): Partial<Record<Role, Say>> => ({
      orchestrator: (turn, request) => {
        if (turn === 3) warned.push(request.body.messages.some(({ content }) => /used/.test(textOf(content))));
        if (turn === 0) return { calls: [write("b.txt", "0\n")] };
        // What warns of the budget comes right after it.
        if (turn === 2) return { calls: [write("b.txt", "2\n")], usage: { input: 8000, output: 500 } };
        return { text: turn === 3 ? answer : "Done." };
      },
      reviewer: (_turn, request) => {
        briefs.push(newestOf(request));
        return judge(request, briefs.length % 2 === 1 ? "rejected" : "accepted", "Why a zero?");
      },
    });
    const body = { budget: { maxTokens: 10_000 } };
    for (const [name, answer] of [
      ["between", "I kept the zero on purpose."],
      ["wordless", "Commit: b"],
    ] as const) {
      const { taskID } = await begin(name, script(answer), body);
      expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
    }
    expect(warned).toEqual([true, true]);
    expect(briefs[1]).toMatch(/# Earlier rounds[\s\S]*Why a zero\?[\s\S]*I kept the zero on purpose\./);
    expect(briefs[3]).toMatch(/# Earlier rounds[\s\S]*Why a zero\?/);
    expect(briefs[3]).not.toContain('from="what the author answered"');
  });

  test("that never accepts fails the Task with what it said; the project is untouched", async () => {
    const { taskID, directory } = await begin("never", {
      orchestrator: (turn) => (turn % 2 === 0 ? { calls: [write("b.txt", `${turn}\n`)] } : { text: "Done." }),
      reviewer: (_turn, request) => judge(request, "rejected", "Still wrong."),
    });
    const status = await settledTask(service.url, taskID);
    expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "review_rejected" } });
    expect(status.error).toContain("Still wrong.");
    expect(git(directory, "rev-list", "--count", "HEAD")).toBe("1");
    expect((await boardOf(taskID)).columns.blocked).toEqual([status.goals[0]?.sliceID]);
  });

  test("without a verdict is inconclusive and counts for nothing; a message has it reviewed again", async () => {
    let silent = true;
    const { taskID, directory } = await begin("silent", {
      orchestrator: (turn) => (turn === 0 ? { calls: [write("b.txt", "two\n")] } : { text: "Done." }),
      reviewer: (_turn, request) => (silent ? { text: "Looks fine to me." } : judge(request, "accepted")),
    });
    const status = await settledTask(service.url, taskID);
    expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "review_inconclusive" } });
    expect(status.error).toContain("Looks fine to me.");
    silent = false;
    await post(service.url, `/task/${taskID}/message`, directory, { source: "test", text: "Again, please." });
    expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed", attempt: 2 });
  });
});

describe("a check of the kind review", () => {
  const criteria = "b.txt says `right`, and nothing else.";

  test("is judged with the slices, by one session; what it misses goes back; then it is as green as any other", async () => {
    const { taskID, directory } = await begin(
      "criteria",
      {
        orchestrator: (turn) =>
          turn === 0
            ? { calls: [write("b.txt", "wrong\n")] }
            : turn === 2
              ? { calls: [write("b.txt", "right\n")] }
              : { text: "Done." },
        reviewer: (_turn, request) => {
          const good = request.first.includes("+right");
          const parts = partsOf(request.first).map((part) =>
            request.first.includes(`# Part ${part}: style`)
              ? { part, verdict: good ? "accepted" : "rejected", notes: good ? "It does." : "It says wrong." }
              : { part, verdict: "accepted", notes: "Seen." },
          );
          return { calls: [{ tool: "verdict", input: { parts } }] };
        },
      },
      { checks: [{ kind: "review", name: "style", criteria }, "test -e b.txt"] },
    );
    const status = await settledTask(service.url, taskID);
    expect(status, status.error).toMatchObject({
      lifecycleStatus: "completed",
      usage: { modelCalls: 6 },
      checks: [
        { name: "style", kind: "review", required: true, state: "passed", stale: false, round: 1, exitCode: null },
        { state: "passed", stale: false, round: 1 },
      ],
    });
    expect(status.checks[0]?.tree).toBe(status.git.landedTree);
    expect(readText(directory, "b.txt")).toBe("right\n");
    const asked = requests.filter(({ role, request }) => role === "reviewer" && request.first.includes(criteria));
    expect(asked).toHaveLength(2);
    const told = (await logOf(service.url, taskID)).find((frame) => frame.type === "message.received");
    expect(told).toMatchObject({ data: { source: "review" } });
    expect(JSON.stringify(told)).toContain('the check \\"style\\": It says wrong.');
    const log = await (await fetch(`${service.url}/task/${taskID}/checks/check-1/log`)).text();
    expect(log).toBe("accepted: It does.\n");
  });

  test("that nobody can tell has not passed; an advisory one decides nothing", async () => {
    const script: Partial<Record<Role, Say>> = {
      orchestrator: (turn) => (turn === 0 ? { calls: [write("b.txt", "two\n")] } : { text: "Done." }),
      reviewer: (_turn, request) => {
        const [slice = 1, ...checks] = partsOf(request.first);
        const parts = [
          { part: slice, verdict: "accepted", notes: "Seen." },
          ...checks.map((part) => ({ part, verdict: "inconclusive", notes: "The diff does not show it." })),
        ];
        return { calls: [{ tool: "verdict", input: { parts } }] };
      },
    };
    const failed = await begin("unclear", script, { checks: [{ kind: "review", criteria }] });
    const status = await settledTask(service.url, failed.taskID);
    expect(status).toMatchObject({
      lifecycleStatus: "failed",
      errorInfo: { code: "checks_failed" },
      checks: [{ state: "error" }],
    });
    expect(status.error).toContain("the reviewer could not tell: The diff does not show it.");
    expect(git(failed.directory, "rev-list", "--count", "HEAD")).toBe("1");
    const advisory = await begin("advisory", script, { checks: [{ kind: "review", criteria, required: false }] });
    expect(await settledTask(service.url, advisory.taskID)).toMatchObject({
      lifecycleStatus: "completed",
      checks: [{ state: "error", required: false }],
    });
  });

  test("judges what was done in place, too", async () => {
    const { taskID, directory } = await begin(
      "place",
      {
        orchestrator: (turn) => (turn === 0 ? { calls: [write("b.txt", "right\n")] } : { text: "Done." }),
        reviewer: (_turn, request) => judge(request, request.first.includes("+right") ? "accepted" : "rejected"),
      },
      { isolation: "directory", checks: [{ kind: "review", criteria }] },
    );
    const status = await settledTask(service.url, taskID);
    expect(status, status.error).toMatchObject({ lifecycleStatus: "completed", checks: [{ state: "passed" }] });
    expect(readText(directory, "b.txt")).toBe("right\n");
  });

  test("needs a squad that has a reviewer; what it cannot have is refused by name", async () => {
    const directory = project();
    const refused = async (check: object, more: object = {}) => {
      const body = {
        request: "Do it",
        productPillar: "code",
        checks: [{ kind: "review", criteria, ...check }],
        ...more,
      };
      const { status, body: said } = await post(service.url, "/task", directory, body);
      return [status, said["message"]];
    };
    expect(await refused({}, { promptProfile: "alone" })).toEqual([
      400,
      "body.checks[0].kind: Expected a squad with a reviewer for a check of the kind review, got alone.",
    ]);
    expect((await refused({ baseline: true }))[0]).toBe(400);
    expect((await refused({ criteria: " " }))[0]).toBe(400);
    const { body } = await send(service.url, `/tasks?directory=${encodeURIComponent(directory)}`);
    expect(body).toEqual([]);
  });
});

describe("a plan", () => {
  test("three slices, two of them delegated at once, a rejected review, a revised contract", async () => {
    let plan: string[] = [];
    const both = Promise.withResolvers<void>();
    const atWork = new Set<string>();
    const contract = (title: string) => ({ title, objective: `Make ${title}`, acceptance: [`${title} has its line`] });
    const { taskID, directory } = await begin("plan", {
      orchestrator(turn, request, newest) {
        switch (turn) {
          case 0:
            return { calls: [{ tool: "slice", input: { plan: ["one", "two", "three"].map(contract) } }] };
          case 1:
            plan = slicesIn(newest);
            return {
              calls: ["one", "two"].map((name, index) => ({
                tool: "delegate",
                input: { agent: "builder", slices: [plan[index]], brief: `Build ${name} [plan]` },
              })),
            };
          case 2:
            return { calls: [write("three.txt", "thre\n")] };
          case 4:
            return {
              calls: [
                {
                  tool: "slice",
                  input: {
                    plan: [
                      {
                        slice: plan[2],
                        title: "three",
                        objective: "Write three",
                        acceptance: ["three.txt says three", "nothing else changed"],
                      },
                    ],
                  },
                },
                write("three.txt", "three\n"),
              ],
            };
          default:
            return { text: "All three are there." };
        }
      },
      async builder(turn, { first }) {
        const name = /Build (\w+)/.exec(first)?.[1] ?? "";
        // Neither is answered before both have asked: one after the other would never come here.
        atWork.add(name);
        if (atWork.size === 2) both.resolve();
        await both.promise;
        return turn === 0
          ? {
              calls: [
                write(`${name}.txt`, `${name}\n`),
                // By its id, or as it is called.
                { tool: "shell", input: { command: `cat ${name}.txt`, proves: name === "one" ? plan[0] : "Two" } },
              ],
            }
          : { text: `Built ${name}.` };
      },
      reviewer(_turn, request) {
        const good = newestOf(request).includes("+three");
        const parts = partsOf(request.first).map((part) =>
          request.first.includes(`# Part ${part}: three`) && !good
            ? { part, verdict: "rejected", notes: "three.txt is misspelt." }
            : { part, verdict: "accepted", notes: "Seen." },
        );
        return { calls: [{ tool: "verdict", input: { parts } }] };
      },
    });
    const status = await settledTask(service.url, taskID, 40_000);
    expect(status).toMatchObject({ lifecycleStatus: "completed" });
    expect(["one", "two", "three"].map((name) => readText(directory, `${name}.txt`))).toEqual([
      "one\n",
      "two\n",
      "three\n",
    ]);
    expect(git(directory, "rev-list", "--count", "HEAD")).toBe("2");

    // The whole request became the first slice of the plan: its id is the one that stood from the beginning.
    expect(status.goals.map(({ sliceID }) => sliceID)).toEqual(plan);
    expect(plan[0]).toBe(taskID.replace("task_", "slice_"));
    const { nodes, edges } = status.sessionInvocationTopology;
    const builders = nodes.filter(({ agent: name }) => name === "builder");
    expect(builders.map(({ sliceIDs, state, parentSessionID }) => ({ sliceIDs, state, parentSessionID }))).toEqual(
      [plan[0], plan[1]].map((id) => ({ sliceIDs: [id], state: "ended", parentSessionID: nodes[0]?.sessionID })),
    );
    expect(nodes.map(({ agent: name }) => name)).toEqual([
      "orchestrator",
      "builder",
      "builder",
      "reviewer",
      "reviewer",
    ]);
    expect(edges.map(({ callID }) => callID === null)).toEqual([false, false, true, true]);
    expect(
      status.goals.map(({ contract: { revision }, review, settlement, execution, evidence }) => ({
        revision,
        verdict: review.verdict,
        settlement: settlement.state,
        sessions: execution.sessionIDs.map((id) => nodes.find(({ sessionID }) => sessionID === id)?.agent),
        kinds: [...new Set(evidence.filter(({ stale }) => !stale).map(({ kind }) => kind))].toSorted(),
        // In the builder's own files, which never were those of the Task.
        stale: evidence.filter(({ kind, stale }) => stale && kind === "command").map(({ summary }) => summary),
      })),
    ).toEqual([
      {
        revision: 2,
        verdict: "accepted",
        settlement: "accepted",
        sessions: ["builder"],
        kinds: ["change"],
        stale: ["`cat one.txt` exit 0, run to prove it"],
      },
      {
        revision: 1,
        verdict: "accepted",
        settlement: "accepted",
        sessions: ["builder"],
        kinds: ["change"],
        stale: ["`cat two.txt` exit 0, run to prove it"],
      },
      {
        revision: 2,
        verdict: "accepted",
        settlement: "accepted",
        sessions: ["orchestrator"],
        kinds: ["change"],
        stale: [],
      },
    ]);
    const board = await boardOf(taskID);
    expect(board.columns).toEqual({ todo: [], doing: [], reviewing: [], done: plan, blocked: [] });
    expect(board.sessions).toEqual(nodes);

    // The archive tells the same, whole, and proves it by itself.
    const zip = await (
      await fetch(`${service.url}/task/${taskID}/project-archive?directory=${encodeURIComponent(directory)}`)
    ).arrayBuffer();
    const files = unpack(Buffer.from(zip));
    const flow = (name: string): unknown => JSON.parse(String(files.get(`execution-flow/${name}`)));
    const listed = (name: string): unknown[] =>
      String(files.get(`execution-flow/${name}`))
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as unknown);
    expect([...files.keys()].toSorted()).toEqual(
      [
        ...["a.txt", "one.txt", "three.txt", "two.txt"].map((name) => `project/${name}`),
        ...[
          "board.json",
          "checks.json",
          "events.jsonl",
          "ledger.jsonl",
          "manifest.json",
          "messages.jsonl",
          "task.json",
        ].map((name) => `execution-flow/${name}`),
      ].toSorted(),
    );
    for (const name of ["one", "two", "three"]) expect(String(files.get(`project/${name}.txt`))).toBe(`${name}\n`);
    expect(flow("task.json")).toMatchObject(JSON.parse(JSON.stringify(status)) as object);
    const { generatedAt: _at, ...shown } = board;
    expect(flow("board.json")).toMatchObject(JSON.parse(JSON.stringify(shown)) as object);
    expect(listed("events.jsonl")).toEqual(await logOf(service.url, taskID));
    expect(listed("messages.jsonl")).toHaveLength(board.conversation.total);
    expect(listed("ledger.jsonl").filter((entry) => (entry as { kind: string }).kind === "settlement")).toHaveLength(3);
    expect(flow("checks.json")).toEqual([]);
    expect(manifestOf(files)).toMatchObject({ commit: status.git.landedCommit, complete: true });
    const path = join(root.path, "plan.zip");
    writeFileSync(path, Buffer.from(zip));
    expect((await verified(path)).findings.filter(({ state }) => state === "bad")).toEqual([]);
  });

  test("builders at once do not see each other's files; what both changed goes back to the Orchestrator", async () => {
    const told: string[] = [];
    const { taskID, directory } = await begin("clash", {
      orchestrator(turn, request) {
        if (turn === 0)
          return {
            calls: ["left", "right"].map((name) => ({
              tool: "delegate",
              input: { agent: "builder", brief: `Build ${name} [clash]` },
            })),
          };
        told.push(...request.body.messages.filter(({ role }) => role === "tool").map(({ content }) => textOf(content)));
        // What could not be taken over is looked at in the very words of the answer.
        const look = /`(git diff \w+ \w+)`/.exec(told.join("\n"))?.[1] ?? "false";
        return turn === 1
          ? { calls: [{ tool: "shell", input: { command: look } }, write("a.txt", "both\n")] }
          : { text: "Merged by hand." };
      },
      builder(turn, { first }) {
        const name = /Build (\w+)/.exec(first)?.[1] ?? "";
        if (turn === 0) return { calls: [write("a.txt", `${name}\n`), write(`${name}.txt`, "own\n")] };
        return turn === 1
          ? { calls: [{ tool: "shell", input: { command: "cat a.txt; ls" } }] }
          : { text: `Built ${name}.` };
      },
      reviewer: (_turn, request) => judge(request, "accepted"),
    });
    const status = await settledTask(service.url, taskID, 40_000);
    expect(status).toMatchObject({ lifecycleStatus: "completed" });
    const [joined, refused] = told.slice(0, 2).toSorted((a, b) => a.length - b.length);
    expect(joined).toMatch(
      /^Built (left|right)\.\n\n\[What the service saw\]\nFiles it changed: a\.txt \(\+1 -1\), \1\.txt \(\+1 -0\)\.\nCommands it ran:\n- `cat a\.txt; ls` exit 0\n2 changed files joined/,
    );
    expect(refused).toContain("these were changed there too: a.txt.");
    expect(told.slice(2).join("\n")).toMatch(/^-one\n\+(left|right)$/m);
    expect(readText(directory, "a.txt")).toBe("both\n");
    const log = await logOf(service.url, taskID);
    const seen = log
      .flatMap((frame) =>
        frame.type === "tool.finished" && frame.data.tool === "shell"
          ? [outputOf(frame.data.output).split("\n").slice(1).join(" ")]
          : [],
      )
      .filter((output) => !output.startsWith("diff "));
    expect(seen.toSorted()).toEqual(["left a.txt left.txt", "right a.txt right.txt"]);
    const winner = /^Built (\w+)/.exec(joined ?? "")?.[1];
    expect(git(directory, "show", "--format=", "--name-only", "HEAD").split("\n")).toEqual(["a.txt", `${winner}.txt`]);
    // The other's work is not lost: it is a commit on a branch of its own.
    const branch = git(directory, "branch", "--list", `sortie/${taskID}-*`, "--format=%(refname:short)");
    expect(git(directory, "show", "--format=", "--name-only", branch).split("\n")).toHaveLength(2);
  });

  test("an agent whose model is not there has failed; the Orchestrator is told, and goes on", async () => {
    const told: string[] = [];
    const { taskID } = await begin("absent", {
      orchestrator(turn, _request, newest) {
        told.push(newest);
        return turn === 0
          ? { calls: [{ tool: "delegate", input: { agent: "stranger", brief: "Look around [absent]" } }] }
          : { text: "Did without." };
      },
    });
    const status = await settledTask(service.url, taskID);
    expect(status).toMatchObject({ lifecycleStatus: "completed" });
    expect(told[1]).toContain("The agent failed:");
    expect(told[1]).toContain("elsewhere");
    const log = await logOf(service.url, taskID);
    expect(log.flatMap((frame) => (frame.type === "session.ended" ? [frame.data.outcome] : []))).toEqual(["failed"]);
  });

  test("a dropped slice holds nothing; an unknown agent or slice is refused with those that there are", async () => {
    const seen: string[] = [];
    const { taskID } = await begin("refuse", {
      orchestrator(turn, _request, newest) {
        seen.push(newest);
        const [first = ""] = seen.flatMap(slicesIn);
        return (
          [
            { calls: [{ tool: "slice", input: {} }] },
            { calls: [{ tool: "delegate", input: { agent: "nobody", brief: "x" } }] },
            { calls: [{ tool: "delegate", input: { agent: "builder", slices: ["slice_x"], brief: "x" } }] },
            {
              calls: [
                {
                  tool: "slice",
                  input: { plan: [{ slice: "slice_x", title: "y", objective: "y", acceptance: ["y"] }] },
                },
              ],
            },
            { calls: [{ tool: "slice", input: { drop: { slice: first, reason: "nothing to do" } } }] },
          ][turn] ?? { text: "Nothing was to be done." }
        );
      },
    });
    const status = await settledTask(service.url, taskID);
    expect(status).toMatchObject({ lifecycleStatus: "completed", goals: [{ settlement: { state: "dropped" } }] });
    expect(seen[2]).toContain("Expected one of builder, explorer, stranger.");
    expect(seen[3]).toContain("There are no slices slice_x.");
    expect(seen[4]).toContain('There is no slice "slice_x". The plan:');
  });
});

describe("one session", () => {
  test("is interrupted in the middle of a command: it alone ends, whoever delegated hears why, the rest goes on", async () => {
    const results: string[] = [];
    const built = Promise.withResolvers<void>();
    const { taskID, directory } = await begin("branch", {
      orchestrator(turn, { body }) {
        if (turn === 0)
          return {
            calls: ["hang", "work"].map((name) => ({
              tool: "delegate",
              input: { agent: "builder", brief: `Please ${name} [branch]` },
            })),
          };
        results.push(...body.messages.filter(({ role }) => role === "tool").map(({ content }) => textOf(content)));
        return { text: "One of two." };
      },
      async builder(turn, { first }) {
        if (first.includes("hang"))
          return { calls: [{ tool: "shell", input: { command: "echo $$ > pid; sleep 300" } }] };
        if (turn > 0) built.resolve();
        return turn === 0 ? { calls: [write("done.txt", "done\n")] } : { text: "Built." };
      },
      reviewer: (_turn, request) => judge(request, "accepted"),
    });
    await built.promise;
    const at = await until(
      () => statusOf(service.url, taskID),
      ({ sessionInvocationTopology: { nodes } }) => nodes.filter(({ state }) => state === "ended").length === 1,
    );
    const [lead, ...builders] = at.sessionInvocationTopology.nodes;
    const hung = builders.find(({ state }) => state === "running")?.sessionID ?? "";
    const interrupt = (sessionID: string, body?: object) =>
      post(service.url, `/task/${taskID}/session/${sessionID}/interrupt`, directory, body);
    const over = builders.find(({ state }) => state === "ended")?.sessionID ?? "";
    expect((await interrupt(lead?.sessionID ?? "")).body).toMatchObject({ status: 400, code: "invalid_request" });
    expect((await interrupt("ses_0")).body).toMatchObject({ status: 404, code: "session_not_found" });
    expect((await interrupt(over)).body).toMatchObject({ status: 409, code: "session_ended" });
    const before = Date.now();
    expect(await interrupt(hung, { surface: "test", reason: "enough" })).toMatchObject({
      status: 202,
      body: { taskID, sessionID: hung, accepted: true, status: "running", lifecycleStatus: "active" },
    });
    const status = await settledTask(service.url, taskID);
    expect(Date.now() - before).toBeLessThan(10_000);
    expect(status, status.error).toMatchObject({ lifecycleStatus: "completed" });
    expect(results.toSorted()).toEqual([
      "Built.\n\n[What the service saw]\nFiles it changed: done.txt (+1 -0).\n1 changed file joined the Task's.",
      expect.stringContaining("The agent was stopped: It was interrupted by test: enough."),
    ]);
    expect(readText(directory, "done.txt")).toBe("done\n");
    const ends = (await logOf(service.url, taskID)).flatMap((frame) =>
      frame.type === "session.ended" && frame.data.sessionID === hung ? [frame.data] : [],
    );
    expect(ends).toMatchObject([{ outcome: "stopped", reason: "It was interrupted by test: enough." }]);
    // Its command is gone: nothing holds the files of its own any more.
    expect(readdirSync(join(service.dataDir, "worktrees")).filter((name) => name.startsWith(`${taskID}-`))).toEqual([]);
    expect((await interrupt(hung)).body).toMatchObject({ status: 409, code: "session_ended" });
  });
});

describe("a message that interrupts", () => {
  test("cuts what was delegated, so that whoever delegated reads it now", async () => {
    const heard: string[] = [];
    const { taskID, directory } = await begin("cut", {
      orchestrator(turn, { body }) {
        if (turn === 0)
          return { calls: [{ tool: "delegate", input: { agent: "builder", brief: "Take your time [cut]" } }] };
        heard.push(...body.messages.slice(-2).map(({ role, content }) => `${role}: ${textOf(content)}`));
        return { text: "As you say." };
      },
      builder: () => ({ calls: [{ tool: "shell", input: { command: "sleep 300" } }] }),
    });
    await until(
      () => logOf(service.url, taskID),
      (log) => log.some((frame) => frame.type === "tool.started" && frame.data.tool === "shell"),
    );
    const before = Date.now();
    const body = { source: "test", text: "Leave it.", onBusy: "interrupt" };
    expect((await post(service.url, `/task/${taskID}/message`, directory, body)).body).toMatchObject({
      disposition: "interrupted",
    });
    expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
    expect(Date.now() - before).toBeLessThan(10_000);
    expect(heard).toEqual([
      expect.stringContaining("tool: The agent was stopped: It was interrupted by test: a message came in."),
      "user: Leave it.",
    ]);
  });
});

describe("by the built-in rules", () => {
  test("a request that lists three files is three slices, each judged line by line", async () => {
    const block = (name: string) => `\`\`\`txt file=${name}.txt\n${name}\nand more\n\`\`\``;
    const directory = project({ "one.txt": "something else\n" });
    const taskID = await createTask(service.url, directory, {
      model: "builtin/rules-1",
      request: ["one", "two", "three"].map(block).join("\n\n"),
      checks: [{ kind: "command", run: "test -f three.txt" }],
    });
    const status = await settledTask(service.url, taskID, 40_000);
    expect(status).toMatchObject({ lifecycleStatus: "completed" });
    expect(
      status.goals.map(({ contract, review, settlement }) => [
        contract.title,
        contract.acceptance,
        review.notes,
        settlement.state,
      ]),
    ).toEqual(
      ["one", "two", "three"].map((name) => [
        `Write ${name}.txt`,
        [`\`${name}.txt\` is as its block of the request says`],
        `${name}.txt is as its block says, line by line of the diff.`,
        "accepted",
      ]),
    );
    expect(status.sessionInvocationTopology.nodes.map(({ agent: name, model }) => [name, model])).toEqual([
      ["orchestrator", "builtin/rules-1"],
      ["reviewer", "builtin/rules-1"],
    ]);
    expect(readText(directory, "two.txt")).toBe("two\nand more\n");
  });
});
