import { createHmac } from "node:crypto";
import { once } from "node:events";
import { request } from "node:http";
import { connect } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import type { ForgeEvent } from "../../src/forge/event.ts";
import { readGitea } from "../../src/forge/gitea.ts";
import { createIntake } from "../../src/forge/intake.ts";
import { listenForForges } from "../../src/forge/listen.ts";
import { type Body, eventReading, readEvent } from "../../src/forge/read.ts";
import { silent } from "../../src/log.ts";
import { defaultLimits } from "../../src/protocol/limit.ts";
import { parsePattern } from "../../src/repository/address.ts";
import { longestTurnMs } from "../harness/pace.ts";

/**
 * Events by people who know no secret, and events whose texts are too much: what is refused, and before how much work.
 */

const secret = "events-secret-A1b2C3d4E5f6";
const repository = { clone_url: "https://git.example/acme/app.git" };
const now = new Date();

/** A listener whose Tasks are noted, and never made. */
const listen = async (read: () => string = () => secret) => {
  const pattern = parsePattern("https://git.example/acme/*");
  if (pattern === undefined) throw new Error("Expected a pattern.");
  const forge = "github" as const;
  const rest = { authors: ["ada"], label: "sortie", mention: "@sortie", tasksPerHour: 9, checkRounds: 1 };
  const entry = { forge, pattern, secret: read, network: false, secrets: false, ...rest };
  const made: { title?: string | undefined; metadata?: unknown }[] = [];
  const deps = {
    tasks: {
      create: async (_: string, body: { title?: string }) => {
        made.push(body);
        return { body: { taskID: "task_1" }, replayed: false };
      },
    },
    store: { list: async () => [] },
    repositories: { place: (url: string) => ({ url, identity: url, directory: "/kept" }) },
    limits: defaultLimits,
    log: silent,
    now: () => now,
  };
  const take = createIntake(deps as unknown as Parameters<typeof createIntake>[0]);
  const listener = await listenForForges({ entries: [entry], take, log: silent }, { host: "127.0.0.1", port: 0 });
  onTestFinished(() => listener.close());
  return { port: listener.port, made };
};

const comment = (issue: object = {}, text = "@sortie go") => ({
  action: "created",
  issue: {
    number: 1,
    title: "T",
    body: "do",
    user: { login: "ada" },
    html_url: "https://git.example/1",
    updated_at: now.toISOString(),
    ...issue,
  },
  comment: { body: text, user: { login: "ada" }, created_at: now.toISOString() },
  repository,
});

const send = (port: number, body: string, key = secret): Promise<number> =>
  new Promise((resolve, reject) => {
    const signature = createHmac("sha256", key).update(body).digest("hex");
    const headers = {
      "x-github-event": "issue_comment",
      "x-hub-signature-256": `sha256=${signature}`,
      "content-length": Buffer.byteLength(body),
    };
    const sent = request({ host: "127.0.0.1", port, method: "POST", path: "/github", headers }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    sent.once("error", reject);
    sent.end(body);
  });

test("a secret whose file was emptied lets nobody in", async () => {
  const { port, made } = await listen(() => "");
  expect(await send(port, JSON.stringify(comment()), "")).toBe(401);
  const control = await listen();
  expect(await send(control.port, JSON.stringify(comment()))).toBe(202);
  expect([made.length, control.made.length]).toEqual([0, 1]);
});

test.each([
  ["nested deeply", () => `${"[".repeat(100_000)}${"]".repeat(100_000)}`],
  ["of very many values", () => JSON.stringify({ ...comment(), more: Array.from({ length: 60_000 }, () => 0) })],
  ["with a longer text than a request has", () => JSON.stringify(comment({}, `@sortie ${"x".repeat(300_000)}`))],
])("a signed body %s is refused", async (_, body) => {
  const { port, made } = await listen();
  expect(await send(port, body())).toSatisfy((status: number) => status >= 400 && status < 500);
  expect(made).toEqual([]);
});

test("a title has characters that show, and the page of an issue is a page", async () => {
  const { port, made } = await listen();
  const odd = { title: `\u001B]0;x\u0007\u202Eevil\u0000${" x".repeat(10_000)}`, html_url: "javascript:alert(1)" };
  expect(await send(port, JSON.stringify(comment(odd)))).toBe(202);
  expect(made[0]?.title).toMatch(/^\]0;x evil x x/);
  expect(made[0]?.metadata).toEqual({ forge: "github", issue: 1 });
});

test("the name of a workflow is read in time that grows with it alone", () => {
  const read = (path: string): ForgeEvent | string =>
    readGitea("workflow_run", {
      action: "completed",
      workflow_run: { head_branch: "b", head_sha: "c", conclusion: "failure", html_url: "u", display_title: "t", path },
      repository,
    });
  expect(read("a.yml@refs/heads/main")).toMatchObject({ name: "a.yml" });
  const begin = performance.now();
  read(`${"@".repeat(100_000)}\n`);
  expect(performance.now() - begin).toBeLessThan(1000);
});

test("connections that send nothing do not keep an event out", async () => {
  const { port } = await listen();
  const silentOnes = Array.from({ length: 256 }, () => connect(port, "127.0.0.1").on("error", () => {}));
  onTestFinished(() => silentOnes.forEach((socket) => socket.destroy()));
  await Promise.all(silentOnes.map((socket) => once(socket, "connect")));
  expect(await send(port, JSON.stringify(comment()))).toBe(202);
});

const mebibyte = 1024 * 1024;

test("bodies that do not come to their end hold 64 MiB together: then the one that began first is closed", async () => {
  const begin = async (port: number, count: number) => {
    const closed: number[] = [];
    for (let at = 0; at < count; at += 1) {
      const headers = { "x-hub-signature-256": `sha256=${"0".repeat(64)}`, "content-length": 5 * mebibyte };
      const sent = request({ host: "127.0.0.1", port, method: "POST", path: "/github", headers });
      onTestFinished(() => void sent.destroy());
      sent.once("error", () => closed.push(at));
      await new Promise((resolve) => sent.write(Buffer.alloc(4 * mebibyte), resolve));
    }
    return closed;
  };
  const { port } = await listen();
  const closed = await begin(port, 18);
  await expect.poll(() => closed, { timeout: 5000 }).toEqual([0, 1]);
  expect(await send(port, JSON.stringify(comment()))).toBe(202);
  const control = await listen();
  const none = await begin(control.port, 15);
  expect(await send(control.port, JSON.stringify(comment()))).toBe(202);
  expect(none).toEqual([]);
});

test("a long event is read while the service goes on; control: read at once, it does not", async () => {
  const labels = Array.from({ length: 16_000 }, (_, at) => ({ title: at, color: "x".repeat(200) }));
  const text = JSON.stringify({
    object_attributes: {},
    labels,
    changes: { labels: { previous: labels.slice(0, 10) } },
  });
  const body: Body = { kind: "gitlab", name: "Issue Hook", body: Buffer.from(text) };
  await readEvent(body);
  let said: unknown;
  const apart = await longestTurnMs(async () => (said = await readEvent(body)));
  let control: unknown;
  const atOnce = await longestTurnMs(async () => (control = eventReading.run(body)));
  expect(apart).toBeLessThan(atOnce / 2);
  expect(said).toEqual(control);
});
