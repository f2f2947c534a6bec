import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createLog } from "../../../src/log.ts";
import { browserHere, countBlind } from "../../harness/browser.ts";
import { at, createTask, logOf, makeLab, post, settledTask, statusOf } from "../../harness/double/hostile-text.ts";
import type { MockTurn } from "../../harness/double/mock-provider.ts";
import { entriesOf } from "../../harness/entries.ts";
import { git, makeProject } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { textsIn } from "../../harness/texts.ts";

/**
 * A project whose tests and page need a secret: the proof by contrast, the checks that look at a page, and captures
 * have it as the base commit or the operator defines them, and it is seen nowhere.
 */

const canary = `canary-${randomBytes(24).toString("hex")}`;

const testOf = (body: string) => `import test from "node:test";
import assert from "node:assert";
import { add } from "./math.mjs";
const given = process.env.DB_PASSWORD ?? "";
console.log("the password is", given);
test("there is a database", () => assert.equal(given.length, ${canary.length}));
${body}
`;
/** Serves with the secret alone, and says so; loads what an agent may have left in an ignored folder. */
const server = `import { createServer } from "node:http";
import { existsSync } from "node:fs";
const given = process.env.DB_PASSWORD ?? "";
console.log("the password is", given);
if (existsSync("made/left.mjs")) console.log("something was left here");
if (given.length !== ${canary.length}) process.exit(1);
createServer((request, response) => {
  if (request.url === "/gone") return response.writeHead(404).end("no");
  response.writeHead(200, { "content-type": "text/html" }).end("<title>t</title>a page for " + given.slice(0, 6) + " " + given);
}).listen(Number(process.env.PAGE_PORT), "127.0.0.1");
`;
const manifest = (scripts: object = {}) =>
  JSON.stringify({
    scripts: { test: "node --test", start: "node server.mjs", page: "node server.mjs", leak: "env", ...scripts },
  });
const files = {
  "package.json": manifest(),
  "math.mjs": "export const add = (a, b) => a - b;\n",
  "math.test.mjs": testOf('test("zero", () => assert.equal(add(0, 0), 0));'),
  "server.mjs": server,
  ".gitignore": "made/\n",
};
/** Its failure on the base has the secret in the report. */
const sum = testOf('test("sum", () => assert.equal(add(1, 2), 3, `not with ${given}`));');
const mended = "export const add = (a, b) => a + b;\n";
const port = 19_400 + (process.pid % 400);
const url = `http://127.0.0.1:${port}/`;

let lab: Awaited<ReturnType<typeof makeLab>>;
let service: TestService;
let shop: string;
let plain: string;
let logFile: string;
beforeAll(async () => {
  lab = await makeLab({ previewSeconds: 20, checkRounds: 0 });
  [shop, plain] = [makeProject(lab.folder(), files), makeProject(lab.folder(), files)];
  mkdirSync(join(lab.root, "data"));
  const secretFile = join(lab.root, "db-password");
  writeFileSync(secretFile, `${canary}\n`);
  const config = JSON.parse(readFileSync(lab.config, "utf8")) as object;
  const variables = { PAGE_PORT: String(port) };
  writeFileSync(
    lab.config,
    JSON.stringify({
      ...config,
      secretStore: { DB_PASSWORD: `file:${secretFile}` },
      environments: {
        [shop]: { secrets: ["DB_PASSWORD"], variables, shell: ["npm run page"] },
        [plain]: { variables },
      },
    }),
  );
  logFile = join(lab.root, "log");
  service = await startService(
    join(lab.root, "data"),
    { SERVICE_CONFIG: lab.config },
    undefined,
    createLog("debug", logFile),
  );
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await lab[Symbol.asyncDispose]();
});

const call = (tool: string, input: object): MockTurn => ({ calls: [{ tool, input }] });
const write = (path: string, content: string): MockTurn => call("write", { path, content });
const mend = [write("math.mjs", mended), write("math.test.mjs", sum)];

/** Where the secret stands: in nothing that people, models or disks get. */
const sweep = async (taskID: string, directory: string): Promise<string[]> => {
  const archive = Buffer.from(
    await (await fetch(`${service.url}${at(`/task/${taskID}/project-archive`, directory)}`)).arrayBuffer(),
  );
  const entries = entriesOf(archive).map((entry) => [entry.path, entry.read().toString("latin1")] as const);
  expect(entries.length).toBeGreaterThan(3);
  const outlets: (readonly [string, string])[] = [
    ["events", JSON.stringify(await logOf(service.url, taskID))],
    ["status", JSON.stringify(await statusOf(service.url, taskID))],
    ["prompts", JSON.stringify(lab.provider.requests.map(({ body }) => body))],
    ["landed", git(directory, "log", "-p", "--all")],
    ...entries.map(([path, entry]) => [`archive ${path}`, entry] as const),
    ...textsIn(service.dataDir),
    ["log", readFileSync(logFile, "latin1")],
  ];
  // The control: the secret was printed, and is there by its name.
  expect(outlets.some(([, one]) => one.includes("[redacted:secret-DB_PASSWORD]"))).toBe(true);
  return outlets.filter(([, one]) => one.includes(canary)).map(([name]) => name);
};

const play = async (directory: string, turns: MockTurn[], body: object = {}) => {
  const taskID = await createTask(service.url, directory, { ...lab.request(turns), landing: "branch", ...body });
  const status = await settledTask(service.url, taskID, 80_000);
  const log = await logOf(service.url, taskID);
  const contrasts = log.flatMap(({ type, data }) => (type === "contrast.finished" ? [data] : []));
  const logOfCheck = async (id: string) =>
    (await fetch(`${service.url}${at(`/task/${taskID}/checks/${id}/log`, directory)}`)).text();
  return { taskID, status, log, contrasts, logOfCheck };
};

test("the proof by contrast has the secret on both sides; without it, the control, it proves nothing", {
  timeout: 90_000,
}, async () => {
  const { taskID, status, contrasts } = await play(shop, mend);
  expect(status.lifecycleStatus).toBe("completed");
  expect(contrasts).toMatchObject([{ result: "proves", command: "node --test math.test.mjs", reason: null }]);
  expect(contrasts[0]?.firstLines).toContain("not with [redacted:secret-DB_PASSWORD]");
  expect(await sweep(taskID, shop)).toEqual([]);
  const without = await play(plain, mend, { checks: [{ kind: "command", run: "true" }] });
  expect(without.contrasts).toMatchObject([{ result: "cannot-run" }]);
});

test("what starts the tests with the secret is what the base says, whatever the work makes of it", {
  timeout: 90_000,
}, async () => {
  const spied = [
    write("package.json", manifest({ test: "node --import ./spy.mjs --test" })),
    write("spy.mjs", 'console.log("spied", (process.env.DB_PASSWORD ?? "").length);\n'),
  ];
  const { contrasts } = await play(shop, [...mend, ...spied]);
  expect(contrasts).toMatchObject([{ result: "proves", command: "node --test math.test.mjs" }]);
  // The control: without secrets the project's own script counts as the work has it.
  const files_ = { ...files, "math.test.mjs": files["math.test.mjs"].replace(String(canary.length), "0") };
  const free = makeProject(lab.folder(), files_);
  const zero = sum.replace(String(canary.length), "0");
  const control = await play(free, [mend[0] as MockTurn, write("math.test.mjs", zero), ...spied]);
  expect(control.contrasts).toMatchObject([{ command: "node --import ./spy.mjs --test math.test.mjs" }]);
});

const pageChecks = (start: string, more: object = {}) => [
  { kind: "http", id: "page", start, url, timeoutSeconds: 20, ...more },
];

test("a page's server has it where the base serves or the operator says so, and no caller's command has", {
  timeout: 120_000,
}, async () => {
  const changed = [
    write("package.json", manifest({ start: "node other.mjs", page: "node other.mjs" })),
    write("other.mjs", `import "./server.mjs";\nconsole.log("another server");\n`),
  ];
  const stateOf = async (start: string, more: object = {}, turns: MockTurn[] = [write("a.txt", "a")]) => {
    const { status, logOfCheck } = await play(shop, turns, { checks: pageChecks(start, more) });
    return [status.checks?.[0]?.state, await logOfCheck("page")] as const;
  };
  const [own, text] = await stateOf("npm start");
  expect([own, text]).toEqual(["passed", expect.stringContaining("the password is [redacted:secret-DB_PASSWORD]")]);
  // What the check shows of the answer, too.
  expect(text).toContain("a page for canary [redacted:secret-DB_PASSWORD]");
  const [redefined, asBefore] = await stateOf("npm start", {}, changed);
  expect([redefined, asBefore.includes("another server")]).toEqual(["passed", false]);
  expect((await stateOf("npm run page", {}, changed))[0]).toBe("passed");
  for (const start of [
    "node server.mjs",
    "npm start && true",
    "npm start -- --inspect",
    "npm run leak",
    "npm run pages",
  ])
    expect([start, ...(await stateOf(start))]).toEqual([start, "failed", expect.not.stringContaining("redacted")]);
  expect((await stateOf("npm start", { env: { NODE_OPTIONS: "--import=./spy.mjs" } }))[0]).toBe("failed");
});

if (browserHere === undefined) countBlind(1);
test.runIf(browserHere !== undefined)(
  "a capture starts it likewise, among no agent's leftovers, and its failure does not tell it",
  { timeout: 120_000 },
  async () => {
    const left = call("shell", { command: "mkdir made; echo > made/left.mjs" });
    const capture = async (directory: string, start: string, body: object = {}) => {
      const checks = pageChecks(start, { required: false });
      const { taskID } = await play(directory, [write("a.txt", "a"), left], { checks });
      const answer = await post(service.url, `/task/${taskID}/preview/capture`, directory, body);
      expect(existsSync(join(service.dataDir, "worktrees", `${taskID}.checkout`))).toBe(false);
      return { taskID, answer, text: JSON.stringify(answer.body) };
    };
    const taken = await capture(shop, "npm start");
    expect(taken.answer.status).toBe(200);
    const gone = await capture(shop, "npm start", { url: `${url}gone` });
    expect([gone.answer.status, gone.answer.body["code"]]).toEqual([422, "preview_failed"]);
    expect(gone.text).toContain("the password is [redacted:secret-DB_PASSWORD]");
    expect(gone.text).not.toContain("something was left here");
    for (const { taskID, text } of [taken, gone]) {
      expect(text).not.toContain(canary);
      expect(await sweep(taskID, shop)).toEqual([]);
    }
    // The controls: a caller's own command has none, and runs where the agent worked.
    const other = await capture(shop, "node server.mjs");
    expect([other.answer.status, other.text.includes("something was left here")]).toEqual([422, true]);
    expect(other.text).not.toContain("redacted");
    expect((await capture(plain, "npm start")).answer.status).toBe(422);
  },
);
