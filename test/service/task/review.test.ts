import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { git, makeProject, readText, temporary, writeFiles } from "../../harness/project.ts";
import { createTask, logOf, settledTask } from "../../harness/double/hostile-text.ts";
import {
  type MockProvider,
  type MockRequest,
  type MockTurn,
  acceptance,
  partsOf,
  startMockProvider,
  textOf,
} from "../../harness/double/mock-provider.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { agentOf } from "../../harness/double/squads.ts";

/**
 * Reviews over the real wire: what a reviewer is shown, where it looks, and that no missing call fails finished work.
 */

type Say = (turn: number, request: MockRequest) => MockTurn;

const root = temporary("sortie-review-");
let provider: MockProvider;
let service: TestService;
const scripts = new Map<string, { work: Say; review: Say }>();
const reviews: MockRequest[] = [];

const isReview = ({ body }: MockRequest) => body.tools?.some((tool) => tool.function.name === "verdict") === true;

/** A package as the documents show it: its blocks, with what they do not spell out. */
const documented = (): Record<string, string> => {
  const text = readFileSync(new URL("../../../docs/squads.md", import.meta.url), "utf8");
  const block = (from: string): string => {
    const found = text.includes(from) ? /```\w+\n([\s\S]*?)```/.exec(text.slice(text.indexOf(from)))?.[1] : undefined;
    if (found === undefined) throw new Error(`Expected a block after ${from} in docs/squads.md, got none.`);
    return found;
  };
  return {
    "payments/squad.json": block("`squad.json` ("),
    "payments/README.md": "# Payments\n",
    "payments/agents/orchestrator.md": agentOf("orchestrator").replace("[read, shell]", "[read, write]"),
    "payments/agents/reviewer.md": block("`agents/reviewer.md` has front matter"),
    "payments/skills/refunds/SKILL.md":
      "---\nname: refunds\ndescription: How refunds are written here.\n---\n\nTwice.\n",
  };
};

beforeAll(async () => {
  provider = await startMockProvider(
    (request) => {
      if (isReview(request)) reviews.push(request);
      const script = scripts.get(/\[(\w+)\]/.exec(request.first)?.[1] ?? "");
      return (isReview(request) ? script?.review : script?.work)?.(request.turn, request) ?? { text: "Done." };
    },
    { reviews: "script" },
  );
  const data = join(root.path, "data");
  writeFiles(join(data, "squads"), documented());
  const config = join(root.path, "config.jsonc");
  const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
  writeFileSync(config, JSON.stringify({ model: "mock/large", providers, permissions: { ask: ["read(asked.txt)"] } }));
  service = await startService(data, { SERVICE_CONFIG: config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

const write = (path: string, content: string): MockTurn => ({ calls: [{ tool: "write", input: { path, content } }] });
const once =
  (turn: MockTurn): Say =>
  (at) =>
    at === 0 ? turn : { text: "Done." };
const rejected = ({ first }: MockRequest, notes: string): MockTurn => ({
  calls: [{ tool: "verdict", input: { parts: partsOf(first).map((part) => ({ part, verdict: "rejected", notes })) } }],
});

/** Runs a Task to its end; `asked`: the requests of its reviews. */
const run = async (
  name: string,
  script: { work: Say; review: Say },
  { files = { "a.txt": "one\n" }, body = {} }: { files?: Record<string, string>; body?: object } = {},
) => {
  scripts.set(name, script);
  const directory = makeProject(join(root.path, name), files);
  const taskID = await createTask(service.url, directory, { request: `Do it [${name}]`, ...body });
  const status = await settledTask(service.url, taskID);
  return { taskID, directory, status, asked: reviews.filter(({ first }) => first.includes(`[${name}]`)) };
};

const newest = ({ body }: MockRequest): string => textOf(body.messages.at(-1)?.content);
const forced = ({ body }: MockRequest): unknown => body["tool_choice"];
const theCall = { type: "function", function: { name: "verdict" } };

describe("an answer in words", () => {
  test("is asked once more for the call, on the wire too", async () => {
    const { status, asked } = await run("words", {
      work: once(write("b.txt", "two\n")),
      review: (turn, request) => (turn === 0 ? { text: "I think it is fine." } : acceptance(request)),
    });
    expect(status, status.error).toMatchObject({ lifecycleStatus: "completed", usage: { modelCalls: 4 } });
    expect(asked.map(forced)).toEqual([undefined, theCall]);
    expect(asked[1] && newest(asked[1])).toMatch(/Your answer was in words.* one call of `verdict`/);
  });

  test("is asked for in words alone where the provider takes no choice of a tool", async () => {
    const { status, asked } = await run("unchosen", {
      work: once(write("b.txt", "two\n")),
      review: (turn, request) =>
        turn === 0
          ? { text: "Fine." }
          : forced(request) === undefined
            ? acceptance(request)
            : { fail: { status: 400, message: "tool_choice is not supported" } },
    });
    expect(status, status.error).toMatchObject({ lifecycleStatus: "completed" });
    expect(asked.map(forced)).toEqual([undefined, theCall, undefined]);
  });

  test("twice goes back like a rejection, with what is missing; the author's words are judged anew", async () => {
    let silent = true;
    const { status, taskID, asked } = await run("twice", {
      work: (turn) => {
        if (turn === 0) return write("b.txt", "two\n");
        if (turn === 2) silent = false;
        return { text: turn === 2 ? "It needs no test: nothing reads it." : "Done." };
      },
      review: (_turn, request) => (silent ? { text: "Is there no test?" } : acceptance(request)),
    });
    expect(status, status.error).toMatchObject({ lifecycleStatus: "completed" });
    const log = await logOf(service.url, taskID);
    const told = log.flatMap((frame) => (frame.type === "message.received" ? [JSON.stringify(frame.data)] : []));
    expect(told).toHaveLength(1);
    expect(told[0]).toContain('"source":"review"');
    expect(told[0]).toContain("could not be told; this is missing. The reviewer gave no verdict: Is there no test?");
    expect(log.flatMap((frame) => (frame.type === "review.finished" ? [frame.data.verdict] : []))).toEqual([
      "inconclusive",
      "accepted",
    ]);
    expect(asked).toHaveLength(3);
    expect(asked[2]?.first).toContain("It needs no test: nothing reads it.");
  });
});

describe("a reviewer looks", () => {
  test("at the committed tree, outside of the diff, and cannot change it", async () => {
    const looked: string[] = [];
    const { status, asked } = await run(
      "look",
      {
        work: (turn) =>
          turn === 0
            ? {
                calls: [
                  { tool: "write", input: { path: "lib.js", content: "exports.add = (a, b, c) => a + b + c;\n" } },
                  { tool: "write", input: { path: "left.log", content: "add, not committed\n" } },
                  { tool: "write", input: { path: "api/gen/a.js", content: "two\n" } },
                  { tool: "write", input: { path: "made.js", content: "// @generated\ntwo\n" } },
                  { tool: "write", input: { path: "package-lock.json", content: "{}\n" } },
                ],
              }
            : { text: "Done." },
        review: (turn, request) => {
          if (turn === 0)
            return {
              calls: [
                { tool: "search", input: { pattern: "add" } },
                { tool: "list", input: {} },
                { tool: "git", input: { action: "diff" } },
                { tool: "git", input: { action: "log" } },
                { tool: "git", input: { action: "rm", paths: ["lib.js"] } },
                { tool: "write", input: { path: "lib.js", content: "" } },
                { tool: "read", input: { path: "asked.txt" } },
              ],
            };
          looked.push(
            ...request.body.messages.filter(({ role }) => role === "tool").map(({ content }) => textOf(content)),
          );
          return acceptance(request);
        },
      },
      {
        files: {
          "lib.js": "exports.add = (a, b) => a + b;\n",
          "app.js": 'require("./lib").add(1, 2);\n',
          ".gitignore": "*.log\n",
          "asked.txt": "only with permission\n",
          "api/.gitattributes": "gen/** linguist-generated\n",
          "api/gen/a.js": "one\n",
          "made.js": "// @generated\none\n",
        },
      },
    );
    expect(status, status.error).toMatchObject({ lifecycleStatus: "completed" });
    expect(asked).toHaveLength(2);
    const [found, listed, diff, log, removed, written, denied] = looked;
    expect(found).toContain("app.js");
    expect(found).not.toContain("left.log");
    expect(listed).toContain("lib.js");
    expect(listed).not.toContain("left.log");
    expect(diff).toContain("+exports.add = (a, b, c) => a + b + c;");
    expect(log?.split("\n")).toHaveLength(2);
    expect(removed).toContain("The arguments of git are wrong");
    expect(written).toContain('There is no tool "write"');
    expect(denied).toContain("Denied: read asked.txt");
    expect(asked[0]?.first).toContain(
      " lib.js | +1 -1\n api/gen/a.js | +1 -1, generated, not shown\n made.js | +1 -1, generated, not shown\n package-lock.json | new, +1 -0, lock file, not shown\n",
    );
    expect(asked[0]?.first).not.toContain("+two");
    // Nothing that only concerns who edits.
    expect(JSON.stringify(asked[0]?.body.tools)).not.toMatch(/\b(edit|write)\b/);
    expect(asked[0]?.first).toContain("`read`, `list`, `search` and `git` show it, in 5 turns at most");
  });

  test("six turns at most: the last has to be the verdict, and is asked for once more", async () => {
    let count = 0;
    const { status, asked } = await run("turns", {
      work: once(write("b.txt", "two\n")),
      review: (_turn, request) =>
        (count += 1) < 7 ? { calls: [{ tool: "read", input: { path: "a.txt", limit: count } }] } : acceptance(request),
    });
    expect(status, status.error).toMatchObject({ lifecycleStatus: "completed" });
    expect(asked.map(forced)).toEqual([undefined, undefined, undefined, undefined, undefined, theCall, theCall]);
    expect(asked[5] && newest(asked[5])).toContain("Your look-ups are used up.");
    // The sixth was no verdict, and was not run.
    expect(asked[6]?.body.messages.filter(({ role }) => role === "tool")).toHaveLength(5);
  });

  test("and stays within 40,000 tokens", async () => {
    const { asked } = await run("tokens", {
      work: once(write("b.txt", "two\n")),
      review: (_turn, request) => ({
        ...(forced(request) === undefined
          ? { calls: [{ tool: "read", input: { path: "a.txt", limit: request.turn + 1 } }] }
          : acceptance(request)),
        usage: { input: 8_900, output: 100 },
      }),
    });
    expect(asked.map(forced)).toEqual([undefined, undefined, undefined, theCall]);
  });
});

describe("who judges", () => {
  test("gets the verdict whatever its package says: the example of the documents lands", async () => {
    const { status, directory, asked } = await run(
      "payments",
      { work: once(write("NOTES.md", "One line.\n")), review: (_turn, request) => acceptance(request) },
      { body: { promptProfile: "payments" } },
    );
    expect(status, status.error).toMatchObject({ lifecycleStatus: "completed", squad: { id: "payments" } });
    expect(readText(directory, "NOTES.md")).toBe("One line.\n");
    expect(asked).toHaveLength(1);
    expect(textOf(asked[0]?.body.messages[0]?.content)).toContain("You review one change.");
    expect(asked[0]?.body.tools?.map((tool) => tool.function.name)).not.toContain("shell");
  });

  test("whose model cannot be asked costs no round: the Task says so", async () => {
    const { status, directory } = await run("broken", {
      work: once(write("b.txt", "two\n")),
      review: () => ({ fail: { status: 401, message: "no key" } }),
    });
    expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "review_inconclusive" } });
    expect(status.error).toContain("refused the key");
    expect(git(directory, "rev-list", "--count", "HEAD")).toBe("1");
  });

  test("is not blamed for a limit of the Task that cuts the review short: it is no verdict and no round", async () => {
    const { status, taskID, asked } = await run(
      "limited",
      {
        work: once(write("b.txt", "two\n")),
        review: () => ({ calls: [{ tool: "read", input: { path: "a.txt" } }] }),
      },
      { body: { budget: { maxSteps: 3 } } },
    );
    expect(status, status.error).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "budget_reached" } });
    expect(asked).toHaveLength(1);
    const log = await logOf(service.url, taskID);
    expect(log.filter(({ type }) => type === "review.finished" || type === "message.received")).toEqual([]);
    expect(log.flatMap((frame) => (frame.type === "session.ended" ? [frame.data] : []))).toMatchObject([
      { outcome: "stopped", reason: "A limit of the Task was reached." },
    ]);
  });

  test("and rejects what was answered in words only until the rounds are used up", async () => {
    const { status, asked } = await run("stubborn", {
      work: once(write("b.txt", "two\n")),
      review: (_turn, request) => rejected(request, "No test."),
    });
    expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "review_rejected" } });
    expect(asked).toHaveLength(4);
  });

  test("reads a caller's message as theirs, whatever source it names, and it is no round", async () => {
    const { taskID, directory } = await run("source", {
      work: (turn) => (turn % 2 === 0 ? write("b.txt", `${turn}\n`) : { text: "Done." }),
      review: (_turn, request) => acceptance(request),
    });
    const headers = { "content-type": "application/json", "x-service-directory": directory };
    for (const source of ["review", "checks"]) {
      const body = JSON.stringify({ source, text: `Also say three, says ${source}.` });
      const sent = await fetch(`${service.url}/task/${taskID}/message`, { method: "POST", headers, body });
      expect(sent.status).toBe(202);
      expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
    }
    const { messages } = (await (await fetch(`${service.url}/task/${taskID}/messages`)).json()) as {
      messages: { source: string }[];
    };
    expect(messages.map(({ source }) => source)).toEqual(expect.arrayContaining(["review", "checks"]));
    const log = await logOf(service.url, taskID);
    const said = log.flatMap((frame) => (frame.type === "message.received" ? [frame.data] : []));
    expect(said).toMatchObject([
      { source: "review", byUser: true },
      { source: "checks", byUser: true },
    ]);
    const brief = reviews.findLast(({ first }) => first.includes("[source]"))?.first ?? "";
    expect(brief).toMatch(/a message from review.*Also say three, says review\./s);
    expect(brief).toMatch(/a message from checks.*Also say three, says checks\./s);
    expect(brief).not.toContain("what an earlier review found");
  });
});
