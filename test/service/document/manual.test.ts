import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { entriesOf } from "../../harness/entries.ts";
import type { Frame } from "../../../src/protocol/event/frame.ts";
import type { TaskStatus } from "../../../src/protocol/task/status.ts";
import { makeProject, temporary, until } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { type Block, blocksOf, curlsOf, differences, framesOf, home, localAddress, page, send } from "./manual.ts";

/** The manual is true: its examples, and README's, run against a real service and a real small project. */

const manual = page("docs/interface.md");
const readme = page("README.md");
const blocks = blocksOf(manual);

type Ran = { status: number; headers: Headers; bytes: Buffer };
const ran = new Map<string, Ran>();
const ranAs = (name: string): Ran => {
  const found = ran.get(name);
  if (found === undefined) throw new Error(`The manual has an answer, but no command "${name}".`);
  return found;
};

let root: ReturnType<typeof temporary>;
let service: TestService;
let directory: string;
/** What differs from machine to machine, and how the manual writes it. */
let places: Record<string, string>;

const statusOf = async (taskID: string): Promise<TaskStatus> => {
  const response = await fetch(`${service.url}/task/${taskID}/status`);
  return (await response.json()) as TaskStatus;
};
const settled = (taskID: string) =>
  until(
    () => statusOf(taskID),
    ({ status }) => status === "inactive",
  );

/** The id of what a Task asked first, whether it still waits or not. */
const askOf = async (taskID: string): Promise<string | undefined> => {
  const response = await fetch(`${service.url}/task/${taskID}/events?format=json&after=0`);
  const { events } = (await response.json()) as { events: Frame[] };
  return events.flatMap((event) => (event.type === "ask.opened" ? [event.data.askID] : []))[0];
};

/** Runs the page's commands in their order; `early` ones directly after the first Task has ended. */
const runAll = async (): Promise<void> => {
  const tasks = new Map<string, string>();
  /** A Task whose check does not end by itself. */
  const slow = async (): Promise<string> => {
    const body = { request: "run the tests", productPillar: "code", checks: ["sleep 60"] };
    const [curl] = curlsOf(`curl ${localAddress}/task -d '${JSON.stringify(body)}'`, {});
    const headers = { "content-type": "application/json", "x-service-directory": directory };
    const response = await send({ ...curl!, headers }, service);
    return ((await response.json()) as { taskID: string }).taskID;
  };
  const runBlock = async ({ info, text }: Block): Promise<void> => {
    const name = info["as"] ?? "first";
    if (name === "slow" && !tasks.has(name)) tasks.set(name, await slow());
    const TASK = tasks.get(name);
    if ("wait" in info && TASK !== undefined) await settled(TASK);
    const { phase } = info;
    if (phase !== undefined && TASK !== undefined)
      await until(
        () => statusOf(TASK),
        (status) => status.phase === phase,
      );
    const ASK = TASK === undefined || !text.includes("$ASK") ? undefined : await askOf(TASK);
    const known = { ...(TASK === undefined ? {} : { TASK }), ...(ASK === undefined ? {} : { ASK }) };
    const curls = curlsOf(text, { PWD: directory, ...known });
    if (curls.length !== 1 || curls[0] === undefined)
      throw new Error(`Expected one curl in "${info["run"]}", got ${curls.length}.`);
    const response = await send(curls[0], service);
    const bytes = Buffer.from(await response.arrayBuffer());
    ran.set(info["run"] ?? "", { status: response.status, headers: response.headers, bytes });
    if (!tasks.has(name) && response.status === 202)
      tasks.set(name, (JSON.parse(bytes.toString()) as { taskID: string }).taskID);
  };
  const commands = blocks.filter(({ lang, info }) => lang === "bash" && "run" in info);
  const early = commands.filter(({ info }) => "early" in info);
  for (const block of commands) {
    if (!("early" in block.info)) await runBlock(block);
    if (block.info["run"] === "first-status") for (const other of early) await runBlock(other);
  }
};

beforeAll(async () => {
  root = temporary("sortie-manual-");
  // The tier that every machine has.
  const config = join(root.path, "config.jsonc");
  writeFileSync(
    config,
    JSON.stringify({
      sandbox: { tier: 3 },
      permissions: { ask: ["write(RELEASE)"] },
      webhooks: { allow: ["127.0.0.1:9000"] },
    }),
  );
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
  directory = makeProject(join(root.path, "sum"), {
    "package.json": `${JSON.stringify({ type: "module", scripts: { test: "node --test" } })}\n`,
    "sum.js": "export const sum = (a, b) => a - b;\n",
    "sum.test.js": `import { equal } from "node:assert/strict";\nimport { test } from "node:test";\nimport { sum } from "./sum.js";\n\ntest("adds", () => equal(sum(1, 2), 3));\n`,
  });
  places = { [directory]: "/home/me/sum", [service.dataDir]: "/home/me/.local/share/sortie" };
  await runAll();
}, 60_000);
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  root[Symbol.dispose]();
});

const compare = (block: Block): string[] => {
  const { answer = "", frames = "", zip = "", status = "200", same } = block.info;
  const { status: got, headers, bytes } = ranAs(answer || frames || zip);
  const wrong = String(got) === status ? [] : [`status: shown ${status}, got ${got}`];
  if ("replayed" in block.info && headers.get("idempotent-replayed") !== "true") wrong.push("not replayed");
  if (same !== undefined && !ranAs(same).bytes.equals(bytes)) wrong.push(`another answer than "${same}"`);
  const text = bytes.toString();
  if (frames !== "") {
    if (!text.startsWith("retry: 2000\n\n")) wrong.push("the stream does not begin with retry: 2000");
    return [...wrong, ...differences(framesOf(block.text), framesOf(text), places)];
  }
  if (zip !== "") {
    const names = entriesOf(bytes).map(({ path }) => path);
    return [...wrong, ...differences(block.text.trim().split("\n"), names, places)];
  }
  if (block.lang !== "json") return [...wrong, ...differences(block.text, text, places)];
  return [...wrong, ...differences(JSON.parse(block.text), JSON.parse(text), places)];
};

describe("the examples", () => {
  const shown = blocks.filter(
    ({ info }) => ("answer" in info && info["answer"] !== "client") || "frames" in info || "zip" in info,
  );
  test.each(shown.map((block) => [Object.values(block.info)[0], block] as const))("%s", (_name, block) => {
    expect(compare(block)).toEqual([]);
  });

  test("commands without an answer in the manual succeed, or fail as the manual says", () => {
    const answered = new Set(shown.flatMap(({ info }) => Object.values(info)));
    const bare = blocks.filter(({ info }) => info["run"] !== undefined && !answered.has(info["run"]));
    const commands = bare.filter(({ lang }) => lang === "bash");
    expect(commands.length).toBeGreaterThan(2);
    for (const { info } of commands) {
      const { status } = ranAs(info["run"] ?? "");
      expect(`${info["run"]} ${status}`).toMatch(
        info["status"] === undefined ? / 20[02]$/ : new RegExp(` ${info["status"]}$`),
      );
    }
  });

  test("control: an answer that changed is told, wherever it changed", () => {
    const block = shown.find(({ info }) => info["answer"] === "status");
    if (block === undefined) throw new Error("The manual shows no status record.");
    const answer = JSON.parse(ranAs("status").bytes.toString()) as TaskStatus;
    const told = (changed: unknown) => differences(JSON.parse(block.text), changed, places);
    expect(told(answer)).toEqual([]);
    expect(told({ ...answer, lifecycleStatus: "failed" })).toEqual([
      'answer.lifecycleStatus: shown "completed", got "failed"',
    ]);
    expect(told({ ...answer, extra: 1 })).toEqual(["answer.extra: not shown, got 1"]);
    const { phase: _phase, ...less } = answer;
    expect(told(less)).toEqual(["answer.phase: shown, but absent"]);
    expect(told({ ...answer, checks: [] })).toEqual(["answer.checks: shown 1 elements, got 0"]);
    expect(told({ ...answer, lastEventID: "7" })).toHaveLength(1);
    expect(told({ ...answer, createdAt: "yesterday" })).toHaveLength(1);
    expect(told({ ...answer, directory: "/elsewhere" })).toHaveLength(1);
  });

  test("the client example type-checks and runs", async () => {
    const block = blocks.find(({ lang }) => lang === "ts");
    const output = blocks.find(({ info }) => info["answer"] === "client");
    const source = (block?.text ?? "")
      .replace('"sortie/client"', JSON.stringify(join(home, "src/client/client.ts")))
      .replace(localAddress, service.url);
    const folder = root.path;
    writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
    writeFileSync(join(folder, "client.ts"), source);
    const types = [join(home, "node_modules/@types/node")];
    writeFileSync(
      join(folder, "tsconfig.json"),
      JSON.stringify({
        extends: join(home, "tsconfig.json"),
        compilerOptions: { types, noEmit: true, rewriteRelativeImportExtensions: false },
        include: ["client.ts"],
      }),
    );
    const run = promisify(execFile);
    const tsc = join(home, "node_modules/@typescript/native/bin/tsc");
    const [checked, printed] = await Promise.all([
      run(process.execPath, [tsc, "-p", folder], { timeout: 30_000 }).catch((error: { stdout: string }) => error),
      run(process.execPath, [join(folder, "client.ts")], { cwd: directory, timeout: 30_000 }),
    ]);
    expect(checked.stdout).toBe("");
    expect(printed.stdout).toBe(output?.text);
  }, 40_000);

  test("README's first Task", async () => {
    const block = blocksOf(readme).find(({ text }) => text.includes("/project-archive"));
    const [create, ...rest] = curlsOf(block?.text ?? "", { PWD: directory });
    if (create === undefined || rest.length !== 3) throw new Error("Expected four curl commands in README.md.");
    const created = await send(create, service);
    expect(created.status).toBe(202);
    const { task_id: taskID } = (await created.json()) as { task_id: string };
    expect(await settled(taskID)).toMatchObject({ lifecycleStatus: "completed" });
    const types = [];
    for (const curl of rest) {
      const response = await send({ ...curl, url: curl.url.replace("task_…", taskID) }, service);
      expect(response.status).toBe(200);
      await response.arrayBuffer();
      types.push(response.headers.get("content-type")?.split(";")[0]);
    }
    expect(types).toEqual(["application/json", "text/event-stream", "application/zip"]);
  });
});
