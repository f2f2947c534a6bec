import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PNG } from "pngjs";
import { createServiceClient } from "../../../src/client/client.ts";
import { browserHere, countBlind } from "../../harness/browser.ts";
import { git, makeProject, temporary } from "../../harness/project.ts";
import { type MockProvider, type MockTurn, startMockProvider } from "../../harness/double/mock-provider.ts";
import { startService, type TestService } from "../../harness/service.ts";

/**
 * Pages as the machine's own Chromium shows them, in the Task's sandbox: what passes, what fails, what cannot be seen.
 */

const root = temporary("sortie-visual-");
let provider: MockProvider;
let service: TestService;
let blind: TestService;
let script: MockTurn[] = [];
let count = 0;

beforeAll(async () => {
  provider = await startMockProvider(({ turn }) => script[turn] ?? { text: "Done." });
  const start = (name: string, more: object, env: Record<string, string> = {}) => {
    const config = join(root.path, `${name}.jsonc`);
    const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
    writeFileSync(config, JSON.stringify({ providers, limits: { checkRounds: 0, previewSeconds: 20 }, ...more }));
    return startService(join(root.path, name), { SERVICE_CONFIG: config, ...env });
  };
  service = await start("data", {});
  blind = await start("blind", { browser: "/nonexistent/chromium" });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await blind[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

/** Serves a folder's index.html; `/slow` never answers, `/later` is there after a while, `/gone` is not. */
const server = `import { createServer } from "node:http";
import { readFileSync } from "node:fs";
const port = Number(process.argv[2]);
createServer((request, response) => {
  if (request.url === "/slow") return;
  if (request.url === "/gone") return response.writeHead(404).end("no");
  response.writeHead(200, { "content-type": "text/html" }).end(readFileSync("index.html"));
}).listen(port, "127.0.0.1", () => console.log("listening on", port));
`;
const page = (colour: string, more = "") =>
  `<!doctype html><title>t</title><body style="margin:0"><div style="width:100px;height:100px;background:${colour}"></div>${more}</body>`;

let port = 18_400 + (process.pid % 400) * 5;
/** A check of its own port: where the sandbox has no network of its own, others are on this one. */
const look = (more: object = {}, path = "/") => {
  port += 1;
  const url = `http://127.0.0.1:${port}${path}`;
  return { kind: "visual" as const, id: "look", start: `node server.mjs ${port}`, url, timeoutSeconds: 30, ...more };
};
const small = { viewport: { width: 200, height: 150 } };
const repaint = (colour: string, more?: string): MockTurn => ({
  calls: [{ tool: "write", input: { path: "index.html", content: page(colour, more) } }],
});

type Body = Partial<NonNullable<Parameters<ReturnType<typeof createServiceClient>["task"]["create"]>[0]>["body"]>;

const create = (directory: string, checks: object[], body: Body = {}, at = service) =>
  createServiceClient({ baseUrl: at.url, directory }).task.create({
    body: { productPillar: "code", request: "paint", model: "mock/large", checks: checks as never, ...body },
  });

/** A Task whose agent paints the page so, to its end; what its checks said and showed. */
const run = async (
  turns: MockTurn[],
  checks: object[],
  {
    body = {},
    files = {},
    at = service,
  }: { body?: Body; files?: Record<string, string | Buffer>; at?: TestService } = {},
) => {
  const folder = join(root.path, `project-${(count += 1)}`);
  mkdirSync(folder);
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
  const directory = makeProject(folder, { "server.mjs": server, "index.html": page("red") });
  script = turns;
  const { data, error } = await create(directory, checks, body, at);
  if (data === undefined) throw new Error(JSON.stringify(error));
  const path = { taskID: data.taskID };
  const client = createServiceClient({ baseUrl: at.url, directory });
  const { data: status } = await client.task.wait({ path, timeoutMs: 60_000 });
  const { data: board } = await client.task.board({ path });
  if (status === undefined || board === undefined) throw new Error("no status");
  const { artifacts } = board;
  const picture = async (at: number) => {
    const artifactID = artifacts[at]?.artifactID ?? "";
    const { data: blob } = await client.task.artifact({ path: { ...path, artifactID } });
    return Buffer.from((await blob?.arrayBuffer()) ?? new ArrayBuffer(0));
  };
  return {
    taskID: data.taskID,
    directory,
    client,
    status,
    states: Object.fromEntries(status.checks.map(({ id, state }) => [id, state])),
    log: async (checkID: string) => String((await client.task.checkLog({ path: { ...path, checkID } })).data),
    artifacts,
    names: artifacts.map(({ filename }) => filename),
    picture,
  };
};

const colourAt = (png: Buffer, x: number, y: number) => {
  const { data, width } = PNG.sync.read(png);
  return [...data.subarray((y * width + x) * 4, (y * width + x) * 4 + 3)];
};
/** The page as it looks with a square of this colour. */
const painted = (colour: number[], { width, height } = small.viewport) => {
  const image = new PNG({ width, height });
  for (let at = 0; at < width * height; at += 1)
    image.data.set([...(at % width < 100 && at < 100 * width ? colour : [255, 255, 255]), 255], at * 4);
  return PNG.sync.write(image);
};
const red = [255, 0, 0];
const green = [0, 128, 0];
const blue = [0, 0, 255];
const attached = (bytes: Buffer, filename = "home.png") => ({
  attachments: [{ filename, mime: "image/png", data: bytes.toString("base64") }],
});
const shell = (command: string): MockTurn => ({ calls: [{ tool: "shell", input: { command } }] });

if (browserHere === undefined) countBlind(6);
// The first start of a browser that nobody has used yet takes its time.
describe.runIf(browserHere !== undefined)("with Chromium", { timeout: 60_000 }, () => {
  test("without a baseline the pictures are evidence, of the base too", async () => {
    const { status, artifacts, picture } = await run([repaint("blue")], [look({ ...small, baseline: true })]);
    expect(status).toMatchObject({ lifecycleStatus: "completed", checks: [{ state: "passed", kind: "visual" }] });
    expect(artifacts.map(({ filename, mime, by }) => [filename, mime, by])).toEqual(
      ["base", "work"].map((on) => ["look.png", "image/png", { kind: "check", checkID: "look", on, round: 0 }]),
    );
    const [before, after] = [await picture(0), await picture(1)];
    expect([after.readUInt32BE(16), after.readUInt32BE(20)]).toEqual([200, 150]);
    expect([colourAt(before, 50, 50), colourAt(after, 50, 50), colourAt(after, 150, 50)]).toEqual([
      red,
      blue,
      [255, 255, 255],
    ]);
  });

  test("a page that looks as it should passes, whatever became of the project's picture", async () => {
    // An attachment goes before a file of the project, and the viewport is its size.
    const { status, names, log } = await run(
      [repaint("blue"), shell("echo spoiled > own.png")],
      [look({ id: "attached", baseline: "home.png" }), look({ id: "own", baseline: "own.png" })],
      { body: attached(painted(blue)), files: { "home.png": "no picture", "own.png": painted(blue) } },
    );
    expect(status.lifecycleStatus).toBe("completed");
    expect(names.toSorted()).toEqual(["attached.png", "own.png"]);
    expect(await log("own")).toContain("0.000000 (0 of 30000) of the pixels differ from own.png");
  });

  test("one that differs fails and shows where, also when the agent has changed the picture; so many pixels may be allowed", async () => {
    const { states, status, names, picture, log } = await run(
      [repaint("green"), shell("cp green.png own.png")],
      [
        look({ id: "attached", baseline: "home.png" }),
        look({ id: "near", baseline: "home.png", maxDiffRatio: 0.34 }),
        look({ id: "own", baseline: "own.png" }),
      ],
      { body: attached(painted(blue)), files: { "own.png": painted(red), "green.png": painted(green) } },
    );
    expect(states).toEqual({ attached: "failed", near: "passed", own: "failed" });
    expect(status.error).toContain("2 of 3 checks failed");
    // Checks run side by side: in whatever order they ended.
    expect(names.toSorted()).toEqual(["attached", "near", "own"].flatMap((id) => [`${id}-diff.png`, `${id}.png`]));
    expect(await log("attached")).toContain(
      "Expected at most 0 of the pixels to differ from home.png, got 0.333333 (10000 of 30000)",
    );
    const diff = await picture(names.indexOf("attached-diff.png"));
    expect(colourAt(diff, 50, 50)).toEqual(red);
    expect(colourAt(diff, 150, 50)).not.toEqual(red);
  });

  test("a page that never loads, is not found, or whose server ends fails with the reason, in time", async () => {
    const begun = performance.now();
    const { states, names, log } = await run(
      [repaint("blue")],
      [
        look({ id: "slow", timeoutSeconds: 12 }, "/slow"),
        look({ id: "gone" }, "/gone"),
        look({ id: "ended", start: "echo no luck; exit 3" }),
      ],
    );
    expect(states).toEqual({ slow: "failed", gone: "failed", ended: "failed" });
    expect(await log("slow")).toMatch(/did not answer within 12 s/);
    expect(await log("gone")).toMatch(/Expected a page at \S+, got status 404/);
    expect(await log("ended")).toMatch(/no luck\n[\s\S]*the server exited \(exit 3\) before \S+ answered/);
    expect(names).toEqual([]);
    expect(performance.now() - begun).toBeLessThan(40_000);
  });

  test("waits for what is named, brings the page to rest, reaches nothing outside, leaves nothing", async () => {
    const lively = `<script>
      fetch("http://1.1.1.1/").then(() => "reached", () => "cut").then((text) => {
        setTimeout(() => { document.body.insertAdjacentHTML("beforeend", '<p id="' + text + '">x</p>'); throw new Error("broken"); }, 300);
      });
    </script><style>@keyframes k { to { background: yellow } } div { animation: k 0.2s infinite alternate }</style>`;
    const { status, log, picture } = await run([repaint("blue", lively)], [look({ ...small, waitFor: "#cut" })]);
    expect(status.lifecycleStatus).toBe("completed");
    expect(colourAt(await picture(0), 50, 50)).toEqual(blue);
    expect(await log("look")).toContain("the page threw: Error: broken");
    const folder = join(root.path, "data/tmp");
    expect(existsSync(folder) ? readdirSync(folder) : []).toEqual([]);
  });
});

describe("the preview", () => {
  test.runIf(browserHere !== undefined)(
    "a picture on request is an artifact, and what the server leaves is not in the way",
    async () => {
      const check = look(small);
      const spoiling = `echo spoilt > index.html.new; echo x > left.txt; ${check.start}`;
      const { taskID, directory, client } = await run([repaint("blue")], [{ ...check, start: spoiling }]);
      const path = { taskID };
      expect((await client.task.preview({ path })).data).toEqual({ url: check.url, state: "ready", captures: [] });

      const take = (body: object, headers: Record<string, string> = {}) =>
        fetch(`${service.url}/task/${taskID}/preview/capture?directory=${encodeURIComponent(directory)}`, {
          method: "POST",
          headers: { "content-type": "application/json", ...headers },
          body: JSON.stringify(body),
        });
      const key = { "idempotency-key": "one" };
      const first = await take({ viewport: { width: 120, height: 110 } }, key);
      expect(first.status).toBe(200);
      const { artifactID } = (await first.json()) as { artifactID: string };
      const again = await take({ viewport: { width: 120, height: 110 } }, key);
      expect([again.headers.get("idempotent-replayed"), await again.json()]).toMatchObject(["true", { artifactID }]);
      const { data: preview } = await client.task.preview({ path });
      expect(preview?.captures).toMatchObject([
        { artifactID, filename: "preview.png", by: { kind: "capture", url: check.url, viewport: { width: 120 } } },
      ]);
      const { data: blob } = await client.task.artifact({ path: { ...path, artifactID } });
      const png = Buffer.from((await blob?.arrayBuffer()) ?? new ArrayBuffer(0));
      expect([png.readUInt32BE(16), png.readUInt32BE(20), ...colourAt(png, 50, 50)]).toEqual([120, 110, ...blue]);
      const worktree = join(root.path, "data/worktrees", taskID);
      expect(existsSync(join(worktree, "index.html")) && git(worktree, "status", "--porcelain")).toBe("");

      const told = async (body: object) => {
        const response = await take(body);
        return [response.status, ((await response.json()) as { code: string }).code];
      };
      expect(await told({ url: check.url.replace(/\d+\/$/, "1/") })).toEqual([400, "invalid_request"]);
      expect(await told({ url: "http://example.org/" })).toEqual([400, "invalid_request"]);
      expect(await told({ url: `${check.url}gone` })).toEqual([422, "preview_failed"]);
    },
  );

  test("where no check serves a page, or there is no Chromium, it says so", async () => {
    const none = await run([], [{ kind: "file", id: "look", path: "index.html" }]);
    expect((await none.client.task.preview({ path: { taskID: none.taskID } })).data?.state).toBe("none");
    const { error } = await none.client.task.capture({ path: { taskID: none.taskID } });
    expect(error).toMatchObject({ status: 422, code: "preview_not_available" });
    const unseen = await run([], [look({ required: false })], { at: blind });
    expect((await unseen.client.task.preview({ path: { taskID: unseen.taskID } })).data?.state).toBe("unavailable");
    const refused = await unseen.client.task.capture({ path: { taskID: unseen.taskID } });
    expect(refused.error).toMatchObject({ status: 422, code: "preview_not_available" });
  });

  test("while the agents are at work there is none", async () => {
    const directory = makeProject(join(root.path, "busy"), { "index.html": "x" });
    script = [{ hold: true }];
    const { data } = await create(directory, [look()]);
    const path = { taskID: data?.taskID ?? "" };
    const client = createServiceClient({ baseUrl: service.url, directory });
    expect((await client.task.preview({ path })).data?.state).toBe(browserHere === undefined ? "unavailable" : "busy");
    expect((await client.task.capture({ path })).error).toMatchObject({ status: 409, code: "task_active" });
    await client.task.cancel({ path });
  });
});

test("without Chromium the check says what is missing and what helps", async () => {
  const { status, log } = await run([repaint("blue")], [look()], { at: blind });
  expect(status).toMatchObject({ lifecycleStatus: "failed", checks: [{ state: "error" }] });
  expect(await log("look")).toContain("Expected Chromium on this machine, got none. Install it");
});

test("what cannot be compared is refused when the Task is created", async () => {
  const directory = makeProject(join(root.path, "refused"), { "a.txt": "a", "index.html": "x" });
  const refused = async (check: object, body: Body = {}) => {
    const { error } = await create(directory, [look(check)], body);
    return (error as { message?: string } | undefined)?.message;
  };
  expect(await refused({ baseline: "none.png" })).toBe(
    'body.checks[0].baseline: Expected the name of an attachment or a file of the project, got "none.png".',
  );
  expect(await refused({ baseline: "a.txt" })).toContain("Expected a PNG image");
  expect(await refused({ baseline: "../x.png" })).toContain("inside the project");
  expect(
    await refused(
      { baseline: "home.png", viewport: { width: 100, height: 100 } },
      attached(painted(blue, { width: 50, height: 50 })),
    ),
  ).toContain("Expected an image of the viewport's 100×100 pixels, got 50×50");
  const bomb = painted(blue, { width: 16, height: 16 });
  bomb.writeUInt32BE(60_000, 16);
  expect(await refused({ baseline: "home.png" }, attached(bomb))).toContain("got 60000×16");
  expect(await refused({ url: "http://example.com/" })).toContain("Expected an http URL on localhost");
  expect(await refused({ viewport: { width: 4096, height: 4096 } })).toContain("pixels, got 4096×4096");
});
