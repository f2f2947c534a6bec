import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTask, settledTask } from "../../harness/double/hostile-text.ts";
import {
  acceptance,
  type MockProvider,
  type MockRequest,
  type MockTurn,
  startMockProvider,
  textOf,
} from "../../harness/double/mock-provider.ts";
import { createServiceClient } from "../../../src/client/client.ts";
import { git, makeProject, temporary, until, writeFiles } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** What an author and its reviewer are told as facts, by the words that their models are sent. */

const root = temporary("sortie-told-");
let provider: MockProvider;
let service: TestService;
let turns: MockTurn[] = [];
let briefs: string[] = [];
let requests: MockRequest[] = [];

beforeAll(async () => {
  provider = await startMockProvider(
    (request) => {
      if (request.first.startsWith("# What was asked for")) {
        briefs.push(request.first);
        return acceptance(request);
      }
      requests.push(request);
      return turns[request.turn] ?? { text: "Done.\n\nCommit: Do it" };
    },
    { reviews: "script" },
  );
  const config = join(root.path, "config.jsonc");
  const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
  const limits = { projectCheckSeconds: 0 };
  writeFileSync(config, JSON.stringify({ model: "mock/large", providers, limits }));
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

let count = 0;
const play = async (files: Record<string, string>, script: MockTurn[], request = "Do it.") => {
  const directory = makeProject(join(root.path, `project-${(count += 1)}`), files);
  [turns, briefs, requests] = [script, [], []];
  const status = await settledTask(service.url, await createTask(service.url, directory, { request }));
  expect(status, status.error).toMatchObject({ lifecycleStatus: "completed" });
  const results = (requests.at(-1)?.body.messages ?? []).flatMap(({ role, content }) =>
    role === "tool" ? [textOf(content)] : [],
  );
  return { status, results, brief: briefs.at(-1) ?? "", said: requests.map(({ body }) => body.messages) };
};

const call = (tool: string, input: object) => ({ tool, input });
const shell = (command: string, more: object = {}) => call("shell", { command, ...more });
const edit = (path: string, old: string, fresh: string) => call("edit", { path, edits: [{ old, new: fresh }] });

describe("calls and their answers", () => {
  const lines = Array.from({ length: 60 }, (_, at) => `line ${at + 1}\n`).join("");

  test("arguments that can mean one thing only are taken so; an edit is answered with lines, not with its text", async () => {
    const given = Array.from({ length: 30 }, (_, at) => `given ${at + 1}\n`).join("");
    const { results } = await play({ "a.txt": lines }, [
      {
        calls: [
          call("read", { file: "a.txt", offset: "3", limit: "2" }),
          call("write", { filename: "b.txt", contents: "b\n" }),
          call("edit", { path: "a.txt", old: "line 40\n", new: given }),
          call("edit", { path: "a.txt", edits: '[{"old":"line 9\\n","new":"nine\\n"}]' }),
        ],
      },
    ]);
    expect(results.slice(0, 2)).toEqual([
      expect.stringMatching(/^3\tline 3\n4\tline 4\n(?!5\t)/),
      expect.stringContaining("Created b.txt"),
    ]);
    expect(results[2]).toMatch(/^Replaced 1 match in a\.txt \(\+30 -1\)\.\n37\tline 37\n[^]*40\tgiven 1\n/);
    expect(results[2]).not.toContain("given 15");
    expect(results[3]).toContain("9\tnine");
  });

  test("`status` and `diff` are of the whole Task, staged or not, untracked too; two revisions are compared", async () => {
    const directory = makeProject(join(root.path, "whole"), { "a.txt": "one\n" });
    writeFiles(directory, { "a.txt": "two\n" });
    git(directory, "commit", "--quiet", "--all", "--message=second");
    const own = (action: string, more: object = {}) => call("git", { action, ...more });
    const looks = [own("status"), own("diff"), own("diff", { revision: "HEAD~1 HEAD" })];
    [turns, requests] = [
      [
        {
          calls: [
            call("write", { path: "staged.txt", content: "staged\n" }),
            call("write", { path: "new.txt", content: "new\n" }),
            edit("a.txt", "two", "three"),
            own("add", { paths: ["staged.txt"] }),
          ],
        },
        { calls: looks },
      ],
      [],
    ];
    await settledTask(service.url, await createTask(service.url, directory, { request: "Do it." }));
    const messages = requests.at(-1)?.body.messages ?? [];
    const results = messages.flatMap(({ role, content }) => (role === "tool" ? [textOf(content)] : []));
    const [status, diff, two] = results.slice(4);
    expect(status).toBe("M a.txt\nA new.txt\nA staged.txt");
    for (const line of ["-two", "+three", "+new", "+staged"]) expect(diff?.split("\n")).toContain(line);
    expect(two?.split("\n").filter((line) => /^[-+]\w/.test(line))).toEqual(["-one", "+two"]);
  });
});

describe("calls of one reply, once an edit failed", () => {
  const files = { "a.txt": "one\n", "b.txt": "one\n" };

  test("later commands are not run and say why; later edits are made, and reads answered", async () => {
    const { results, brief } = await play(files, [
      {
        calls: [
          edit("a.txt", "none", "two"),
          shell("touch ran", { proves: "request" }),
          edit("b.txt", "one", "two"),
          call("read", { path: "b.txt" }),
        ],
      },
      { calls: [shell("ls")] },
    ]);
    expect(results[0]).toContain("Expected the text in a.txt, got no match");
    expect(results[1]).toBe(
      "Not run: `edit` before it in the same reply failed, so the files are not what it was meant for. Mend that, and call it again.",
    );
    expect(results[2]).toContain("Replaced 1 match in b.txt");
    expect(results[3]).toContain("two");
    expect(results[4]).not.toContain("ran");
    // What was not run proves nothing.
    expect(brief).not.toContain("touch ran");
  });

  test("control: after an edit that was made, one that left out what changes nothing too, they run", async () => {
    const edits = [
      { old: "one", new: "one" },
      { old: "one", new: "two" },
    ];
    const { results } = await play(files, [
      { calls: [call("edit", { path: "a.txt", edits }), shell("touch ran; cat a.txt; ls")] },
    ]);
    expect(results[0]).toContain("Edit 1 of 2: Left out: its `old` and `new` are the same.");
    expect(results[1]).toContain("two");
    expect(results[1]).toContain("ran");
  });
});

describe("the reviewer's brief", () => {
  test("has the author's report with what it decided, as its words and no evidence; nothing of the commit", async () => {
    const report = "Done in a.txt. Decided for you: two, and not three.";
    const { brief } = await play({ "a.txt": "one\n" }, [
      { calls: [edit("a.txt", "one", "two")] },
      { text: `${report}\n\nCommit: Say two\nBecause it is.` },
    ]);
    expect(brief).toContain(
      `\n# What the author reports, which proves nothing; what it decided where the request left it open is yours to judge\n\n<data from="the author's report">\n${report}\n</data>\n\n# The changed files`,
    );
    expect(brief).not.toContain("Say two");
  });

  test("has the answer to a question among what was said later, with the question", async () => {
    const asked = { question: "Which number?", options: ["two", "three"] };
    const directory = makeProject(join(root.path, "asked"), { "a.txt": "one\n" });
    turns = [{ calls: [call("ask", asked)] }, { calls: [edit("a.txt", "one", "two")] }];
    [briefs, requests] = [[], []];
    const taskID = await createTask(service.url, directory, { request: "Do it." });
    const client = createServiceClient({ baseUrl: service.url, directory });
    const { data: waiting } = await until(
      () => client.task.status({ path: { taskID } }),
      ({ data }) => (data?.pending.length ?? 0) > 0,
    );
    const askID = waiting?.pending[0]?.id ?? "";
    await client.task.answer({ path: { taskID, askID }, body: { answer: "two, please", source: "test" } });
    expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
    expect(briefs[0]).toMatch(
      /later words win[^]*<data from="the answer to a question of the author">\nThe author asked: Which number\?\n[^]*two, please\n<\/data>[^]*\n# Part 1/,
    );
  });

  test("says one error once, however many commands ended in it; counts stand with each", async () => {
    const failing = (more: string) =>
      shell(`echo '${more}'; echo 'Error: the port 4711 is taken'; echo '# pass 3'; echo '# fail 1'; exit 1`, {
        proves: "request",
      });
    const { brief } = await play({ "a.txt": "one\n" }, [
      { calls: [edit("a.txt", "one", "two")] },
      { calls: [failing("first"), failing("second"), failing("third")] },
    ]);
    const output = brief.split("\n").filter((line) => line.startsWith("  | "));
    expect(output.filter((line) => line.includes("the port 4711"))).toHaveLength(1);
    expect(output.filter((line) => line.endsWith("as above"))).toHaveLength(2);
    expect(output.filter((line) => line.includes("# fail 1"))).toHaveLength(3);
    // Control: other errors of the same kind stand whole.
    const other = await play({ "a.txt": "one\n" }, [
      { calls: [edit("a.txt", "one", "two")] },
      { calls: [1, 2].map((port) => shell(`echo 'Error: the port ${port} is taken'; exit 1`, { proves: "request" })) },
    ]);
    expect(other.brief).toContain("  | Error: the port 1 is taken\n");
    expect(other.brief).toContain("  | Error: the port 2 is taken\n");
    expect(other.brief).not.toContain("as above");
  });
});

describe("the prompts", () => {
  const systemOf = (named: string) =>
    requests.flatMap(({ body: { messages } }) => {
      const system = textOf(messages[0]?.content);
      return system.startsWith(named) ? [system] : [];
    })[0] ?? "";

  test("say of commands and of commits once what holds for this Task, and nothing else beside it", async () => {
    const files = { "a.txt": "one\n", "package.json": JSON.stringify({ scripts: { test: "true" } }) };
    await play(files, [
      {
        calls: [
          call("delegate", { agent: "explorer", brief: "Look." }),
          call("delegate", { agent: "builder", brief: "Wait." }),
        ],
      },
    ]);
    const [lead, explorer, builder] = ["You are the engineer", "You find something", "You build one"].map(systemOf);
    for (const system of [lead, explorer, builder]) {
      expect(system).toMatch(/Commands run in bash, without a network, for \d+ s/);
      expect(system).not.toMatch(/may lack the network|a time limit|by (itself|themselves) when/);
    }
    for (const system of [lead, builder]) expect(system).toContain("that is the service's part");
    // Who only reads has no work that is checked.
    expect(explorer).toContain("The project's own commands: test = `npm test`.");
    expect(explorer).not.toMatch(/The service runs them|Prove by other|Commit: /);
  });
});

describe("an answer that changes nothing", () => {
  const files = { "src/a.js": "1;\n2;\n", "src/b.js": "1;\n", "README.md": "# It\n" };
  const told = (said: Awaited<ReturnType<typeof play>>["said"]) =>
    (said.at(-1) ?? []).flatMap(({ role, content }) =>
      role === "user" && textOf(content).includes("your answer cites") ? [textOf(content)] : [],
    );

  test("that cites what nobody has opened, and lines that are not there: the agent is told once, and answers again", async () => {
    const first = "It is so: src/a.js:2, src/b.js:1, src/a.js:40-44. See localhost:8080, none.js:3.";
    const { status, said } = await play(files, [
      { calls: [call("read", { path: "src/a.js" }), call("list", { path: "src" })] },
      { text: first },
      { text: "It is otherwise: src/a.js:1. And README.md:1." },
    ]);
    expect(told(said)).toEqual([
      "The service looked at the places that your answer cites. These are in files that no call of this Task has opened or found: src/b.js:1. These lines are not there: src/a.js:44 (it has 2 lines).\n\nLook at them, and give your whole answer again, mended where they do not say what you cite them for.",
    ]);
    // The second answer is the result, and is not asked about again.
    expect(status.summary).toBe("It is otherwise: src/a.js:1. And README.md:1.");
    expect(said).toHaveLength(3);
  });

  test("control: one whose sources were read, found or printed is the result at once", async () => {
    const { status, said } = await play(files, [
      {
        calls: [
          call("read", { path: "src/a.js" }),
          call("search", { pattern: "1;" }),
          shell("cd . && head -1 README.md"),
        ],
      },
      { text: "So: src/a.js:2, src/b.js:1, README.md:1." },
    ]);
    expect(told(said)).toEqual([]);
    expect(said).toHaveLength(2);
    expect(status.summary).toContain("So: ");
  });
});
