import { readOf } from "../../../src/store/blob/piece.ts";
import { resolve } from "node:path";
import { createConnection } from "node:net";
import { type AppDeps, createApp } from "../../../src/http/app.ts";
import { type Listening, listen } from "../../../src/http/listen.ts";
import { ServiceError } from "../../../src/error.ts";
import { newID } from "../../../src/id.ts";
import { silent } from "../../../src/log.ts";
import { defaultLimits } from "../../../src/protocol/limit.ts";
import { createRoutes } from "../../../src/protocol/route/table.ts";
import type { TaskStatus } from "../../../src/protocol/task/status.ts";
import type { Store, StoredAnswer, Write } from "../../../src/store/store.ts";
import type { Missions } from "../../../src/mission/missions.ts";
import type { Tasks } from "../../../src/task/tasks.ts";
import type { Webhooks } from "../../../src/webhook/service.ts";
import { setHollow } from "../../harness/answer/record.ts";

/**
 * The HTTP face alone, on a real port: what stands behind it only counts and remembers. For what is HTTP's own
 * business (guards, parsing, errors, idempotency before the commit); everything else is tested on the whole service.
 */

export const knownTask = newID("task");

const status = {
  taskID: knownTask,
  title: "A Task",
  status: "running",
  lifecycleStatus: "active",
  lastEventID: 3,
  queue: null,
} as unknown as TaskStatus;

const refuse = (): never => {
  throw new Error("not part of this double");
};

export const createDouble = async (over: Partial<AppDeps> = {}) => {
  /** Every call that would have written. */
  const writes: { name: string; args: unknown[] }[] = [];
  const answers = new Map<string, { bodyHash: string; stored: StoredAnswer }>();
  let failWith: unknown;
  let hold: Promise<void> | undefined;

  const write = async <T extends object>(name: string, args: unknown[], body: T) => {
    if (failWith !== undefined) throw failWith;
    await hold;
    writes.push({ name, args });
    const once = args.at(-1) as { scope: string; key: string; bodyHash: string } | undefined;
    if (once !== undefined && "bodyHash" in once)
      answers.set(`${once.scope}\n${once.key}`, {
        bodyHash: once.bodyHash,
        stored: { status: 202, body: structuredClone(body) as never },
      });
    return { status: 202 as const, body, replayed: false };
  };
  const find = (taskID: string) => {
    if (failWith !== undefined) throw failWith;
    if (taskID !== knownTask) throw new ServiceError("task_not_found", `no ${taskID} here`);
    return status;
  };
  const squad = { id: "base", version: "1", digest: "d" };
  const tasks: Tasks = {
    create: (directory, body, once) => {
      const taskID = newID("task");
      return write("create", [directory, body, once], {
        task_id: taskID,
        taskID,
        directory,
        squad,
        isolation: "worktree" as const,
        landing: "commit" as const,
      });
    },
    list: async (directory, query) => {
      if (failWith !== undefined) throw failWith;
      return Array.from({ length: query.limit }, (_, index) => ({
        taskID: knownTask,
        updated: 1000 - index,
        query: { directory, ...query },
      })) as never;
    },
    retry: () => Promise.reject(new Error("not part of this double")),
    revert: () => Promise.reject(new Error("not part of this double")),
    pauseReason: () => undefined,
    get: async (taskID) => find(taskID) as never,
    status: async (taskID) => find(taskID),
    board: async (taskID) => ({ task: find(taskID) }) as never,
    messages: async (taskID) => (find(taskID), { messages: [], total: 0, nextAfter: null }),
    diff: async (taskID) => (find(taskID), "diff --git a b\n"),
    callOutput: async (taskID) => (find(taskID), readOf(Buffer.from("all\n"))),
    checkLog: async (taskID) => (find(taskID), readOf(Buffer.from("log\n"))),
    artifact: async (taskID, artifactID) => {
      find(taskID);
      const by = { kind: "check" as const, checkID: "x", on: "work" as const, round: 0 };
      const bytes = Buffer.from('{"a":1}');
      const named = { artifactID, filename: "a.json", title: "a", mime: "application/json", sha256: "", at: "" };
      return { artifact: { ...named, bytes: bytes.length, by }, content: readOf(bytes) };
    },
    preview: async (_directory, taskID) => (find(taskID), { url: null, state: "none", captures: [] }),
    capture: async (directory, taskID, body, once) =>
      (find(taskID), write("capture", [directory, taskID, body, once], { artifactID: "art_x" })) as never,
    stop: () => {},
    refreshPullRequest: async () => {},
    message: async (directory, taskID, body, once) =>
      (find(taskID), write("message", [directory, taskID, body, once], { taskID, messageID: "m" })) as never,
    cancel: async (directory, taskID, body, once) =>
      (find(taskID), write("cancel", [directory, taskID, body, once], { taskID, accepted: true })) as never,
    answer: async (directory, taskID, askID, body, once) =>
      (find(taskID), write("answer", [directory, taskID, askID, body, once], { taskID, askID })) as never,
    passAskToPerson: async () => {},
    interrupt: async (directory, taskID, sessionID, body, once) =>
      (find(taskID), write("interrupt", [directory, taskID, sessionID, body, once], { taskID, sessionID })) as never,
    update: async (directory, taskID, patch) => (
      find(taskID), await write("update", [directory, taskID, patch, undefined], {}), status
    ),
    remove: async (directory, taskID) => void (find(taskID), await write("remove", [directory, taskID, undefined], {})),
    expire: async () => false,
    archive: async (_directory, taskID) => (find(taskID), refuse()),
  };
  const store = {
    once: async (scope: string, key: string) => answers.get(`${scope}\n${key}`),
    commit: async ({ once }: Write) => {
      if (once !== undefined)
        answers.set(`${once.scope}\n${once.key}`, { bodyHash: once.bodyHash, stored: once.answer });
      return { ok: true, recorded: [] };
    },
    state: async (id: string) => (id === knownTask ? ({ lifecycle: "active", position: 3 } as never) : undefined),
    position: async () => 3,
    since: async () => [],
    read: async () => [],
    // oxlint-disable-next-line require-yield
    async *follow(_after: number, signal: AbortSignal) {
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
    },
    live: { publish() {}, subscribe: () => ({ [Symbol.dispose]() {} }) },
  } as unknown as Store;

  const accepted = (status: 200 | 202, body: object) => ({ status, body, replayed: false });
  const missions = {
    find: async () => "ses_01jd0000000000000000000000",
    wake: async () => accepted(200, { missionID: "m", sessionID: "ses_1", created: true }),
    list: async () => [],
    status: async () => ({}),
    messages: async () => ({ messages: [], total: 0, nextAfter: null }),
    update: async () => ({}),
    abort: async () => accepted(200, {}),
    remove: async () => {},
    answer: async () => accepted(200, {}),
    archive: async () => {
      throw new ServiceError("not_a_git_worktree", "not a worktree");
    },
  } as unknown as Missions;

  const hook = {
    id: "hook_01jd0000000000000000000000",
    url: "https://example.org/hook",
    events: ["task.completed"],
    project: null,
    directory: null,
    description: "",
    state: "enabled",
    reason: null,
    secrets: [{ secret: "whsec_none", until: null }],
    since: 0,
    failingSince: null,
    created: 0,
    updated: 0,
  };
  const noHook = async () => {
    throw new ServiceError("webhook_not_found", "no such webhook");
  };
  const webhooks = {
    list: async () => [hook],
    get: noHook,
    create: async () => ({ webhook: hook, secret: "whsec_none" }),
    update: noHook,
    remove: noHook,
    test: noHook,
    rotate: noHook,
    callbackSecret: async () => ({ webhookID: "callback", secret: "whsec_none", until: null }),
    deliveries: async () => [],
    redeliver: async () => {
      throw new ServiceError("delivery_not_found", "no such delivery");
    },
    redeliverSince: async () => 0,
  } as unknown as Webhooks;

  const app = createApp({
    nodes: {
      list: async () => ({ self: null, nodes: [], untaken: [] }),
      drainNode: () => Promise.reject(new Error("Expected no node to be drained.")),
    },
    tasks,
    missions,
    webhooks,
    repository: () => "/nowhere",
    squads: {
      catalog: {
        find: async () => undefined,
        scan: async () => ({ healthy: true, complete: true, revision: "r", squads: [], issues: [], warnings: [] }),
      },
      manager: {
        validate: async () => ({ ok: false, issues: [] }),
        install: async (_source, scope) => ({
          squad: { id: "x", version: "1.0.0", digest: "d", scope },
          replaced: null,
        }),
        uninstall: async () => "user",
      },
      admit: async (directory) => ({ directory }),
    },
    store,
    limits: defaultLimits,
    routes: createRoutes(),
    auth: { username: "service", password: undefined },
    allowedHosts: [],
    allowedOrigins: [],
    loopback: true,
    health: () => ({
      healthy: true,
      version: "0.0.0",
      sandbox: { tier: 3, name: "process-group", network: true },
      model: { ref: "builtin/rules-1", source: "built in" },
      store: { kind: "sqlite", ok: true, reason: null },
      providers: [],
      mcpServers: [],
      faults: 0,
    }),
    models: () => ({ failover: [], active: { ref: "builtin/rules-1", source: "built in" }, providers: [] }),
    testModel: async (ref = "mock/large") => ({
      ref,
      ok: true,
      firstMs: 1,
      totalMs: 2,
      usage: { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0, costUSD: null },
      tools: "worked",
      text: "",
      failure: null,
    }),
    setKey: ({ provider }) => ({
      provider,
      keySource: "config.jsonc",
      active: { ref: "builtin/rules-1", source: "test" },
    }),
    repositoryOf: () => null,
    startedIn: async () => undefined,
    metrics: async () => "# none\n",
    draining: () => false,
    project: async (directory) => directory,
    place: async (directory) => ({
      directory,
      isolation: "worktree",
      because: null,
      branch: "main",
      landing: "commit",
      checks: [],
      landings: ["commit", "branch"],
      squad: "base",
    }),
    requests: async () => [],
    grants: async () => [],
    realPath: async (directory) => ({ name: resolve(directory) }),
    log: silent,
    version: "0.0.0",
    ...over,
  });
  const server: Listening = await listen(app, { host: "127.0.0.1", port: 0 });
  setHollow(Number(new URL(server.url).port), true);
  return {
    ...server,
    app,
    writes,
    failWith: (error: unknown) => void (failWith = error),
    hold: (until: Promise<void> | undefined) => void (hold = until),
    [Symbol.asyncDispose]: () => server.close(),
  };
};

/**
 * Sends bytes as they are and gives everything that came back until the peer closed, or `ms` passed without a byte.
 * Where an answer is sure, `first` leaves it more time: a busy machine is slow to begin one.
 */
export const raw = (
  port: number,
  text: string | Buffer,
  ms = 400,
  first = ms,
): Promise<{ text: string; closed: boolean }> =>
  new Promise((resolve) => {
    const socket = createConnection(port, "127.0.0.1");
    let got = "";
    const finish = (closed: boolean) => {
      clearTimeout(timer);
      socket.destroy();
      resolve({ text: got, closed });
    };
    let timer = setTimeout(() => finish(false), first);
    socket.on("data", (chunk) => {
      got += chunk.toString("latin1");
      clearTimeout(timer);
      timer = setTimeout(() => finish(false), ms);
    });
    socket.on("error", () => {});
    socket.on("close", () => finish(true));
    socket.write(text);
  });
