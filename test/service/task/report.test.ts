import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTask, settledTask } from "../../harness/double/hostile-text.ts";
import {
  acceptance,
  type MockProvider,
  type MockTurn,
  partsOf,
  startMockProvider,
} from "../../harness/double/mock-provider.ts";
import { git, makeProject, temporary } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/**
 * What stands as a Task's report: what its agent said of the work as it landed, and no answer that tells nothing of it.
 */

const root = temporary("sortie-report-");
let provider: MockProvider;
let service: TestService;
let replies: MockTurn[] = [];
let verdicts: string[] = [];
let briefs: string[] = [];

beforeAll(async () => {
  provider = await startMockProvider(
    (request) => {
      if (!request.first.startsWith("# What was asked for")) return replies[request.turn] ?? { text: "Nothing more." };
      briefs.push(request.first);
      const verdict = verdicts.shift();
      if (verdict === undefined) return acceptance(request);
      const parts = partsOf(request.first).map((part) => ({ part, verdict, notes: "It is not what was asked for." }));
      return { calls: [{ tool: "verdict", input: { parts } }] };
    },
    { reviews: "script" },
  );
  const config = join(root.path, "config.jsonc");
  const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" };
  writeFileSync(config, JSON.stringify({ model: "mock/large", providers: { mock } }));
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

let count = 0;
const play = async (turns: MockTurn[], judged: string[], checks: string[]) => {
  [replies, verdicts, briefs] = [turns, judged, []];
  const directory = makeProject(join(root.path, `project-${(count += 1)}`), { "a.txt": "one\n" });
  const taskID = await createTask(service.url, directory, { request: "Write notes.txt with beta.", checks });
  return { directory, status: await settledTask(service.url, taskID) };
};
const write = (content: string): MockTurn => ({ calls: [{ tool: "write", input: { path: "notes.txt", content } }] });
const end = (text: string): MockTurn => ({ text });

test("after a red check the report is of the mended work, for the record and for the reviewer", async () => {
  const { directory, status } = await play(
    [
      write("alpha\n"),
      end("FIRST: it holds alpha.\n\nCommit: First"),
      write("beta\n"),
      end("SECOND: it holds beta.\n\nCommit: Second"),
    ],
    [],
    ["grep -q beta notes.txt"],
  );
  expect(status).toMatchObject({ lifecycleStatus: "completed" });
  expect(git(directory, "log", "-1", "--format=%s").trim()).toBe("Second");
  expect(status.summary).toContain("SECOND: it holds beta.");
  expect(status.summary).not.toContain("FIRST");
  expect(briefs).toHaveLength(1);
  expect(briefs[0]).toContain("SECOND: it holds beta.");
  expect(briefs[0]).not.toContain("FIRST");
});

test("control: an answer to a reviewer leaves the report as it is, and stands beside it", async () => {
  const { status } = await play(
    [write("beta\n"), end("It holds beta.\n\nCommit: Beta"), end("ANSWER: it does.")],
    ["rejected"],
    ["grep -q beta notes.txt"],
  );
  expect(status).toMatchObject({ lifecycleStatus: "completed" });
  expect(status.summary).toContain("It holds beta.");
  expect(status.summary).not.toContain("ANSWER");
  expect(briefs[1]).toContain("ANSWER: it does.");
});
