import { execFile } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PNG } from "pngjs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import { browserHere, countBlind } from "../../harness/browser.ts";
import { built, compileCache } from "../../harness/built.ts";
import { makeProject, temporary } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { home } from "../document/manual.ts";

/** Ends of the command that need more than a project: a Task whose time is over, and one that has pictures. */

const root = temporary("sortie-ends-");
let service: TestService;

beforeAll(async () => {
  await built();
  const config = join(root.path, "config.jsonc");
  writeFileSync(config, '{ "sandbox": { "tier": 3 } }');
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
}, 120_000);
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  root[Symbol.dispose]();
});

type Ended = { code: number; out: string; err: string };
const sortie = (directory: string, ...args: string[]): Promise<Ended> =>
  bare({}, ...args, "--url", service.url, "-C", directory);

const bare = (extra: Record<string, string>, ...args: string[]): Promise<Ended> =>
  new Promise((resolve) => {
    const words = [join(home, "bin/sortie.js"), ...args];
    const env = { PATH: process.env["PATH"] ?? "", HOME: root.path, ...compileCache, ...extra };
    execFile(process.execPath, words, { cwd: root.path, env }, (error, out, err) =>
      resolve({ code: error === null ? 0 : Number(error.code), out, err }),
    );
  });

test("without --url the service is asked that SERVICE_PORT would start", async () => {
  const port = new URL(service.url).port;
  const directory = makeProject(join(root.path, "port"), { "a.txt": "a\n" });
  expect((await bare({ SERVICE_PORT: port }, "task", "ls", "-C", directory)).code).toBe(0);
  const nobody = await bare({ SERVICE_PORT: "1" }, "task", "ls", "-C", directory);
  expect([nobody.code, nobody.err]).toEqual([3, expect.stringContaining("http://127.0.0.1:1 ")]);
});

describe("a time limit", () => {
  test("that is over ends with 124, one that is not with the Task's own end", async () => {
    const directory = makeProject(join(root.path, "late"), { "a.txt": "a\n" });
    const late = await sortie(directory, "run", "run the checks", "--check", "sleep 40.5", "--max-minutes", "0.05");
    expect([late.code, late.err]).toEqual([124, ""]);
    expect(late.out).toContain("maxMinutes");
    // The same of who only looks on, and with its words apart from the events.
    const followed = await sortie(directory, "task", "logs", "-f", "@last", "--json");
    expect(followed.code).toBe(124);
    expect(followed.err).toContain("FAILED");
    const types = followed.out.trimEnd().split("\n");
    expect(types.map((line) => (JSON.parse(line) as { type: string }).type)).toContain("task.settled");

    const done = await sortie(directory, "run", "run the checks", "--check", "true", "--max-minutes", "5");
    expect(done.code, done.out).toBe(0);
    expect((await sortie(directory, "run", "x", "--max-minutes", "0")).code).toBe(2);
  });
});

if (browserHere === undefined) countBlind(1);

describe.skipIf(browserHere === undefined)("task open --pictures", () => {
  const server = `import { createServer } from "node:http";
import { readFileSync } from "node:fs";
createServer((request, response) => {
  response.writeHead(200, { "content-type": "text/html" }).end(readFileSync("index.html"));
}).listen(Number(process.argv[2]), "127.0.0.1");
`;

  test("fetches what the checks saw, before the work and after it", { timeout: 60_000 }, async () => {
    const directory = makeProject(join(root.path, "page"), {
      "server.mjs": server,
      "index.html": '<!doctype html><body style="margin:0;background:red">\n',
    });
    const port = 18_000 + (process.pid % 400);
    const client = createServiceClient({ baseUrl: service.url, directory, throwOnError: true });
    const { data: created } = await client.task.create({
      body: {
        productPillar: "code",
        request: 'replace "red" with "blue" in index.html',
        checks: [
          {
            kind: "visual",
            id: "look",
            start: `node server.mjs ${port}`,
            url: `http://127.0.0.1:${port}/`,
            viewport: { width: 120, height: 80 },
            baseline: true,
            timeoutSeconds: 30,
          },
        ],
      },
    });
    const taskID = created?.taskID ?? "none";
    await client.task.wait({ path: { taskID }, timeoutMs: 50_000 });

    const folder = join(root.path, "pictures");
    const fetched = await sortie(directory, "task", "open", "@last", "--pictures", "-o", folder);
    expect([fetched.code, fetched.err]).toEqual([0, ""]);
    const paths = fetched.out.trimEnd().split("\n");
    expect(paths.map((path) => path.slice(folder.length + 1)).toSorted()).toEqual(readdirSync(folder).toSorted());
    const colours = paths.map((path) => {
      const { width, height, data: pixels } = PNG.sync.read(readFileSync(path));
      return [width, height, ...pixels.subarray(0, 3)];
    });
    expect(colours).toEqual([
      [120, 80, 255, 0, 0],
      [120, 80, 0, 0, 255],
    ]);

    // For a script: one object each, nothing else on stdout, and a folder named by the Task.
    const told = await sortie(directory, "task", "open", taskID.slice(0, 28), "--pictures", "--json");
    const lines = told.out
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as { taskID: string; path: string });
    expect([told.code, lines.length, lines[0]?.taskID]).toEqual([0, 2, taskID]);
    expect(lines[0]?.path).toMatch(new RegExp(`^${taskID}-pictures/`));
    expect((await sortie(directory, "task", "open", "@last", "-o", folder)).code).toBe(2);
  });
});
