import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { basename, join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { loadConfig } from "../../../src/config/config.ts";
import { createLog } from "../../../src/log.ts";
import { createService } from "../../../src/service/service.ts";
import { makeProject, temporary } from "../../harness/project.ts";
import { startService } from "../../harness/service.ts";
import { textsIn } from "../../harness/texts.ts";

/** POST /model/key: who may give a key, of which providers, where it is kept, and that it is nowhere else. */

const root = temporary("sortie-key-");
afterAll(() => root[Symbol.dispose]());
const key = "sk-ant-api03-Q7w9Xz2Lm4Np6Rt8Vb1Cd3";
let count = 0;

type Answer = { status: number; text: string };
type Sent = { body?: unknown; headers?: Record<string, string>; raw?: string };

/** As a program could send it: a browser sets some of these headers by itself. */
const post = (url: string, { body = { provider: "anthropic", key }, headers = {}, raw }: Sent = {}): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const sent = request(`${url}/model/key`, {
      method: "POST",
      headers: { "content-type": "application/json", origin: url, ...headers },
    });
    sent.on("response", (response) => {
      let text = JSON.stringify(response.headers);
      response.setEncoding("utf8");
      response.on("data", (piece: string) => (text += piece));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text }));
    });
    sent.on("error", reject);
    sent.end(raw ?? JSON.stringify(body));
  });

const bed = async (settings?: object, env: Record<string, string> = {}) => {
  const folder = join(root.path, `bed-${(count += 1)}`);
  const file = join(folder, "config.jsonc");
  mkdirSync(folder, { recursive: true });
  if (settings !== undefined) writeFileSync(file, JSON.stringify(settings));
  const service = await startService(folder, env);
  const models = async () => {
    const answer = await fetch(`${service.url}/models`);
    return (await answer.json()) as {
      active: { ref: string; source: string };
      providers: { id: string; configured: boolean; keySource: string | null }[];
    };
  };
  return { folder, file, service, models, [Symbol.asyncDispose]: () => service[Symbol.asyncDispose]() };
};

test("the page's own request sets it: kept for the owner alone, used at once, and after a restart", async () => {
  const { folder, file, service, models } = await bed();
  expect((await models()).active.ref).toBe("builtin/rules-1");
  const { status, text } = await post(service.url);
  expect([status, text.includes(key)]).toEqual([200, false]);
  expect(JSON.parse(readFileSync(file, "utf8"))).toEqual({
    providers: { anthropic: { kind: "anthropic", apiKey: key } },
    model: expect.stringMatching(/^anthropic\//),
  });
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const now = await models();
  expect(now.active).toEqual({ ref: expect.stringMatching(/^anthropic\//), source: file });
  expect(now.providers.find(({ id }) => id === "anthropic")).toMatchObject({
    configured: true,
    keySource: "config.jsonc",
  });
  await service[Symbol.asyncDispose]();
  await using again = await startService(folder);
  expect((await (await fetch(`${again.url}/models`)).text()).includes("anthropic/")).toBe(true);
});

test("what else is in the file stays, with its comments; a file that others could read is closed to them", async () => {
  await using here = await bed({ limits: { checkRounds: 1 } });
  writeFileSync(here.file, '{\n  // How often.\n  "limits": { "checkRounds": 1 }\n}\n');
  chmodSync(here.file, 0o644);
  // One that somebody left there would have its own mode.
  writeFileSync(`${here.file}.draft`, "", { mode: 0o666 });
  expect((await post(here.service.url, { body: { provider: "openai", key, model: "gpt-x" } })).status).toBe(200);
  const text = readFileSync(here.file, "utf8");
  expect(text).toContain("// How often.");
  expect(text).toContain('"model": "openai/gpt-x"');
  expect([statSync(here.file).mode & 0o777, existsSync(`${here.file}.draft`)]).toEqual([0o600, false]);
});

test("without a password: no other origin, site, name or way than the page's own; control: the same from there", async () => {
  await using here = await bed();
  const { port } = new URL(here.service.url);
  const refused: Record<string, Record<string, string>> = {
    "another site": { origin: "https://evil.example" },
    "another port of this machine": { origin: `http://127.0.0.1:${Number(port) + 1}` },
    "no origin of a page": { origin: "null" },
    "encrypted elsewhere": { origin: `https://127.0.0.1:${port}` },
    "a name that leads here": { host: `evil.example:${port}`, origin: `http://evil.example:${port}` },
    "another site, as the browser says": { "sec-fetch-site": "same-site" },
    "typed, as the browser says": { "sec-fetch-site": "none" },
    "by a proxy": { "x-forwarded-for": "203.0.113.7" },
    "by another proxy": { forwarded: "for=203.0.113.7" },
  };
  for (const [why, headers] of Object.entries(refused))
    expect([why, (await post(here.service.url, { headers })).status]).toEqual([why, 403]);
  const bare = await fetch(`${here.service.url}/model/key`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ provider: "anthropic", key }),
  });
  expect([bare.status, ((await bare.json()) as { code: string }).code]).toEqual([403, "key_not_allowed"]);
  // A form of another site can send no JSON.
  expect((await post(here.service.url, { headers: { "content-type": "text/plain" } })).status).toBe(415);
  expect(existsSync(here.file)).toBe(false);
  expect((await here.models()).active.ref).toBe("builtin/rules-1");
  expect((await post(here.service.url, { headers: { "sec-fetch-site": "same-origin" } })).status).toBe(200);
});

test("a page that the operator allowed for other routes may not; control: it may read", async () => {
  const origin = "https://board.example";
  await using here = await bed(undefined, { SERVICE_ALLOWED_ORIGINS: origin });
  expect((await fetch(`${here.service.url}/models`, { headers: { origin } })).status).toBe(200);
  expect((await post(here.service.url, { headers: { origin } })).status).toBe(403);
  expect(existsSync(here.file)).toBe(false);
});

test("with a password: whoever has it, from anywhere; nobody else", async () => {
  await using here = await bed(undefined, { SERVICE_SERVER_PASSWORD: "correct horse battery" });
  const authorization = `Basic ${btoa("service:correct horse battery")}`;
  expect((await post(here.service.url)).status).toBe(401);
  expect((await post(here.service.url, { headers: { authorization: `Basic ${btoa("service:wrong")}` } })).status).toBe(
    401,
  );
  expect(existsSync(here.file)).toBe(false);
  const given = await fetch(`${here.service.url}/model/key`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization },
    body: JSON.stringify({ provider: "anthropic", key }),
  });
  expect(given.status).toBe(200);
});

test("no address is taken, and none that the operator set gets the key; control: a provider at its own address", async () => {
  await using here = await bed({
    providers: {
      openai: { kind: "openai", baseURL: "https://gateway.example/v1", apiKey: "env:NONE" },
      google: { kind: "openai-compatible", baseURL: "https://other.example/v1", apiKey: "env:NONE" },
      mine: { kind: "openai-compatible", baseURL: "https://mine.example/v1", apiKey: "env:NONE" },
    },
  });
  const before = readFileSync(here.file, "utf8");
  const sent = (body: object) => post(here.service.url, { body });
  expect((await sent({ provider: "anthropic", key, baseURL: "https://evil.example" })).status).toBe(400);
  expect((await sent({ provider: "mine", key })).status).toBe(400);
  expect((await sent({ provider: "openai-compatible", key })).status).toBe(400);
  expect((await sent({ provider: "openai", key })).status).toBe(409);
  expect((await sent({ provider: "google", key })).status).toBe(409);
  expect(readFileSync(here.file, "utf8")).toBe(before);
  expect((await sent({ provider: "openrouter", key })).status).toBe(200);
});

test("a model that the environment names stays; the key is kept", async () => {
  await using here = await bed(undefined, { SERVICE_MODEL: "builtin/rules-1" });
  const { status, text } = await post(here.service.url, { body: { provider: "anthropic", key, model: "claude-x" } });
  expect([status, text.includes('"source":"SERVICE_MODEL"')]).toEqual([200, true]);
  expect(JSON.parse(readFileSync(here.file, "utf8"))).toEqual({
    providers: { anthropic: { kind: "anthropic", apiKey: key } },
  });
});

test("a configuration that cannot be written is refused, and nothing is used", async () => {
  await using here = await bed();
  mkdirSync(`${here.file}.draft`);
  const { status, text } = await post(here.service.url);
  expect([status, text.includes("config_not_writable"), text.includes(key)]).toEqual([409, true, false]);
  expect((await here.models()).active.ref).toBe("builtin/rules-1");
});

/** Everything below a folder but the configuration, as one text. */
const keptIn = (folder: string): string =>
  textsIn(folder)
    .filter(([path]) => basename(path) !== "config.jsonc")
    .map(([, text]) => text)
    .join("\n");

test("the key stands in no log, event, answer or file but its own, whatever is wrong with the request; control: another word does", async () => {
  const folder = join(root.path, "told");
  const logFile = join(root.path, "told.log");
  const config = loadConfig({ port: 0, dataDir: folder }, { PATH: process.env["PATH"] ?? "", HOME: folder });
  const service = await createService(config, createLog("trace", logFile));
  const said: string[] = [];
  const sent = async (given: Sent) => said.push((await post(service.url, given)).text);
  await sent({ body: { provider: "anthropic", key: `${key} ` } });
  await sent({ body: { provider: key, key } });
  await sent({ body: { provider: "anthropic", key, model: `${key} x` } });
  await sent({ body: { provider: "anthropic", key: [key] } });
  await sent({ body: { provider: "anthropic", key: { key } } });
  await sent({ raw: `{ "provider": "anthropic", "key": "${key}" ` });
  await sent({ headers: { origin: "https://evil.example" } });
  await sent({ headers: { "idempotency-key": "one" } });
  await sent({ headers: { "idempotency-key": "one" } });
  const directory = makeProject(join(root.path, "told-project"), { "a.txt": "one\n" });
  const made = await fetch(`${service.url}/task`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-service-directory": directory },
    body: JSON.stringify({
      request: `dead links, and the canary ${key}`,
      productPillar: "code",
      model: "builtin/rules-1",
    }),
  });
  const { taskID } = (await made.json()) as { taskID: string };
  for (const path of ["/models", "/health", "/metrics", "/doc", `/task/${taskID}/events?after=0&format=json`])
    said.push(await (await fetch(service.url + path)).text());
  await service.close();
  const logged = readFileSync(logFile, "utf8");
  expect(said.filter((text) => text.includes(key))).toEqual([]);
  expect(logged.includes(key)).toBe(false);
  expect(keptIn(folder).includes(key)).toBe(false);
  // What is no secret is found by the same means.
  expect(logged).toContain("the key of a provider was set");
  expect(keptIn(folder)).toContain("and the canary");
  expect(said.some((text) => text.includes("and the canary"))).toBe(true);
});

test("models that call tools of this service have none for it", async () => {
  await using here = await bed();
  const call = (method: string, params: object) =>
    fetch(`${here.service.url}/mcp`, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
    }).then((answer) => answer.text());
  const tools = await call("tools/list", {});
  expect(tools).toContain("task_create");
  expect(tools).not.toMatch(/model_key|set_key|apiKey/i);
});
