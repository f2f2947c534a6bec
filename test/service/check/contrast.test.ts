import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { EventData } from "../../../src/protocol/event/event.ts";
import { makeProject, temporary, writeFiles } from "../../harness/project.ts";
import { createTask, logOf, settledTask } from "../../harness/double/hostile-text.ts";
import {
  acceptance,
  type MockProvider,
  type MockTurn,
  startMockProvider,
  textOf,
} from "../../harness/double/mock-provider.ts";
import { sampleByDay } from "../../harness/night.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { teamOf } from "../../harness/double/squads.ts";
import { unpack } from "../../harness/zip-reader.ts";

/** Proof by contrast in whole Tasks: the tests of a change on its base, in the sandbox, beside the checks. */

const root = temporary("sortie-contrast-");
let provider: MockProvider;
let service: TestService;
const turns = new Map<string, MockTurn[]>();
const briefs = new Map<string, string>();
const told = new Map<string, string>();

beforeAll(async () => {
  provider = await startMockProvider(
    (request) => {
      const all = request.body.messages.map(({ content }) => textOf(content));
      const name = /\[(\w+)\]/.exec(all.join("\n"))?.[1] ?? "";
      if (request.first.startsWith("# What was asked for")) {
        briefs.set(name, request.first);
        return acceptance(request);
      }
      const message = all.find((text) => text.includes("on the code as it was before your work"));
      if (message !== undefined) told.set(name, message);
      return turns.get(name)?.[request.turn] ?? { text: "Done." };
    },
    { reviews: "script" },
  );
  const data = join(root.path, "data");
  writeFiles(join(data, "squads"), teamOf("team", { orchestrator: ["read, write, shell"], reviewer: ["verdict"] }));
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

const testOf = (name: string, body: string, from = "./math.mjs") =>
  `import test from "node:test";\nimport assert from "node:assert";\nimport { add${name === "new" ? ", multiply" : ""} } from "${from}";\n${body}\n`;
const old = {
  "package.json": JSON.stringify({ scripts: { test: "node --test" } }),
  "math.mjs": "export const add = (a, b) => a - b;\n",
  "math.test.mjs": testOf("old", 'test("zero", () => assert.equal(add(0, 0), 0));'),
};
const mended = "export const add = (a, b) => a + b;\n";

const play = async (
  name: string,
  files: Record<string, string>,
  body: Record<string, unknown> = {},
  command?: string,
  more: Record<string, string> = {},
) => {
  const directory = makeProject(join(root.path, name), { ...old, ...more });
  turns.set(name, [
    {
      calls: [
        ...Object.entries(files).map(([path, content]) => ({ tool: "write", input: { path, content } })),
        ...(command === undefined ? [] : [{ tool: "shell", input: { command } }]),
      ],
    },
  ]);
  const taskID = await createTask(service.url, directory, { request: `Mend it [${name}]`, ...body });
  const status = await settledTask(service.url, taskID, 60_000);
  const events = await logOf(service.url, taskID);
  const found = events.filter(({ type }) => type === "contrast.finished");
  const evidence = status.goals[0]?.evidence.find(({ kind }) => kind === "contrast");
  return {
    taskID,
    directory,
    status,
    events,
    found: found.map(({ data }) => data as EventData["contrast.finished"]),
    evidence,
  };
};
const command = "node --test math.test.mjs";
const sum = testOf("old", 'test("sum", () => assert.equal(add(1, 2), 3));');

test("unit tests of Rust cannot be told from the code that they test, and that is said; without them nothing is", async () => {
  const lib = "pub fn add(a: i64, b: i64) -> i64 { a + b }\n";
  const tested = `${lib}#[cfg(test)]\nmod tests { #[test] fn sum() { assert_eq!(super::add(1, 2), 3); } }\n`;
  const { found, evidence } = await play("rust", { "Cargo.toml": '[package]\nname = "x"\n', "src/lib.rs": tested });
  const reason = "unit tests of Rust stand in the files that they test, and cannot be run on the base without them";
  expect(found).toMatchObject([{ result: "cannot-run", reason, command: null }]);
  expect(evidence).toMatchObject({ contrast: { result: "cannot-run", reason } });
  expect((await play("plainrust", { "src/lib.rs": lib })).found).toEqual([]);
});

test("a change of more than 300 files is not looked at, and that is said; one of 300 is", async () => {
  const make = (count: number) =>
    `mkdir many; for n in $(seq ${count}); do echo "export const n = $n;" > many/$n.mjs; done`;
  const many = async (name: string, count: number) =>
    (await play(name, { "math.mjs": mended, "math.test.mjs": sum }, {}, make(count))).found;
  const reason = "the change has more than 300 files";
  expect(await many("many", 299)).toMatchObject([{ result: "cannot-run", reason }]);
  expect(await many("fewer", 298)).toMatchObject([{ result: "proves", reason: null }]);
});

test("on the base the tests have the project's dependencies, whatever the Task did to those that it sees", async () => {
  const installed = {
    ".gitignore": "node_modules\n",
    "node_modules/three/package.json": '{ "name": "three", "main": "index.js" }',
    "node_modules/three/index.js": "module.exports = 3;\n",
  };
  const files = {
    "math.mjs": mended,
    "math.test.mjs": `import three from "three";\n${testOf("old", 'test("sum", () => assert.equal(add(1, 2), three));')}`,
  };
  const change = "echo 'module.exports = 4;' > node_modules/three/index.js && grep -q 4 node_modules/three/index.js";
  const { found, events, evidence, directory } = await play("installed", files, {}, change, installed);
  expect(found).toMatchObject([{ result: "proves", reason: null }]);
  const lines = (evidence as { contrast: { firstLines: string } }).contrast.firstLines;
  expect(lines).toContain("-1 == 3");
  const shells = events.flatMap(({ type, data }) => {
    const call = data as EventData["tool.finished"];
    return type === "tool.finished" && call.tool === "shell" ? [call.outcome] : [];
  });
  expect(shells).toEqual(["ok"]);
  expect(readFileSync(join(directory, "node_modules/three/index.js"), "utf8")).toBe(
    installed["node_modules/three/index.js"],
  );
  // The control: without them the tests do not load, and that proves nothing.
  const { found: without } = await play("absent", files);
  expect(without).toMatchObject([{ result: "cannot-run" }]);
});

test("red on the base and green with the change proves it; what is new there is not taken along", async () => {
  const { taskID, directory, status, events, found, evidence } = await play("proves", {
    // What the change has beside: a helper of the tests goes along, code that is new does not.
    "math.mjs": 'import "./more.mjs";\nexport const add = (a, b) => a + b;\n',
    "more.mjs": "export {};\n",
    "test/helper.mjs": "export const three = 3;\n",
    "math.test.mjs": `import { existsSync } from "node:fs";\nimport { three } from "./test/helper.mjs";\n${testOf("old", 'test("sum", () => assert.equal(add(1, 2), three, existsSync("more.mjs") ? "new code" : "old code"));')}`,
  });
  expect(status.lifecycleStatus).toBe("completed");
  expect(found).toMatchObject([{ result: "proves", command, reason: null, tree: status.git.landedTree }]);
  expect(evidence).toMatchObject({
    summary: `proves the change: \`${command}\` failed on the base, and passes with the change`,
    stale: false,
    contrast: { result: "proves", command, firstLines: "sum\nAssertionError: old code", reason: null },
  });
  expect(briefs.get("proves")).toContain(
    `- contrast: ${evidence?.summary}\n  | on the base: sum\n  | AssertionError: old code\n`,
  );
  // Never before the first request to the model, and before the review.
  const order = events.map(({ type }) => type);
  const at = order.indexOf("contrast.finished");
  expect([at > order.indexOf("reply.finished"), at < order.indexOf("review.finished")]).toEqual([true, true]);
  const zip = await fetch(`${service.url}/task/${taskID}/project-archive?directory=${encodeURIComponent(directory)}`);
  const files = unpack(Buffer.from(await zip.arrayBuffer()));
  expect(String(files.get("execution-flow/ledger.jsonl"))).toContain('"kind":"contrast","result":"proves"');
  expect(String(files.get(`execution-flow/logs/${events[at]?.id}.txt`))).toContain(`--- contrast~base: ${command}`);
  expect([...files.keys()].some((name) => name.startsWith("project/") && name.includes("contrast"))).toBe(false);
});

test("green on both is `same`: told once, and only where a check was red before the work", async () => {
  const weak = testOf("old", 'test("more zero", () => assert.equal(add(0, 0), 0));');
  const check = { kind: "command", run: "node -e 'import(\"./math.mjs\").then((m) => process.exit(m.add(1, 2) - 3))'" };
  const files = { "math.mjs": mended, "math.test.mjs": weak };
  const [red, plain] = await Promise.all([
    play("same", files, { checks: [{ ...check, baseline: true }] }),
    play("plain", files, { checks: [check] }),
  ]);
  for (const { status, found } of [red, plain]) {
    expect(status.lifecycleStatus).toBe("completed");
    expect(found).toMatchObject([{ result: "same", command, firstLines: null }]);
  }
  expect(told.get("same")).toContain(`\`${command}\` also passes on the base`);
  expect(told.has("plain")).toBe(false);
  const asked = red.events.filter(
    ({ type, data }) => type === "message.received" && (data as { source: string }).source === "contrast",
  );
  expect(asked).toHaveLength(1);
});

test("nothing of it is run where the caller says so", async () => {
  const { status, found } = await play("off", { "math.mjs": mended, "math.test.mjs": sum }, { contrast: false });
  expect(status.lifecycleStatus).toBe("completed");
  expect(found).toEqual([]);
});

const made = {
  "math.mjs": `${mended}export const multiply = (a, b) => a * b;\n`,
  "math.test.mjs": testOf(
    "new",
    'test("sum", () => assert.equal(add(1, 2), 3));\ntest("product", () => assert.equal(multiply(2, 3), 6));',
  ),
};
const once = testOf(
  "old",
  'import fs from "node:fs";\ntest("sum", () => {\n  if (fs.existsSync("ran")) return;\n  fs.writeFileSync("ran", "");\n  assert.equal(add(1, 2), 3);\n});',
);
const rules = {
  request: `\`\`\`js file=math.mjs\n${mended}\`\`\`\n\n\`\`\`js file=math.test.mjs\n${sum}\`\`\``,
  model: "builtin/rules-1",
};

type Case = [string, Record<string, string>, Record<string, unknown>, object[]];
const cases: Case[] = [
  ["missing", made, {}, [{ result: "cannot-run", reason: "needs the new code", command }]],
  ["flaky", { "math.mjs": mended, "math.test.mjs": once }, {}, [{ result: "cannot-run", reason: "flaky", command }]],
  ["untested", { "math.mjs": mended }, {}, []],
  ["rules", {}, rules, [{ result: "proves", command }]],
];
test.each(sampleByDay("contrast", cases, 2))("%s", async (name, files, body, expected) => {
  const { status, found } = await play(name, files, body);
  expect(status.lifecycleStatus).toBe("completed");
  expect(found).toMatchObject(expected);
  // Of a test whose subject is new nothing else could come.
  if (name === "missing")
    expect(briefs.get(name)).toMatch(/\n- contrast: cannot tell: the tests need the new code\n(?! {2}\|)/);
});
