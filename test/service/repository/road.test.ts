import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { canServe, type GitHost, startGitHost, token } from "../../harness/double/git-host.ts";
import { type Lab, logOf, makeLab, send, settledTask, shell, statusOf } from "../../harness/double/hostile-text.ts";
import { createLog } from "../../../src/log.ts";
import { entriesOf } from "../../harness/entries.ts";
import { until } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** Tasks of repositories that are named by address: git's own server behind Basic, a real service, a real port. */

const repositories = (host: GitHost, more: object = {}) => ({
  allow: [`http://127.0.0.1:${host.port}/*`],
  credentials: [{ match: `http://127.0.0.1:${host.port}/*`, token: "env:HOST_TOKEN" }],
  fetchSeconds: 3,
  ...more,
});

describe.runIf(canServe)("a repository by address", { timeout: 60_000 }, () => {
  let lab: Lab;
  let host: GitHost;
  let service: TestService;
  const dataDir = () => join(lab.root, "data");
  const logFile = () => join(dataDir(), "service.log");
  const open = async (more: object = {}) => {
    const config = JSON.parse(readFileSync(lab.config, "utf8")) as object;
    writeFileSync(lab.config, JSON.stringify({ ...config, repositories: repositories(host, more) }));
    const env = { SERVICE_CONFIG: lab.config, HOST_TOKEN: token };
    mkdirSync(dataDir(), { recursive: true, mode: 0o700 });
    service = await startService(dataDir(), env, undefined, createLog("debug", logFile()));
  };
  beforeAll(async () => {
    lab = await makeLab();
    host = await startGitHost(lab.root);
    await open();
  });
  afterAll(async () => {
    await service.close();
    await host[Symbol.asyncDispose]();
    await lab[Symbol.asyncDispose]();
  });

  const create = async (body: object): Promise<string> => {
    const answer = await send(service.url, "/task", { method: "POST", body: { productPillar: "code", ...body } });
    expect(answer.status, JSON.stringify(answer.body)).toBe(202);
    return String(answer.body["taskID"]);
  };
  const writes = (path: string, text: string) => [shell(`printf '%s\\n' '${text}' > ${path}`), { text: "Done." }];

  test("lands on a branch of the Task's own; a message updates that branch; lists find it by its address", async () => {
    host.make("own", { "a.txt": "one\n" });
    const url = host.url("own");
    const taskID = await create({ ...lab.request(writes("b.txt", "two")), repository: { url } });
    const settled = await settledTask(service.url, taskID);
    expect(settled, JSON.stringify(settled.errorInfo)).toMatchObject({
      lifecycleStatus: "completed",
      landing: "branch",
      landingBranch: `sortie/${taskID}`,
      repository: { url, ref: null, baseCommit: host.git("own", "rev-parse", "main") },
    });
    const branch = `sortie/${taskID}`;
    expect(host.git("own", "show", `${branch}:b.txt`)).toBe("two");
    expect(host.git("own", "rev-parse", `${branch}^`)).toBe(host.git("own", "rev-parse", "main"));
    expect(host.git("own", "log", "-1", "--format=%B", branch)).toContain(`Task: ${taskID}`);

    const list = await send(service.url, `/tasks?repository=${encodeURIComponent(url)}`);
    expect(list.body).toMatchObject([{ taskID, repository: { url, ref: null } }]);
    const projects = (await send(service.url, "/projects")).body as unknown as object[];
    expect(projects).toContainEqual(expect.objectContaining({ repository: { url, ref: null }, tasks: 1 }));
    const both = await send(service.url, `/tasks?repository=${encodeURIComponent(url)}&directory=/tmp`);
    expect(both).toMatchObject({ status: 400, body: { code: "directory_ambiguous" } });

    // Found by its id alone, and with whatever directory a client sends along.
    const before = host.git("own", "rev-parse", branch);
    const message = await send(service.url, `/task/${taskID}/message?directory=/tmp`, {
      method: "POST",
      body: { source: "test", text: "again [again]" },
    });
    expect(message.status, JSON.stringify(message.body)).toBe(202);
    await settledTask(service.url, taskID);
    const plain = await send(service.url, `/task/${taskID}/message`, {
      method: "POST",
      body: { source: "t", text: "x" },
    });
    expect(plain.status).toBe(202);
    await settledTask(service.url, taskID);
    expect(host.git("own", "rev-parse", `${branch}^`)).toBe(host.git("own", "rev-parse", "main"));
    expect(host.git("own", "show", `${branch}:b.txt`)).toBe("two");
    expect(before).toMatch(/^[0-9a-f]{40}$/);
  });

  test("lands on the branch itself, rebased onto what others pushed meanwhile; nothing is forced", async () => {
    host.make("shared", { "a.txt": "one\n" });
    const url = host.url("shared");
    const turns = [
      { ...shell("echo mine > mine.txt; touch started"), latencyMs: 0 },
      { text: "Done.", latencyMs: 1500 },
    ];
    const taskID = await create({
      ...lab.request(turns),
      repository: { url, ref: "main" },
      landing: "commit",
      checks: ["test -f mine.txt"],
    });
    await until(
      () => logOf(service.url, taskID),
      (frames) => frames.some(({ type }) => type === "tool.finished"),
      20_000,
    );
    const theirs = host.commit("shared", "main", { "theirs.txt": "theirs\n" });
    const settled = await settledTask(service.url, taskID);
    expect(settled, JSON.stringify(settled.errorInfo)).toMatchObject({
      lifecycleStatus: "completed",
      landingBranch: "main",
      repository: { ref: "main" },
    });
    expect(host.git("shared", "rev-parse", "main^")).toBe(theirs);
    expect(host.git("shared", "show", "main:mine.txt")).toBe("mine");
    expect((await logOf(service.url, taskID)).map(({ type }) => type)).toContain("workspace.rebased");
  });

  test("what is not allowed is refused before anything is asked or written", async () => {
    const body = { productPillar: "code", request: "x", model: "mock/large" };
    const asked = host.requests.length;
    for (const [url, status, code] of [
      ["http://elsewhere.example/x.git", 422, "repository_not_allowed"],
      [`http://u:p@127.0.0.1:${host.port}/own.git`, 422, "repository_not_allowed"],
      [`ssh://git@127.0.0.1:${host.port}/own.git`, 422, "repository_not_allowed"],
      ["file:///etc", 422, "repository_not_allowed"],
      ["/etc", 422, "repository_not_allowed"],
      ["ext::sh -c touch% /tmp/x", 422, "repository_not_allowed"],
    ] as const) {
      const answer = await send(service.url, "/task", { method: "POST", body: { ...body, repository: { url } } });
      expect([url, answer.status, answer.body["code"]]).toEqual([url, status, code]);
    }
    for (const ref of ["-x", "a..b", "a b", "x.lock", "@{1}", "/a"]) {
      const repository = { url: host.url("own"), ref };
      expect((await send(service.url, "/task", { method: "POST", body: { ...body, repository } })).status).toBe(400);
    }
    const repository = { url: host.url("own") };
    const both = await send(service.url, "/task?directory=/tmp", { method: "POST", body: { ...body, repository } });
    expect(both).toMatchObject({ status: 400, body: { code: "directory_ambiguous" } });
    const inPlace = { ...body, repository, isolation: "directory" };
    expect((await send(service.url, "/task", { method: "POST", body: inPlace })).status).toBe(400);
    expect(host.requests.length).toBe(asked);
  });

  test("a repository, ref or credential that is not there fails the Task with words; a message tries again", async () => {
    const gone = await create({ ...lab.request([{ text: "x" }]), repository: { url: host.url("nowhere") } });
    expect(await settledTask(service.url, gone)).toMatchObject({
      lifecycleStatus: "failed",
      errorInfo: { code: "repository_unavailable" },
    });
    host.make("refs", { "a.txt": "one\n" });
    const ref = await create({ ...lab.request([{ text: "x" }]), repository: { url: host.url("refs"), ref: "nope" } });
    expect((await settledTask(service.url, ref)).error).toContain('"nope"');
  });

  test("a remote that is away is waited for, and `now` says so", async () => {
    host.make("slow", { "a.txt": "one\n" });
    host.before = (_incoming, outgoing) => {
      outgoing.writeHead(503).end();
      return true;
    };
    const taskID = await create({ ...lab.request(writes("b.txt", "two")), repository: { url: host.url("slow") } });
    const waiting = await until(
      () => statusOf(service.url, taskID),
      ({ now }) => now?.text.startsWith("Waiting for http") ?? false,
      10_000,
    );
    expect(waiting.now?.text).toContain(host.url("slow"));
    const { projects } = (await send(service.url, "/overview")).body as { projects: object[] };
    expect(projects).toContainEqual(expect.objectContaining({ repository: { url: host.url("slow"), ref: null } }));
    host.before = undefined;
    expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
  });

  test("a hook of the remote that refuses is heard", async () => {
    const bare = host.make("hooked", { "a.txt": "one\n" });
    writeFileSync(join(bare, "hooks/pre-receive"), "#!/bin/sh\necho 'No pushes on a Sunday.'\nexit 1\n", {
      mode: 0o755,
    });
    const taskID = await create({ ...lab.request(writes("b.txt", "two")), repository: { url: host.url("hooked") } });
    const settled = await settledTask(service.url, taskID);
    expect(settled).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "landing_refused" } });
    expect(settled.error).toContain("No pushes on a Sunday.");
    expect(host.git("hooked", "branch", "--list", "sortie/*")).toBe("");
  });

  test("the token is in no file, event, log, answer, archive, argument or environment of a Task", async () => {
    host.make("canary", { "a.txt": "one\n" });
    const turns = [
      shell("env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; cat .git/config 2>/dev/null; true"),
      { text: "Done." },
    ];
    const taskID = await create({ ...lab.request(turns), repository: { url: host.url("canary") } });
    await settledTask(service.url, taskID);
    const frames = JSON.stringify(await logOf(service.url, taskID));
    const needles = [token, Buffer.from(`x-access-token:${token}`).toString("base64")];
    const found: string[] = [];
    const walk = (folder: string): void => {
      for (const entry of readdirSync(folder, { withFileTypes: true })) {
        const path = join(folder, entry.name);
        if (entry.isDirectory()) walk(path);
        else if (entry.isFile() && statSync(path).size < 50_000_000) {
          const text = readFileSync(path, "latin1");
          if (needles.some((needle) => text.includes(needle))) found.push(path);
        }
      }
    };
    walk(dataDir());
    expect(found).toEqual([]);
    for (const needle of needles) expect(frames).not.toContain(needle);
    const given = ["", "/status", "/board", "/messages", "/diff"].map((path) => `/task/${taskID}${path}`);
    for (const path of [...given, "/projects", "/overview", "/health", "/models"]) {
      const answer = await fetch(`${service.url}${path}`);
      expect([path, answer.status]).toEqual([path, 200]);
      const text = await answer.text();
      expect([path, needles.some((needle) => text.includes(needle))]).toEqual([path, false]);
    }
    const zip = await fetch(`${service.url}/task/${taskID}/project-archive`);
    const entries = entriesOf(Buffer.from(await zip.arrayBuffer())).map((entry) => entry.read().toString("latin1"));
    expect(entries.length).toBeGreaterThan(5);
    expect(entries.some((text) => needles.some((needle) => text.includes(needle)))).toBe(false);
    // Control: the log tells of the Task, and the host was sent the token.
    expect(readFileSync(logFile(), "utf8")).toContain(host.url("canary"));
    expect(host.requests.some(({ authorization }) => authorization?.includes(needles[1] ?? "-") === true)).toBe(true);
    expect(execFileSync("git", ["--version"], { encoding: "utf8" })).toContain("git");
  });
});
