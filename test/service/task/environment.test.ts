import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { loadConfig } from "../../../src/config/config.ts";
import { createLog } from "../../../src/log.ts";
import { packageRoot } from "../../../src/package-root.ts";
import { requestsOf, setGrant } from "../../../src/service/trust.ts";
import { at, createTask, logOf, makeLab, post, settledTask, statusOf } from "../../harness/double/hostile-text.ts";
import type { MockTurn } from "../../harness/double/mock-provider.ts";
import { entriesOf } from "../../harness/entries.ts";
import { git, makeProject, until } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { textsIn } from "../../harness/texts.ts";

/**
 * What the commands of one project get: setup, variables and secrets, by the operator's configuration or by a file that
 * the operator has granted; and where a secret goes, and where it does not.
 */

const canary = `canary-${randomBytes(24).toString("hex")}`;
const other = `canary-${randomBytes(24).toString("hex")}`;

/** Its test passes with the secret alone, prints it, and takes so long that its process can be looked at. */
const files = {
  "package.json": JSON.stringify({ scripts: { test: "node test.js", leak: "env" } }),
  "test.js": `const given = process.env.DB_PASSWORD ?? "";
console.log("the password is", given, "of", process.env.FLAVOUR);
require("fs").existsSync("slow") ? setTimeout(() => process.exit(given.length === ${canary.length} ? 0 : 1), 1500) : process.exit(given.length === ${canary.length} ? 0 : 1);
`,
  ".gitignore": "made/\n",
};
const setup = `mkdir -p made; printf '%s' "\${#DB_PASSWORD}" > made/length; echo "set up with $DB_PASSWORD"`;

/** An MCP server whose tool gives its environment. */
const shows = (env: object) => ({
  command: process.execPath,
  args: [join(packageRoot, "test/fixtures/mcp/hostile.mjs"), "shows"],
  env,
});

let lab: Awaited<ReturnType<typeof makeLab>>;
let service: TestService;
let shop: string;
let lacking: string;
let reading: string;
let prying: string;
let logFile: string;
beforeAll(async () => {
  lab = await makeLab();
  shop = makeProject(lab.folder(), files);
  lacking = makeProject(lab.folder(), files);
  [reading, prying] = [makeProject(lab.folder(), { "a.txt": "a" }), makeProject(lab.folder(), { "a.txt": "a" })];
  for (const folder of ["shared", "data"]) mkdirSync(join(lab.root, folder));
  writeFileSync(join(lab.root, "shared/set.csv"), "from the shared folder\n");
  const secretFile = join(lab.root, "db-password");
  writeFileSync(secretFile, `${canary}\n`);
  const config = JSON.parse(readFileSync(lab.config, "utf8")) as object;
  writeFileSync(
    lab.config,
    JSON.stringify({
      ...config,
      sandbox: { paths: [packageRoot] },
      mcpServers: { given: shows({ TOKEN: "secret:API_TOKEN" }), other: shows({}) },
      secretStore: {
        DB_PASSWORD: `file:${secretFile}`,
        API_TOKEN: { command: ["printf", "%s\n", other] },
        NOWHERE: `file:${join(lab.root, "nothing")}`,
      },
      environments: {
        [shop]: {
          setup,
          variables: { FLAVOUR: "vanilla" },
          secrets: ["DB_PASSWORD", "API_TOKEN"],
          shell: ["npm test"],
          limits: { commandSeconds: 77 },
        },
        [reading]: { paths: [join(lab.root, "shared")] },
        [prying]: { paths: [join(lab.root, "data")] },
        [lacking]: { secrets: ["NOWHERE"] },
      },
    }),
  );
  logFile = join(lab.root, "log");
  service = await startService(
    join(lab.root, "data"),
    // As where somebody starts it with `npx` in the project, which puts a folder of it first.
    { SERVICE_CONFIG: lab.config, PATH: `${join(shop, "bin")}:${process.env["PATH"] ?? ""}` },
    undefined,
    createLog("debug", logFile),
  );
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await lab[Symbol.asyncDispose]();
});

const call = (tool: string, input: object): MockTurn => ({ calls: [{ tool, input }] });
const shell = (command: string, more: object = {}) => call("shell", { command, ...more });

const resultsOf = async (taskID: string) => {
  const log = await logOf(service.url, taskID);
  return log.flatMap(({ type, data }) =>
    type === "tool.finished" ? [typeof data.output === "string" ? data.output : JSON.stringify(data)] : [],
  );
};

/** Command lines and environments of this machine's processes that have a text. */
const processesWith = (text: string) => {
  const found = { lines: [] as string[], environments: 0 };
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name)))
    try {
      const line = readFileSync(join("/proc", pid, "cmdline"), "latin1");
      if (line.includes(text)) found.lines.push(line);
      if (readFileSync(join("/proc", pid, "environ"), "latin1").includes(text)) found.environments += 1;
    } catch {}
  return found;
};

test("a secret reaches the setup, the project's check, and the command that the operator named; it is seen nowhere", {
  timeout: 90_000,
}, async () => {
  const turns = [
    shell("cat made/length; echo; echo [$DB_PASSWORD] [$FLAVOUR]"),
    shell("npm test; env"),
    shell("npm run leak"),
    shell("npm test"),
    shell("npm test", { cwd: "made" }),
    call("write", { path: "b.txt", content: "b\n" }),
    call("write", { path: "slow", content: "" }),
  ];
  const taskID = await createTask(service.url, shop, { ...lab.request(turns), landing: "branch" });
  const watched = { lines: [] as string[], environments: 0 };
  const watching = setInterval(() => {
    const { lines, environments } = processesWith(canary);
    watched.lines.push(...lines);
    watched.environments = Math.max(watched.environments, environments);
  }, 200);
  const ended = await settledTask(service.url, taskID, 80_000).finally(() => clearInterval(watching));
  expect(ended.lifecycleStatus).toBe("completed");
  const log = await logOf(service.url, taskID);
  const text = JSON.stringify(log);
  const [first = "", withEnv = "", leak = "", named = "", elsewhere = ""] = await resultsOf(taskID);
  expect(first).toContain(`${canary.length}\n[] [vanilla]`);
  expect(withEnv).toContain("Exit code 0");
  expect(withEnv).not.toContain("redacted");
  expect(leak).not.toContain("redacted");
  expect(named).toContain("the password is [redacted:secret-DB_PASSWORD] of vanilla");
  expect(named).toContain("Exit code 0");
  expect(elsewhere).not.toContain("redacted");
  const checks = log.flatMap(({ type, data }) => (type === "check.finished" ? [[data.on, data.state]] : []));
  expect(checks).toContainEqual(["work", "passed"]);
  expect(text).toContain('"environment.given"');

  // The control: it was there to be seen.
  expect(watched.environments).toBeGreaterThan(0);
  expect(watched.lines).toEqual([]);
  const archive = Buffer.from(
    await (await fetch(`${service.url}${at(`/task/${taskID}/project-archive`, shop)}`)).arrayBuffer(),
  );
  const entries = entriesOf(archive).map((entry) => [entry.path, entry.read().toString("latin1")] as const);
  expect(entries.length).toBeGreaterThan(3);
  const outlets: (readonly [string, string])[] = [
    ["events", text],
    ["status", JSON.stringify(await statusOf(service.url, taskID))],
    ["prompts", JSON.stringify(lab.provider.requests.map(({ body }) => body))],
    ["landed", git(shop, "log", "-p", "--all")],
    ...entries.map(([path, entry]) => [`archive ${path}`, entry] as const),
    ...textsIn(service.dataDir),
    ["log", readFileSync(logFile, "latin1")],
  ];
  expect(outlets.filter(([, one]) => one.includes(canary) || one.includes(other)).map(([name]) => name)).toEqual([]);
  expect(outlets.filter(([, one]) => one.includes("[redacted:secret-DB_PASSWORD]")).length).toBeGreaterThan(2);
});

test("a program of the tree is none that the operator named; without secrets, the control, it runs", {
  timeout: 60_000,
}, async () => {
  const turns = [
    call("write", { path: "bin/npm", content: '#!/bin/sh\necho "not npm: [$DB_PASSWORD]"\n' }),
    shell("chmod +x bin/npm"),
    shell("npm test"),
    shell("npm test "),
    shell("npm run test"),
  ];
  const taskID = await createTask(service.url, shop, { ...lab.request(turns), landing: "branch", checks: [] });
  await settledTask(service.url, taskID, 50_000);
  const [, , named, spaced, other = ""] = await resultsOf(taskID);
  expect(named).toContain("the password is [redacted:secret-DB_PASSWORD]");
  expect(spaced).toContain("the password is [redacted:secret-DB_PASSWORD]");
  expect(other).toContain("not npm: []");
});

test("a check whose definition the work has changed runs as before with the secret, and not as changed", {
  timeout: 60_000,
}, async () => {
  const changed = JSON.stringify({ scripts: { test: "node test.js && env > /dev/null && echo changed" } });
  const turns = [call("write", { path: "package.json", content: changed })];
  const taskID = await createTask(service.url, shop, { ...lab.request(turns), landing: "branch" });
  await settledTask(service.url, taskID, 50_000);
  const log = await logOf(service.url, taskID);
  const work = log.flatMap(({ type, data }) => (type === "check.finished" && data.on === "work" ? [data] : []));
  expect(work.at(-1)).toMatchObject({ state: "passed", redefined: ["package.json (scripts.test)"] });
  const output = await fetch(`${service.url}${at(`/task/${taskID}/checks/${work.at(-1)?.checkID}/log`, shop)}`);
  expect(output.status).toBe(200);
  expect(await output.text()).toMatch(/^(?!.*changed)[^]*the password is \[redacted/);
});

test("a change with a secret in a file goes back, and does not land", { timeout: 60_000 }, async () => {
  // The test that the operator named writes it down, as one with snapshots does.
  const test_ = `require("fs").writeFileSync("kept.txt", "x".repeat(70000) + process.env.DB_PASSWORD);`;
  const turns = [
    call("write", { path: "test.js", content: test_ }),
    shell("npm test"),
    { text: "Done." },
    shell("rm kept.txt; echo more > more.txt"),
  ];
  const taskID = await createTask(service.url, shop, { ...lab.request(turns), landing: "branch", checks: [] });
  const ended = await settledTask(service.url, taskID, 50_000);
  const log = await logOf(service.url, taskID);
  const denied = log.flatMap(({ type, data }) => (type === "change.denied" ? [data.files] : []));
  expect(denied).toEqual([
    [{ path: "kept.txt", rule: expect.stringContaining("the secret DB_PASSWORD") as string, origin: "service" }],
  ]);
  expect(ended.lifecycleStatus).toBe("completed");
  const branch = ended.landingBranch ?? "";
  expect(git(shop, "diff", "--name-only", "HEAD", branch).trim()).toBe("more.txt\ntest.js");
  expect(git(shop, "log", "-p", "--all").includes(canary)).toBe(false);
});

test("a caller's check is not the project's: it has no secret", { timeout: 60_000 }, async () => {
  const checks = [
    { kind: "command", run: 'test -z "$DB_PASSWORD" && test "$FLAVOUR" = vanilla' },
    { kind: "command", run: "npm test", env: { NODE_OPTIONS: "--require ./spy.js" }, required: false },
    { kind: "command", run: "npm test" },
  ];
  const turns = [call("write", { path: "b.txt", content: "c\n" })];
  const taskID = await createTask(service.url, shop, { ...lab.request(turns), landing: "branch", checks });
  const ended = await settledTask(service.url, taskID, 50_000);
  expect(ended.checks?.map(({ state }) => state)).toEqual(["passed", "failed", "passed"]);
});

test("an MCP server that names a secret has it, and no other has", { timeout: 60_000 }, async () => {
  const turns = [call("mcp__given__do", {}), call("mcp__other__do", {})];
  const taskID = await createTask(service.url, shop, { ...lab.request(turns), checks: [] });
  await settledTask(service.url, taskID, 50_000);
  const [given = "", none = ""] = await resultsOf(taskID);
  expect(given).toContain("[redacted:secret-API_TOKEN]");
  expect(given).not.toContain("DB_PASSWORD");
  expect(none).toContain("FLAVOUR");
  expect(none).not.toContain("redacted");
});

test("a secret that cannot be had ends the Task at once, by name", { timeout: 30_000 }, async () => {
  const taskID = await createTask(service.url, lacking, lab.request([]));
  const ended = await settledTask(service.url, taskID);
  expect(ended).toMatchObject({
    lifecycleStatus: "failed",
    errorInfo: { code: "environment_unavailable" },
    error: expect.stringContaining("NOWHERE") as string,
  });
});

test("further folders are read and not written, by that project alone; the service's data is refused", {
  timeout: 60_000,
}, async () => {
  const set = join(lab.root, "shared/set.csv");
  const turns = [shell(`cat ${set}; ls -A ${lab.root}`), shell(`echo more >> ${set}`)];
  const outputsIn = async (directory: string) => {
    const taskID = await createTask(service.url, directory, { ...lab.request(turns), checks: [] });
    await settledTask(service.url, taskID);
    return resultsOf(taskID);
  };
  const [read, wrote] = await outputsIn(reading);
  expect(read).toContain("from the shared folder\n");
  // Nothing beside it, not even by its name.
  expect(read).not.toMatch(/config\.jsonc|db-password/);
  expect(wrote).toContain("Read-only file system");
  expect((await outputsIn(shop))[0]).toContain("No such file");
  expect(readFileSync(set, "utf8")).toBe("from the shared folder\n");
  const taskID = await createTask(service.url, prying, { ...lab.request([]), checks: [] });
  expect(await settledTask(service.url, taskID)).toMatchObject({
    errorInfo: { code: "environment_unavailable" },
    error: expect.stringContaining("the service's own data is there") as string,
  });
});

const grant = async (directory: string) => {
  const config = loadConfig({ dataDir: service.dataDir }, { PATH: process.env["PATH"] ?? "", HOME: service.dataDir });
  const found = (await requestsOf(config, directory)).find(({ file }) => file === ".sortie/environment.jsonc");
  setGrant(service.dataDir, found?.project ?? "", found?.digest ?? "", ".sortie/environment.jsonc");
};

test("a project's own file has an effect once it is granted, and none after a change or in another project", {
  timeout: 90_000,
}, async () => {
  const asks = (word: string) =>
    `// As the tests need it.\n${JSON.stringify({ setup: `mkdir made; echo ${word} > made/it`, variables: { WORD: word }, secrets: ["DB_PASSWORD"] })}`;
  const project = () => makeProject(lab.folder(), { ...files, ".sortie/environment.jsonc": asks("blue") });
  const directory = project();
  const seen = async (where: string) => {
    const turns = [shell("echo [$WORD][$DB_PASSWORD]; cat made/it 2>/dev/null || true")];
    const taskID = await createTask(service.url, where, { ...lab.request(turns), checks: [] });
    await settledTask(service.url, taskID);
    const log = await logOf(service.url, taskID);
    const given = log.flatMap(({ type, data }) => (type === "environment.given" ? [data.granted] : []));
    return { given, output: (await resultsOf(taskID))[0]?.split("\n\n")[0]?.split("\n").slice(1) };
  };
  const before = await seen(directory);
  expect(before).toMatchObject({ given: [false], output: ["[][]"] });
  await grant(directory);
  expect(await seen(directory)).toMatchObject({ given: [true], output: ["[blue][]", "blue"] });
  expect(await seen(project())).toMatchObject({ given: [false], output: ["[][]"] });
  writeFileSync(join(directory, ".sortie/environment.jsonc"), `${asks("blue")}\n`);
  expect(await seen(directory)).toMatchObject({ given: [false], output: ["[][]"] });
  writeFileSync(join(directory, ".sortie/environment.jsonc"), "{ nonsense");
  expect(await seen(directory)).toMatchObject({ given: [false], output: ["[][]"] });
});

test("a follow-up has what was granted meanwhile", { timeout: 60_000 }, async () => {
  const directory = makeProject(lab.folder(), {
    ...files,
    ".sortie/environment.jsonc": JSON.stringify({ variables: { WORD: "green" } }),
  });
  const look = shell("echo [$WORD]");
  const taskID = await createTask(service.url, directory, {
    ...lab.request([look, { text: "Done." }, look, { text: "Done." }]),
    checks: [],
  });
  await settledTask(service.url, taskID);
  await grant(directory);
  await post(service.url, `/task/${taskID}/message`, directory, { source: "api", text: "Again." });
  await until(
    async () => (await resultsOf(taskID)).length,
    (count) => count === 2,
  );
  expect((await resultsOf(taskID)).map((output) => output.split("\n")[1])).toEqual(["[]", "[green]"]);
});
