import { mkdirSync, writeFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { shell } from "../harness/double/hostile-text.ts";
import { type MockProvider, type MockTurn, startMockProvider, textOf } from "../harness/double/mock-provider.ts";
import { startPostgresProxy } from "../harness/double/postgres-proxy.ts";
import { night } from "../harness/night.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { until } from "../harness/project.ts";
import { startService, type TestService } from "../harness/service.ts";
import { place, send } from "./stage.ts";

/**
 * How soon a node does what another one was asked for, and shows what another one does; also where nothing is heard.
 */

const rounds = night ? 40 : 6;

type Frame = { id: string | undefined; data: { type: string; at: string; data: Record<string, unknown> } };

/** Calls `seen` with each frame of a Task's stream, and when it came. */
const listenTo = (service: { url: string }, taskID: string, seen: (frame: Frame, at: number) => void) => {
  const stop = new AbortController();
  const read = async (): Promise<void> => {
    const response = await fetch(`${service.url}/task/${taskID}/events?follow=true`, { signal: stop.signal });
    let rest = "";
    for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const now = Date.now();
      const parts = (rest + chunk).split("\n\n");
      rest = parts.pop() ?? "";
      for (const part of parts) {
        const line = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(part)?.[1];
        const data = line("data");
        if (data !== undefined) seen({ id: line("id"), data: JSON.parse(data) as Frame["data"] }, now);
      }
    }
  };
  const reading = read().catch(() => {});
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await reading;
    },
  };
};

const at = (times: readonly number[], share: number): number =>
  times.toSorted((one, two) => one - two)[Math.min(times.length - 1, Math.ceil(times.length * share) - 1)] ?? 0;

/**
 * Prints what was measured. `most`: milliseconds that half of them may take at most, on a machine that has nothing else
 * to do.
 */
const bounded = (what: string, times: readonly number[], most: number): void => {
  const crowd = Math.max(1, (loadavg()[0] ?? 0) / availableParallelism());
  console.log(
    `${what}: p50 ${at(times, 0.5).toFixed(0)} ms, p99 ${at(times, 0.99).toFixed(0)} ms, ${times.length} times`,
  );
  expect(times.length).toBeGreaterThan(0);
  expect([what, at(times, 0.5)]).toEqual([what, expect.toSatisfy((ms: number) => ms <= most * crowd) as number]);
};

describe.skipIf(postgresURL === undefined)("hints between nodes", () => {
  let here: Awaited<ReturnType<typeof place>>;
  let provider: MockProvider;
  let a: TestService;
  let b: TestService;
  /** When the model was asked, by the marker of the request. */
  const asked = new Map<string, number[]>();

  beforeAll(async () => {
    here = await place();
    provider = await startMockProvider(({ first, turn, body }): MockTurn => {
      const marker = /\[(\w+)\]/.exec(first)?.[1] ?? "";
      asked.set(marker, [...(asked.get(marker) ?? []), performance.now()]);
      if (textOf(body.messages.at(-1)?.content).includes("again")) return { text: "Done again." };
      if (marker.startsWith("hold")) return { hold: true, text: "Done." };
      if (marker.startsWith("steps") && turn < 8) return shell(`echo ${turn}`);
      if (marker.startsWith("output") && turn === 0)
        return shell("for i in $(seq 1 40); do echo line $i; sleep 0.03; done");
      return { text: "Done." };
    });
    a = await start("a");
    b = await start("b");
  }, 60_000);
  afterAll(async () => {
    await a.close();
    await b.close();
    await provider.close();
    await here[Symbol.asyncDispose]();
  });

  const start = (name: string, more: Record<string, string> = {}) => {
    const config = join(here.path, `${name}.jsonc`);
    const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" };
    writeFileSync(config, JSON.stringify({ providers: { mock } }));
    return startService(join(here.path, name), {
      ...here.env(name),
      SERVICE_CONFIG: config,
      SERVICE_MODEL: "mock/test-1",
      ...more,
    });
  };

  const ask = async (text: string): Promise<void> => {
    const client = new Client({ connectionString: here.env("x").SERVICE_DATABASE_URL });
    await client.connect();
    try {
      await client.query(text);
    } finally {
      await client.end();
    }
  };

  let count = 0;
  const begin = async (kind: string) => {
    const marker = `${kind}${(count += 1)}`;
    const directory = join(here.path, "plain", marker);
    mkdirSync(directory, { recursive: true });
    const { status, body, text } = await send(a, "POST", "/task", {
      directory,
      body: { request: `[${marker}] do it`, productPillar: "code", isolation: "directory" },
    });
    expect([status, text]).toEqual([202, text]);
    return { marker, directory, taskID: String(body["taskID"]) };
  };
  const soon = (pleases: () => boolean): Promise<boolean> => until(async () => pleases(), Boolean, 20_000, 1);
  const over = (service: { url: string }, taskID: string) =>
    until(
      () => send(service, "GET", `/task/${taskID}/status`),
      ({ body }) => body["lifecycleStatus"] !== "active",
    );

  const cancelled = async (): Promise<number> => {
    const { directory, taskID } = await begin("hold");
    await soon(() => provider.held() === 1);
    const begun = performance.now();
    await send(b, "POST", `/task/${taskID}/cancel`, { directory, body: { mode: "stop" } });
    await soon(() => provider.held() === 0);
    return performance.now() - begun;
  };

  const heard = async (): Promise<number> => {
    const { marker, directory, taskID } = await begin("message");
    await over(b, taskID);
    const before = asked.get(marker)?.length ?? 0;
    const begun = performance.now();
    await send(b, "POST", `/task/${taskID}/message`, { directory, body: { source: "test", text: "Do it again" } });
    await soon(() => (asked.get(marker)?.length ?? 0) > before);
    const times = asked.get(marker) ?? [];
    await over(a, taskID);
    return (times[before] ?? 0) - begun;
  };

  /** What both nodes show of a Task: how much later than it was made, and at b than at a. */
  const shown = async (kind: string, isWanted: (frame: Frame) => boolean, more = 0) => {
    const { taskID } = await begin(kind);
    const own = new Map<string, number>();
    const late: number[] = [];
    const later: number[] = [];
    let frames = 0;
    await using _own = listenTo(a, taskID, ({ id }, now) => {
      if (id !== undefined) own.set(id, now);
    });
    const came: [string, number][] = [];
    await using _other = listenTo(b, taskID, (frame, now) => {
      if (frame.id !== undefined) came.push([frame.id, now]);
      if (!isWanted(frame)) return;
      frames += 1;
      late.push(now - Date.parse(frame.data.at));
    });
    await over(a, taskID);
    await pause(100 + more);
    for (const [id, now] of came) if (own.has(id)) later.push(now - (own.get(id) ?? 0));
    return { late, later, frames };
  };

  const times = async (measure: () => Promise<number>, often: number): Promise<number[]> => {
    const found: number[] = [];
    for (let round = 0; round < often; round += 1) found.push(await measure());
    return found;
  };

  test("a cancel cuts the model's request, a message reaches the agent", { timeout: 120_000 }, async () => {
    bounded("cancel at another node to the model's request cut", await times(cancelled, rounds), 200);
    bounded("message at another node to the agent's next request", await times(heard, rounds), 300);
  });

  test("an event and a live frame reach the readers of another node", { timeout: 120_000 }, async () => {
    const events = await shown("steps", ({ id }) => id !== undefined);
    bounded("event to a stream at another node, from the time that it bears", events.late, 100);
    bounded("the same event, later than at its own node", events.later, 100);
    const live = await shown("output", ({ data }) => data.type === "tool.output");
    // Not before the other node has said that somebody reads there.
    bounded("live frame at another node", live.late, 150);
    expect(live.frames).toBeGreaterThan(20);
  });

  test("nobody hears of anything: each node looks, and does it within two seconds", { timeout: 120_000 }, async () => {
    await using proxy = await startPostgresProxy(here.env("x").SERVICE_DATABASE_URL);
    const before = [a, b] as const;
    await using deafA = await start("deaf-a", { SERVICE_DATABASE_URL: proxy.url });
    await using deafB = await start("deaf-b", { SERVICE_DATABASE_URL: proxy.url });
    proxy.rule(({ sql }) => (/^listen |pg_notify/.test(sql) ? "cut" : "pass"));
    await ask(
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'sortie hints' and datname = current_database()",
    );
    [a, b] = [deafA, deafB];
    try {
      bounded("without hints, cancel to the model's request cut", await times(cancelled, 2), 2_000);
      bounded("without hints, message to the agent's next request", await times(heard, 2), 2_000);
      const events = await shown("steps", ({ id }) => id !== undefined, 1_500);
      bounded("without hints, event to a stream", events.late, 2_000);
      expect((await shown("output", ({ data }) => data.type === "tool.output")).frames).toBe(0);
      proxy.rule(undefined);
      await pause(1_500);
      bounded("with hints again, cancel to the model's request cut", await times(cancelled, 3), 500);
    } finally {
      [a, b] = before;
    }
  });

  test("beside a pooler, what needs a connection of its own goes past it; the pooler has the rest", {
    timeout: 60_000,
  }, async () => {
    await using pooler = await startPostgresProxy(here.env("x").SERVICE_DATABASE_URL);
    await using direct = await startPostgresProxy(here.env("x").SERVICE_DATABASE_URL);
    const seen = { pooler: [] as string[], direct: [] as string[] };
    pooler.rule(({ sql }) => (seen.pooler.push(sql), "pass"));
    direct.rule(({ sql }) => (seen.direct.push(sql), "pass"));
    {
      await using own = await start("pooled", {
        SERVICE_DATABASE_URL: pooler.url,
        SERVICE_DATABASE_DIRECT_URL: direct.url,
      });
      const before = a;
      a = own;
      const { taskID } = await begin("plain").finally(() => (a = before));
      await over(own, taskID);
    }
    const needsItsOwn = /^listen |pg_notify|pg_try_advisory_lock/;
    for (const one of ["listen ", "pg_notify", "pg_try_advisory_lock"])
      expect([one, seen.direct.some((sql) => sql.includes(one))]).toEqual([one, true]);
    expect(seen.pooler.filter((sql) => needsItsOwn.test(sql))).toEqual([]);
    const commits = /^insert into "events"/;
    expect([seen.pooler, seen.direct].map((list) => list.some((sql) => commits.test(sql)))).toEqual([true, false]);
  });
});
if (postgresURL === undefined) countSkipped(4);
