import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect } from "vitest";
import type { ServiceProcess } from "../../crash/process.ts";
import { at, createTask, expectWhole, post, send, shell, statusOf } from "../../harness/double/hostile-text.ts";
import { missionOf } from "../../harness/double/missions.ts";
import { type MockTurn, startMockProvider } from "../../harness/double/mock-provider.ts";
import { makeProject, until } from "../../harness/project.ts";
import type { Random } from "../../harness/random.ts";
import { startReceiver } from "../../harness/receiver.ts";

/**
 * Five projects and who works with them: callers, Missions, readers, and a receiver of webhooks that now and then
 * fails.
 */

const fence = "```";
const ends = ["completed", "failed", "cancelled"];

export const makeWorld = async (root: string, random: Random) => {
  const agent: MockTurn[] = [
    shell("echo looked; ls"),
    { calls: [{ tool: "write", input: { path: "notes.txt", content: "a\nb\n" } }] },
    shell("(sleep 20 &) ; echo more >> notes.txt"),
  ];
  const provider = await startMockProvider(({ turn }) => agent[turn] ?? { text: "Done.", latencyMs: 20 }, { keep: 1 });
  let refused = 0;
  const receiver = await startReceiver((_, response) => {
    const fails = random.below(40) === 0;
    if (fails) refused += 1;
    response.writeHead(fails ? 500 : 204).end();
  });
  const [landed, modelled] = ["landed", "modelled"].map((name) =>
    makeProject(join(root, name), { "a.txt": "a\n" }),
  ) as [string, string];
  const plain = [1, 2, 3].map((count) => join(root, `plain-${count}`));
  for (const folder of plain) mkdirSync(folder);
  const config = join(root, "config.jsonc");
  const settings = {
    model: "builtin/rules-1",
    providers: { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } },
    workspace: { retentionHours: 0 },
    sandbox: { tier: 3 },
    webhooks: { allow: ["127.0.0.1"] },
  };
  writeFileSync(config, JSON.stringify(settings));
  const dataDir = join(root, "data");

  /** Every Task of a caller's, with how it ended; deleted ones are out of it. */
  const ended = new Map<string, string>();
  let begun = 0;
  let done = 0;
  let missions = 0;
  let events = 0;

  const bodyOf = (serial: number): [directory: string, body: Record<string, unknown>] => {
    const written = (name: string) => `Write:\n${fence}txt file=${name}\n${serial}\n${fence}`;
    if (serial % 20 === 0) return [landed, { request: written(`f${serial}.txt`), checks: ["test -f a.txt"] }];
    if (serial % 20 === 10)
      return [modelled, { request: "Look, and write it down.", model: "mock/large", landing: "branch", checks: [] }];
    const request = written(`f${serial % 20}.txt`);
    return [plain[serial % plain.length] ?? "", { request, isolation: "directory" }];
  };
  const endOf = (service: ServiceProcess, taskID: string) =>
    until(
      () => statusOf(service.url, taskID),
      ({ status }) => status === "inactive",
      120_000,
    );
  const playTask = async (service: ServiceProcess): Promise<void> => {
    const serial = (begun += 1);
    const [directory, body] = bodyOf(serial);
    const taskID = await createTask(service.url, directory, body);
    const whim = random.below(40);
    if (whim === 0) {
      const { status } = await post(service.url, `/task/${taskID}/cancel`, directory, { reason: "soak" });
      expect([200, 202, 409]).toContain(status);
    }
    const { lifecycleStatus, error } = await endOf(service, taskID);
    expect(whim === 0 ? ["completed", "cancelled"] : ["completed"], JSON.stringify(error)).toContain(lifecycleStatus);
    done += 1;
    if (whim < 4 && whim > 0) {
      const removed = await send(service.url, at(`/task/${taskID}`, directory), { method: "DELETE" });
      expect(removed.status, JSON.stringify(removed.body)).toBe(200);
    } else ended.set(taskID, lifecycleStatus);
  };
  const playMission = async ({ url }: ServiceProcess): Promise<void> => {
    const missionID = `m${(missions += 1)}`;
    const items = [1, 2].map(
      (item) => `${item}. Write ${item}\n\n   ${fence}txt file=${missionID}-${item}.txt\n   x\n   ${fence}\n`,
    );
    expect((await post(url, "/mission/wake", landed, { missionID, text: items.join("\n") })).status).toBe(200);
    const { finished } = await until(
      () => missionOf(url, landed, missionID),
      ({ agentStatus, finished, error }) => agentStatus === "inactive" && (finished !== null || error !== undefined),
      120_000,
    );
    expect(finished?.outcome).toBe("done");
    done += items.length;
  };
  /** Some read a stream for a while and go, some open one and read nothing of it, some ask and go. */
  const playReader = async ({ url }: ServiceProcess): Promise<void> => {
    const taskID = random.pick([...ended.keys(), ""]);
    const directory = random.pick([landed, modelled, ...plain]);
    const path = random.pick([
      at("/events?after=0", directory),
      at("/tasks?limit=200", directory),
      "/health",
      ...(taskID === "" ? [] : [`/task/${taskID}/events`, `/task/${taskID}/board`, `/task/${taskID}/archive`]),
    ]);
    const stop = new AbortController();
    const response = await fetch(`${url}${path}`, { signal: stop.signal });
    if (taskID === "" || !path.includes(taskID)) expect(response.status, path).toBe(200);
    const timer = setTimeout(() => stop.abort(), 100 + random.below(1500));
    try {
      if (random.below(4) === 0) await pause(300 + random.below(700));
      else for await (const chunk of response.body ?? []) events += chunk.length;
    } catch (error) {
      if (!stop.signal.aborted) throw error;
    } finally {
      clearTimeout(timer);
      stop.abort();
    }
  };

  return {
    env: { SERVICE_DATA_DIR: dataDir, SERVICE_CONFIG: config, HOME: root, SERVICE_MAX_RUNNING: "8" },
    dataDir,
    /** Tasks that have ended, those of Missions and deleted ones too. */
    done: () => done,
    figures: () => ({
      begun,
      done,
      missions,
      told: receiver.received.length,
      refused,
      readKB: Math.round(events / 1e3),
    }),
    listen: async ({ url }: ServiceProcess): Promise<void> => {
      const body = { url: receiver.url, events: ends.map((end) => `task.${end}`) };
      expect((await send(url, "/webhook", { method: "POST", body })).status).toBe(200);
    },
    /** Plays so many Tasks, eight at a time, beside a Mission and so many readers. */
    async play(service: ServiceProcess, tasks: number, { readers = 0, mission = false } = {}): Promise<void> {
      // Whoever is free takes the next.
      const [toPlay, toRead] = [tasks, readers].map((count) => Array.from({ length: count }).values());
      const caller = async () => {
        for (const _ of toPlay ?? []) await playTask(service);
      };
      const reader = async () => {
        for (const _ of toRead ?? []) await playReader(service);
      };
      const callers = Array.from({ length: 8 }, caller);
      await Promise.all([...callers, reader(), reader(), reader(), ...(mission ? [playMission(service)] : [])]);
    },
    /** Every Task that stands ended as it did and was told once so; nothing is half done in the repositories. */
    async whole(service: ServiceProcess): Promise<void> {
      const told = await until(
        async () => tellings(),
        (all) => [...ended.keys()].every((taskID) => all.has(taskID)),
        120_000,
      );
      for (const [taskID, lifecycleStatus] of ended) {
        expect([...(told.get(taskID) ?? [])], `told of ${taskID}`).toHaveLength(1);
        expect((await statusOf(service.url, taskID)).lifecycleStatus).toBe(lifecycleStatus);
      }
      for (const repository of [landed, modelled]) expectWhole(repository);
    },
    async [Symbol.asyncDispose]() {
      await receiver[Symbol.asyncDispose]();
      await provider.close();
    },
  };

  /** The ids of what was told of each Task: one that is sent again has the same. */
  function tellings(): Map<string, Set<string>> {
    const all = new Map<string, Set<string>>();
    for (const { message, headers } of receiver.received) {
      const { taskID } = message.data as { taskID: string };
      all.set(taskID, (all.get(taskID) ?? new Set()).add(headers["webhook-id"] ?? ""));
    }
    return all;
  }
};
