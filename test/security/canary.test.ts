import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { describe, expect, test } from "vitest";
import { entriesOf } from "../harness/entries.ts";
import { loadConfig } from "../../src/config/config.ts";
import { createLog } from "../../src/log.ts";
import { createService } from "../../src/service/service.ts";
import { makeProject, temporary, until } from "../harness/project.ts";
import { textsIn } from "../harness/texts.ts";
import { type MockRequest, type MockTurn, startMockProvider } from "../harness/double/mock-provider.ts";

/**
 * T18: a provider's key in twelve encodings, let loose by a model, commands, files, requests and a provider's errors,
 * and then looked for in everything that the service gives out or keeps. What the project itself holds is the user's.
 */

const canary = `sk-canary-"q\\/+&<x>'%${randomBytes(30).toString("base64url")}`;
const password = "a password of 1 server";

/** Every form, in the midst of other text. */
const forms: Record<string, string> = {
  plain: canary,
  "base64 at 0": Buffer.from(`${canary}...`).toString("base64"),
  "base64 at 1": Buffer.from(`a${canary}...`).toString("base64"),
  "base64 at 2": Buffer.from(`ab${canary}...`).toString("base64"),
  base64url: Buffer.from(`${canary}~~~`).toString("base64url"),
  URL: encodeURIComponent(canary),
  url: encodeURIComponent(canary).replace(/%../g, (escape) => escape.toLowerCase()),
  JSON: JSON.stringify(canary),
  "JSON in JSON": JSON.stringify(JSON.stringify(canary)),
  HTML: canary.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`),
  hex: Buffer.from(canary).toString("hex"),
  "a part": canary.slice(4, 40),
};

const window = 24;
/** Stretches of a form that tell of the canary; those at the edges of base64 tell of its neighbours. */
const stretches = Object.entries(forms).map(([name, text]) => {
  const parts: string[] = [];
  for (let at = 4; at + window <= text.length - 6; at += 1) parts.push(text.slice(at, at + window));
  return [name, parts] as const;
});

const leaksIn = (text: string): string[] =>
  stretches.filter(([, parts]) => parts.some((part) => text.includes(part))).map(([name]) => name);

const everything = Object.entries(forms)
  .map(([name, text]) => `${name}: ${text} .`)
  .join("\n");

const script = ({ first, turn }: MockRequest): MockTurn => {
  if (first.includes("[fails]")) return { fail: { status: 400, message: `no: ${everything.slice(0, 400)}` } };
  if (turn > 1) return { text: `Done. ${everything}`, reasoning: `I think of ${everything}` };
  if (turn === 1) return { text: everything, calls: [{ tool: "nonsense", input: { [canary]: [everything] } }] };
  return {
    text: `First ${everything}`,
    reasoning: everything,
    calls: [
      {
        tool: "shell",
        input: { command: `cat leak/*; for i in 1 2 3; do cat leak/plain; sleep 0.05; done # ${canary}` },
      },
      { tool: "read", input: { path: "leak/all" } },
      { tool: "search", input: { pattern: "canary" } },
      { tool: "read", input: { path: canary } },
      { tool: "read", input: `{"path": "${canary}` },
      { tool: "edit", input: { path: "leak/plain", oldText: canary, newText: everything } },
    ],
  };
};

/** Everything a service gives out or keeps, after work in which the canary was everywhere. */
const outletsOf = async (known: boolean): Promise<Record<string, string>> => {
  using root = temporary("sortie-canary-");
  const provider = await startMockProvider(script);
  const dataDir = join(root.path, "data");
  const logFile = join(root.path, "log");
  const config = join(root.path, "config.jsonc");
  const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "env:MOCK" } };
  writeFileSync(config, JSON.stringify({ providers, model: "mock/large" }));
  const leaks = Object.fromEntries(Object.entries(forms).map(([name, text]) => [`leak/${name}`, `${text}\n`]));
  const project = makeProject(join(root.path, "p"), { ...leaks, "leak/all": everything });
  const service = await createService(
    loadConfig(
      { port: 0, dataDir, config },
      {
        PATH: process.env["PATH"] ?? "",
        HOME: dataDir,
        MOCK: known ? canary : "another-key-of-this-length",
        SERVICE_SERVER_PASSWORD: password,
      },
    ),
    createLog("debug", logFile),
  );
  const outlets: Record<string, string> = {};
  try {
    const authorization = `Basic ${Buffer.from(`service:${password}`).toString("base64")}`;
    const ask = async (path: string, method = "GET", body?: unknown) => {
      const at = `${path}${path.includes("?") ? "&" : "?"}directory=${encodeURIComponent(project)}`;
      const response = await fetch(`${service.url}${at}`, {
        method,
        headers: { authorization, ...(body === undefined ? {} : { "content-type": "application/json" }) },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return Buffer.from(await response.arrayBuffer());
    };
    const create = async (more: object): Promise<string> => {
      const answer = (await ask("/task", "POST", { productPillar: "code", ...more })).toString();
      outlets["POST /task"] = answer;
      return String((JSON.parse(answer) as { taskID?: string }).taskID);
    };
    const settled = (id: string) =>
      until(
        async () => (await ask(`/task/${id}/status`)).toString(),
        (text) => text.includes('"inactive"'),
      );
    const taskID = await create({
      request: `Look at ${canary.slice(0, 60)} first\n${everything}`,
      title: `About ${canary}`.slice(0, 200),
      landing: "branch",
      checks: [
        {
          kind: "command",
          run: `cat leak/* # ${canary}`,
          name: canary.slice(0, 100),
          expect: { stdoutMatches: "never there" },
          required: false,
        },
        { kind: "command", run: "cat leak/all; exit 3", required: false },
      ],
      attachments: [{ filename: "a.txt", mime: "text/plain", data: Buffer.from(everything).toString("base64") }],
    });
    const stop = new AbortController();
    let live = "";
    const listening = fetch(`${service.url}/task/${taskID}/events`, {
      headers: { authorization, accept: "text/event-stream" },
      signal: stop.signal,
    })
      .then(async ({ body }) => {
        for await (const piece of body ?? []) live += Buffer.from(piece).toString();
      })
      .catch(() => undefined);
    await settled(taskID);
    outlets["POST message"] = (
      await ask(`/task/${taskID}/message`, "POST", { text: everything, source: "user" })
    ).toString();
    await settled(taskID);
    outlets["PATCH"] = (await ask(`/task/${taskID}`, "PATCH", { title: `Now ${canary}`.slice(0, 200) })).toString();
    const failing = await create({ request: `[fails] ${canary}` });
    outlets["status of a failed Task"] = await settled(failing);
    const cancelled = await create({ request: "again" });
    outlets["cancel"] = (
      await ask(`/task/${cancelled}/cancel`, "POST", { reason: everything.slice(0, 1500) })
    ).toString();
    await settled(cancelled);
    stop.abort();
    await listening;
    outlets["events, live"] = live;
    for (const id of [taskID, failing, cancelled])
      for (const part of [
        "",
        "/status",
        "/board",
        "/messages",
        "/events?format=json",
        "/checks/check-1/log",
        "/checks/check-2/log",
      ])
        outlets[`GET /task/…${part}`] =
          `${outlets[`GET /task/…${part}`] ?? ""}${(await ask(`/task/${id}${part}`)).toString()}`;
    for (const path of [
      "/tasks",
      `/tasks?search=${encodeURIComponent("about")}`,
      "/health",
      "/models",
      "/metrics",
      "/openapi.json",
    ])
      outlets[`GET ${path}`] = (await ask(path)).toString();
    for (const entry of entriesOf(await ask(`/task/${taskID}/project-archive`)))
      if (!entry.path.startsWith("project/")) outlets[`archive ${entry.path}`] = entry.read().toString();
    const texts = textsIn(dataDir).filter(([path]) => !relative(dataDir, path).startsWith("worktrees/"));
    const read = (suffix: RegExp) => texts.flatMap(([path, text]) => (suffix.test(path) ? [text] : [])).join("\n");
    outlets["database"] = read(/\.db$/);
    outlets["write-ahead log"] = read(/-wal$/);
    outlets["blobs"] = read(/blobs\//);
    outlets["other files"] = read(/^(?!.*(blobs\/|\.db|-wal)).*$/);
  } finally {
    await service.close();
    await provider.close();
  }
  outlets["log"] = readFileSync(logFile, "utf8");
  return outlets;
};

describe("T18 canary secrets", () => {
  test("the service's own key is in nothing that it gives out or keeps, in no encoding", async () => {
    const outlets = await outletsOf(true);
    expect(Object.keys(outlets).length).toBeGreaterThanOrEqual(20);
    const leaks = Object.entries(outlets).flatMap(([outlet, text]) =>
      leaksIn(text).map((form) => `${outlet}: ${form}`),
    );
    expect(leaks).toEqual([]);
    expect(outlets["events, live"]).toContain("[redacted:MOCK]");
    expect(outlets["archive execution-flow/messages.jsonl"]).toContain("[redacted:MOCK]");
  }, 60_000);

  test("control: a key it does not know is nearly everywhere", async () => {
    const outlets = await outletsOf(false);
    const leaks = Object.values(outlets).flatMap(leaksIn);
    console.log(`T18 control: ${leaks.length} leaks in ${Object.keys(outlets).length} outlets`);
    expect(leaks.length).toBeGreaterThan(100);
  }, 60_000);
});
