import { execFile, spawn, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { built } from "../../harness/built.ts";
import { git, makeProject, temporary, until } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { home } from "./manual.ts";

/** What stands in `examples` runs: each against a real service, as its README says. */

const password = "correct horse";
const root = temporary("sortie-examples-");
const examples = join(root.path, "examples");
let service: TestService;
let directory: string;

beforeAll(async () => {
  await built();
  const config = join(root.path, "config.jsonc");
  writeFileSync(config, '{ "sandbox": { "tier": 3 } }');
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config, SERVICE_SERVER_PASSWORD: password });
  directory = makeProject(join(root.path, "sum"), { "greet.txt": "hello\n" });
  // As somebody has them who installed the package, and React.
  cpSync(join(home, "examples"), examples, { recursive: true });
  const modules = join(examples, "node_modules");
  mkdirSync(join(modules, "@types"), { recursive: true });
  symlinkSync(home, join(modules, "sortie"));
  for (const name of ["react", "react-dom", "@types/react", "@types/react-dom", "@types/node"])
    symlinkSync(join(home, "node_modules", name), join(modules, name));
}, 60_000);
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  root[Symbol.dispose]();
});

const authorization = `Basic ${Buffer.from(`service:${password}`).toString("base64")}`;
const ask = async <T>(path: string, body?: object): Promise<T> => {
  const response = await fetch(service.url + path, {
    headers: { authorization, "content-type": "application/json", "x-service-directory": directory },
    ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
  });
  return (await response.json()) as T;
};
const create = async (request: string) =>
  (await ask<{ taskID: string }>("/task", { request, productPillar: "code" })).taskID;

type Ended = { code: number | null; out: string; err: string };
const run = (file: string, args: string[], extra: Record<string, string>): Promise<Ended> =>
  new Promise((resolve) => {
    const env = { PATH: process.env["PATH"] ?? "", SORTIE_PASSWORD: password, ...extra };
    execFile(file, args, { cwd: directory, env, timeout: 15_000 }, (error, out, err) =>
      resolve({ code: error === null ? 0 : Number(error.code), out, err }),
    );
  });

describe("the CI job", () => {
  const job = (body: object, extra: Record<string, string> = {}) => {
    const file = join(root.path, "task.json");
    writeFileSync(file, JSON.stringify({ productPillar: "code", source: "ci", landing: "branch", ...body }));
    return run("sh", [join(examples, "ci-job/run-task.sh"), file], { SORTIE_URL: service.url, ...extra });
  };

  test("ends as its Task ends; the same key joins the same Task", async () => {
    const body = { request: 'replace "hello" with "good day" in greet.txt', checks: ["grep -q good greet.txt"] };
    const [one, again] = [await job(body, { SORTIE_KEY: "job-1" }), await job(body, { SORTIE_KEY: "job-1" })];
    expect([one.code, again.out], one.err).toEqual([0, one.out]);
    const branch = /^Branch (sortie\/task_\w{26})$/m.exec(one.out)?.[1] ?? "";
    expect(git(directory, "show", `${branch}:greet.txt`)).toBe("good day");

    const failed = await job({ request: "run the checks", checks: ["exit 3"] });
    expect([failed.code, failed.err]).toEqual([1, expect.stringContaining("exit 3")]);
    const refused = await job({ request: "run the checks", checks: ["true"], landing: "nowhere" });
    expect([refused.code, refused.err]).toEqual([2, expect.stringContaining("body.landing")]);
    expect((await job(body, { SORTIE_PASSWORD: "wrong" })).code).toBe(2);
    expect((await job(body, { SORTIE_URL: "http://127.0.0.1:1023" })).code).toBe(3);
  });

  test("what takes too long is cancelled: 124", async () => {
    const late = await job({ request: "run the checks", checks: ["sleep 71.5"] }, { SORTIE_MINUTES: "0" });
    expect(late.code, late.err).toBe(124);
    const [{ taskID } = { taskID: "" }] = await ask<{ taskID: string }[]>("/tasks?limit=1");
    const task = await until(
      () => ask<{ status: string; error?: string }>(`/task/${taskID}/status`),
      ({ status }) => status === "inactive",
    );
    expect(task.error).toContain("not done after 0 minutes");
  });
});

const hasJq = spawnSync("jq", ["--version"]).status === 0;
if (!hasJq) console.warn("SKIPPED: the test of the GitHub Action needs jq.");

describe.runIf(hasJq)("the GitHub Action", () => {
  test("makes a Task from github-action, writes outputs and summary, and fails with it", async () => {
    const step = (request: string, checks: string) => {
      const [output, summary] = [join(root.path, `output-${request.length}`), join(root.path, "summary")];
      const env = { GITHUB_OUTPUT: output, GITHUB_STEP_SUMMARY: summary, GITHUB_REPOSITORY: "acme/sum" };
      const settings = { SORTIE_URL: service.url, SORTIE_DIRECTORY: directory, SORTIE_REQUEST: request };
      const more = { ...env, ...settings, SORTIE_CHECKS: checks, GITHUB_RUN_ID: String(request.length) };
      return run("bash", [join(examples, "github-action/run.sh")], more).then((ended) => ({
        ...ended,
        outputs: Object.fromEntries(
          readFileSync(output, "utf8")
            .trim()
            .split("\n")
            .map((line) => line.split("=") as [string, string]),
        ),
        summary: readFileSync(summary, "utf8"),
      }));
    };
    const done = await step(`replace "hello" with "it's you; $(id)" in greet.txt`, "true\n\ngrep -q you greet.txt");
    expect(done.code, done.out + done.err).toBe(0);
    const { "task-id": taskID = "", state, commit, branch } = done.outputs;
    expect([state, git(directory, "rev-parse", branch ?? "")]).toEqual(["completed", commit]);
    expect(done.summary).toContain("| grep -q you greet.txt | passed |");
    expect(await ask(`/task/${taskID}/status`)).toMatchObject({
      source: "github-action",
      metadata: { repository: "acme/sum" },
      checks: [{ name: "true" }, { name: "grep -q you greet.txt" }],
    });
    const failed = await step("run the checks", "exit 3");
    expect([failed.code, failed.outputs["state"]]).toEqual([1, "failed"]);
    expect(failed.out).toMatch(/^::error title=Sortie::.*exit 3/m);
  });

  test("its inputs and outputs are those that the script reads and writes", () => {
    const action = readFileSync(join(examples, "github-action/action.yml"), "utf8");
    const script = readFileSync(join(examples, "github-action/run.sh"), "utf8");
    const given = [...action.matchAll(/^ {8}(SORTIE_\w+): \$\{\{ inputs\.([\w-]+) \}\}$/gm)];
    expect(given.map(([, , input]) => input)).toEqual(
      [...(/^inputs:\n([\s\S]*?)^outputs:/m.exec(action)?.[1] ?? "").matchAll(/^ {2}([\w-]+):$/gm)].map(
        ([, name]) => name,
      ),
    );
    for (const [, name] of given) expect(script).toContain(name);
    for (const [, output] of action.matchAll(/steps\.task\.outputs\.([\w-]+)/g)) expect(script).toContain(`${output}=`);
  });
});

describe("the bot", () => {
  test("delivers each event, though the target fails and the bot is stopped in between", async () => {
    const got: { text: string; event: { id: number; taskID: string } }[] = [];
    let failures = 1;
    const target = createServer((request, response) => {
      let body = "";
      request.on("data", (chunk) => (body += String(chunk)));
      request.on("end", () => {
        response.writeHead(failures > 0 ? 500 : 204).end();
        if (failures-- <= 0) got.push(JSON.parse(body) as (typeof got)[number]);
      });
    });
    await new Promise<void>((done) => target.listen(0, "127.0.0.1", done));
    const start = async () => {
      const child = spawn(process.execPath, [join(examples, "forward-events/forward.ts")], {
        cwd: root.path,
        env: {
          PATH: process.env["PATH"],
          SORTIE_URL: service.url,
          SORTIE_PASSWORD: password,
          TARGET_URL: `http://127.0.0.1:${(target.address() as AddressInfo).port}/hook`,
        },
      });
      let said = "";
      child.stderr.on("data", (chunk) => (said += String(chunk)));
      await until(
        async () => said,
        (text) => text.includes("Following"),
      );
      return () => new Promise((done) => child.once("close", done).kill());
    };
    /** What was said of a Task, when it has been said that it ended. */
    const told = async (taskID: string) => {
      const about = () => got.filter(({ event }) => event.taskID === taskID).map(({ text }) => text);
      await until(
        async () => about(),
        (texts) => texts.some((text) => text.includes(" is ")),
      );
      return about();
    };
    const stop = await start();
    const first = await create("run the tests");
    expect(await told(first)).toEqual([`${first} begins: run the tests`, expect.stringContaining(`${first} is `)]);
    await stop();
    const last = got.at(-1)?.event.id;
    const missed = await create("make everything better");
    await until(
      () => ask<{ status: string }>(`/task/${missed}/status`),
      ({ status }) => status === "inactive",
    );
    const stopAgain = await start();
    expect(await told(missed)).toEqual([
      `${missed} begins: make everything better`,
      expect.stringContaining(`${missed} is failed: NEEDS_MODEL`),
    ]);
    const ids = got.map(({ event }) => event.id);
    // At least once: only what was delivered as it was stopped may come again.
    const again = ids.filter((id, index) => ids.indexOf(id) !== index);
    expect(again.filter((id) => id !== last)).toEqual([]);
    expect(again.length).toBeLessThanOrEqual(1);
    await stopAgain();
    target.close();
  });
});

describe("the React hook", () => {
  test("type-checks, with the bot, renders, and follows a Task through two attempts", async () => {
    writeFileSync(join(examples, "package.json"), '{ "type": "module" }');
    writeFileSync(
      join(examples, "tsconfig.json"),
      JSON.stringify({
        extends: join(home, "tsconfig.json"),
        compilerOptions: {
          types: ["node"],
          lib: ["es2024", "dom", "dom.iterable", "esnext.disposable"],
          jsx: "react-jsx",
          rewriteRelativeImportExtensions: false,
        },
        include: ["react", "forward-events"],
      }),
    );
    writeFileSync(
      join(examples, "react/try.ts"),
      `import { createServiceClient } from "sortie/client";
      import { watchTask } from "./use-task.ts";
      const [, , baseUrl, directory, taskID] = process.argv;
      const client = createServiceClient({ baseUrl: baseUrl!, directory: directory!, password: "${password}" });
      const stop = new AbortController();
      const path = { taskID: taskID! };
      const seen: string[] = [];
      await watchTask(client, path.taskID, ({ task, error }) => {
        if (error !== undefined) throw error;
        const word = \`\${task?.lifecycleStatus} \${task?.attempt}\`;
        if (seen.at(-1) === word) return;
        seen.push(word);
        if (word === "completed 1") void client.task.message({ path, body: { source: "test", text: 'replace "hey" with "hello" in greet.txt' } });
        if (word === "completed 2") stop.abort();
      }, stop.signal);
      console.log(JSON.stringify(seen.filter((word) => word !== "active 1")));`,
    );
    writeFileSync(
      join(examples, "react/render.mjs"),
      `import { createElement } from "react";
      import { renderToString } from "react-dom/server";
      import { useTask } from "./use-task.ts";
      const View = () => createElement("p", null, String(useTask({}, "task_x").task));
      console.log(renderToString(createElement(View)));`,
    );
    const taskID = await create('replace "hello" with "hey" in greet.txt');
    const tsc = join(home, "node_modules/@typescript/native/bin/tsc");
    const [types, followed, rendered] = await Promise.all([
      run(process.execPath, [tsc, "--noEmit", "-p", examples], {}),
      run(process.execPath, [join(examples, "react/try.ts"), service.url, directory, taskID], {}),
      run(process.execPath, [join(examples, "react/render.mjs")], {}),
    ]);
    expect(types).toEqual({ code: 0, out: "", err: "" });
    expect([JSON.parse(followed.out || "null"), followed.err]).toEqual([
      ["completed 1", "active 2", "completed 2"],
      "",
    ]);
    expect(rendered.out).toBe("<p>undefined</p>\n");
  }, 30_000);
});
