import { createConnection, createServer, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import { openEvents } from "../../../src/client/event-stream.ts";
import type { DomainEvent } from "../../../src/domain/event.ts";
import { statusOf } from "../../../src/domain/view/status.ts";
import { newID } from "../../../src/id.ts";
import { silent } from "../../../src/log.ts";
import { defaultLimits, type Limits } from "../../../src/protocol/limit.ts";
import { createSqliteStore } from "../../../src/store/sqlite/sqlite.ts";
import type { Store } from "../../../src/store/store.ts";
import type { Tasks } from "../../../src/task/tasks.ts";
import { created, settled } from "../../harness/events.ts";
import { temporary, until } from "../../harness/project.ts";
import { createDouble } from "../mission/double.ts";

/** Event streams over a real port and a real log, which the tests write by hand so that every moment can be chosen. */

const folder = temporary("sortie-sse-");
let store: Store;
let double: Awaited<ReturnType<typeof createDouble>>;

const open = (limits: Partial<Limits> = {}, timing = { heartbeatMs: 15_000, stallMs: 30_000 }) =>
  createDouble({
    store,
    limits: { ...defaultLimits, streams: 500, streamsPerClient: 500, streamsPerTask: 100, ...limits },
    timing,
    tasks: {
      pauseReason: () => undefined,
      async status(taskID: string) {
        const state = await store.state(taskID);
        if (state === undefined) throw new Error(`No ${taskID}`);
        return statusOf(state, { queue: null, phase: "working", now: null, summary: null, output: null });
      },
    } as unknown as Tasks,
  });

beforeAll(async () => {
  store = await createSqliteStore({ file: ":memory:", dataDir: folder.path, log: silent });
  double = await open();
});
afterAll(async () => {
  await double.close();
  await store[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

const append = async (taskID: string, ...events: DomainEvent[]): Promise<number[]> => {
  const done = await store.commit({ appends: [{ stream: taskID, expected: "any", events }] });
  if (!done.ok) throw new Error(`Not written: ${done.reason}`);
  return done.recorded.map(({ position }) => position);
};
const begin = async (directory = "/work/project"): Promise<string> => {
  const first = created({ directory });
  await append(first.data.taskID, first);
  return first.data.taskID;
};
const message = (text: string): DomainEvent => ({
  type: "message.received",
  data: { messageID: newID("msg"), sessionID: "ses_x", source: "test", text, attachments: [], disposition: "steered" },
});
const again = (): DomainEvent => {
  const event = message("again");
  return { ...event, data: { ...event.data, disposition: "restarted" } } as DomainEvent;
};
const renamed: DomainEvent = { type: "task.updated", data: { title: "Other" } };

type Sent = { id?: number; type: string; data: Record<string, unknown> };
type Block = { id: string | undefined; frame: Sent | undefined; text: string };

const parse = (text: string): Block => {
  const line = (name: string) =>
    text
      .split("\n")
      .find((one) => one.startsWith(name))
      ?.slice(name.length);
  const data = line("data: ");
  return { id: line("id: "), frame: data === undefined ? undefined : (JSON.parse(data) as Sent), text };
};

/** A reader that keeps what came. */
const read = async (path: string, headers: Record<string, string> = {}, at = double) => {
  const stop = new AbortController();
  const response = await fetch(at.url + path, { headers, signal: stop.signal });
  const blocks: Block[] = [];
  let ended = false;
  const done = (async () => {
    if (response.body === null) return;
    let rest = "";
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
      const parts = (rest + chunk).split("\n\n");
      rest = parts.pop() ?? "";
      blocks.push(...parts.map(parse));
    }
    ended = true;
  })().catch(() => {});
  const frames = () => blocks.flatMap(({ frame }) => (frame === undefined ? [] : [frame]));
  return {
    response,
    blocks,
    frames,
    types: () => frames().map(({ type }) => type),
    ids: () => frames().flatMap(({ id }) => (id === undefined ? [] : [id])),
    ended: async () => {
      await done;
      return ended;
    },
    seen: (count: number) =>
      until(
        async () => frames().length,
        (length) => length >= count,
        5000,
      ),
    stop: () => stop.abort(),
  };
};

describe("a Task's stream", () => {
  test("a snapshot first, then what happens, and the end", async () => {
    const taskID = await begin();
    const reader = await read(`/task/${taskID}/events`);
    expect(reader.response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    await reader.seen(1);
    const ids = await append(taskID, message("one"), message("two\nlines\u2028and more"));
    await append(taskID, settled());
    expect(await reader.ended()).toBe(true);
    expect(reader.types()).toEqual([
      "task.snapshot",
      "message.received",
      "message.received",
      "task.settled",
      "stream.end",
    ]);
    expect(reader.ids().slice(0, 2)).toEqual(ids);
    expect(reader.blocks[0]?.text).toBe("retry: 2000");
    const [, snapshot, one, two] = reader.blocks;
    expect([snapshot?.id, snapshot?.frame?.data["lifecycleStatus"]]).toEqual([undefined, "active"]);
    expect(one?.id).toBe(String(one?.frame?.id));
    expect(one?.frame).toMatchObject({ taskID, sessionID: "ses_x", at: expect.stringMatching(/Z$/) });
    expect(two?.frame?.data["text"]).toBe("two\nlines\u2028and more");
    expect(reader.blocks.every(({ text }) => !text.includes("event:"))).toBe(true);
    expect(reader.blocks.at(-1)?.id).toBeUndefined();
  });

  test("from wherever one resumes: no hole, nothing twice, by header or query", async () => {
    const taskID = await begin();
    const other = await begin();
    for (let count = 0; count < 12; count += 1) {
      await append(taskID, message(`${count}`));
      await append(other, message("elsewhere"));
    }
    await append(taskID, settled());
    const all = (await store.read(taskID)).map(({ position }) => position);
    for (const after of [0, ...all.slice(0, -1)]) {
      const rest = all.filter((id) => id > after);
      const byHeader = await read(`/task/${taskID}/events?after=1`, { "last-event-id": String(after) });
      const byQuery = await read(`/task/${taskID}/events?after=${after}`);
      expect(await byHeader.ended()).toBe(true);
      expect(await byQuery.ended()).toBe(true);
      expect([byHeader.ids(), byQuery.ids()]).toEqual([rest, rest]);
      expect(byQuery.types()[0]).toBe("task.snapshot");
      expect(byQuery.types().at(-1)).toBe("stream.end");
    }
    const over = await read(`/task/${taskID}/events`, { "last-event-id": String(all.at(-1)) });
    expect(over.response.status).toBe(204);
  });

  test("readers that come while events are written miss none", async () => {
    const taskID = await begin();
    const readers: Promise<Awaited<ReturnType<typeof read>>>[] = [];
    for (let count = 0; count < 60; count += 1) {
      if (count % 3 === 0) readers.push(read(`/task/${taskID}/events?after=0`));
      await append(taskID, message(`${count}`));
    }
    await append(taskID, settled());
    const all = (await store.read(taskID)).map(({ position }) => position);
    for (const reader of await Promise.all(readers)) {
      await reader.ended();
      expect(reader.ids()).toEqual(all);
    }
  });

  test("of a settled Task: the state, its end, and that it is over; something after the end comes too", async () => {
    const taskID = await begin();
    const [end] = await append(taskID, settled());
    const first = await read(`/task/${taskID}/events`);
    expect(await first.ended()).toBe(true);
    expect(first.types()).toEqual(["task.snapshot", "task.settled", "stream.end"]);
    expect((await read(`/task/${taskID}/events?after=${end}`)).response.status).toBe(204);
    const [later] = await append(taskID, renamed);
    const second = await read(`/task/${taskID}/events?after=${end}`);
    expect(await second.ended()).toBe(true);
    expect(second.ids()).toEqual([later]);
    expect((await read(`/task/${taskID}/events?after=${later}`)).response.status).toBe(204);
  });

  test("a replay does not end at the end of an attempt that a message followed", async () => {
    const taskID = await begin();
    await append(taskID, settled({ lifecycleStatus: "failed", error: "no" }));
    await append(taskID, again());
    const reader = await read(`/task/${taskID}/events?after=0`);
    await reader.seen(4);
    expect(reader.types()).toEqual(["task.snapshot", "task.created", "task.settled", "message.received"]);
    await append(taskID, settled());
    expect(await reader.ended()).toBe(true);
    expect(reader.types().slice(4)).toEqual(["task.settled", "stream.end"]);
  });

  test("follow=1 stays, across the end and the next beginning", async () => {
    const taskID = await begin();
    const [end] = await append(taskID, settled());
    const reader = await read(`/task/${taskID}/events?follow=1&after=${end}`);
    expect(reader.response.status).toBe(200);
    await reader.seen(1);
    await append(taskID, again(), settled(), renamed);
    await reader.seen(4);
    expect(reader.types()).toEqual(["task.snapshot", "message.received", "task.settled", "task.updated"]);
    reader.stop();
  });

  test("live frames have no id and come in their place", async () => {
    const taskID = await begin();
    const reader = await read(`/task/${taskID}/events`);
    await reader.seen(1);
    const at = new Date().toISOString();
    store.live.publish({ type: "message.delta", taskID, sessionID: "s", at, data: { messageID: "m", text: "Hel" } }, 0);
    store.live.publish({ type: "tool.output", taskID: await begin(), at, data: { callID: "c", text: "elsewhere" } }, 0);
    await reader.seen(2);
    await append(taskID, message("x"), settled());
    await reader.ended();
    expect(reader.types()).toEqual([
      "task.snapshot",
      "message.delta",
      "now.delta",
      "message.received",
      "task.settled",
      "stream.end",
    ]);
    expect(reader.blocks[2]).toMatchObject({ id: undefined, frame: { data: { text: "Hel" } } });
  });

  test("a heartbeat while nothing happens; the end when the Task is deleted", async () => {
    await using quick = await open({}, { heartbeatMs: 40, stallMs: 30_000 });
    const taskID = await begin();
    const reader = await read(`/task/${taskID}/events`, {}, quick);
    await until(
      async () => reader.blocks.filter(({ text }) => text === ": heartbeat").length,
      (count) => count >= 3,
      5000,
    );
    await append(taskID, settled());
    expect(await reader.ended()).toBe(true);
    const gone = await begin();
    const left = await read(`/task/${gone}/events`, {}, quick);
    await left.seen(1);
    await store.erase(gone);
    expect(await left.ended()).toBe(true);
    expect(quick.app.openStreams()).toBe(0);
  });
});

describe("slow readers", () => {
  const big = () => message("x".repeat(60_000));
  /** Connects, takes the first bytes, and then reads no more until it is resumed. */
  const stuck = async (at: { port: number }, path: string): Promise<Socket & { text: string }> => {
    const socket = Object.assign(createConnection(at.port, "127.0.0.1"), { text: "" });
    socket.on("error", () => {});
    socket.on("data", (chunk) => void (socket.text += chunk.toString("latin1")));
    socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    await new Promise((resolve) => socket.once("data", resolve));
    socket.pause();
    return socket;
  };

  test("live: one that falls behind is cut, others are not, and it resumes without a hole", {
    timeout: 20_000,
  }, async () => {
    const taskID = await begin();
    const [start] = (await store.read(taskID, { last: true, limit: 1 })).map(({ position }) => position);
    const good = await read(`/task/${taskID}/events`);
    const slow = await stuck(double, `/task/${taskID}/events`);
    expect(double.app.openStreams()).toBe(2);
    for (let count = 0; count < 400 && double.app.openStreams() > 1; count += 1) await append(taskID, big());
    expect(double.app.openStreams()).toBe(1);
    slow.resume();
    await new Promise((resolve) => slow.once("close", resolve));
    const got = [...slow.text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id)).slice(0, -1);
    await append(taskID, settled());
    const rest = await read(`/task/${taskID}/events`, { "last-event-id": String(got.at(-1) ?? start) });
    expect(await rest.ended()).toBe(true);
    const all = (await store.read(taskID)).map(({ position }) => position).slice(1);
    expect([...got, ...rest.ids()]).toEqual(all);
    await good.ended();
    expect(good.ids()).toEqual(all);
  });

  test("replaying: one that reads slowly is waited for, not cut, and holds little memory", {
    timeout: 20_000,
  }, async () => {
    const taskID = await begin();
    for (let count = 0; count < 300; count += 1) await append(taskID, big());
    await append(taskID, settled());
    const slow = await stuck(double, `/task/${taskID}/events?after=0`);
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(double.app.openStreams()).toBe(1);
    slow.resume();
    await until(
      async () => slow.text.includes('"stream.end"'),
      (end) => end,
      10_000,
    );
    expect([...slow.text.matchAll(/^id: (\d+)$/gm)]).toHaveLength(302);
    slow.destroy();
  });

  test("one that takes nothing at all is ended after a while", { timeout: 20_000 }, async () => {
    await using quick = await open({}, { heartbeatMs: 15_000, stallMs: 300 });
    const taskID = await begin();
    for (let count = 0; count < 300; count += 1) await append(taskID, big());
    const slow = await stuck(quick, `/task/${taskID}/events?after=0`);
    await until(
      async () => quick.app.openStreams(),
      (count) => count === 0,
      5000,
    );
    slow.destroy();
  });

  test("live frames are dropped for it, durable ones are not", { timeout: 20_000 }, async () => {
    const taskID = await begin();
    const slow = await stuck(double, `/task/${taskID}/events`);
    const text = "y".repeat(30_000);
    for (let count = 0; count < 600; count += 1) {
      store.live.publish({ type: "tool.output", taskID, at: "", data: { callID: "c", text } }, 0);
      if (count % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    expect(double.app.openStreams()).toBe(1);
    const [id] = await append(taskID, message("kept"));
    slow.resume();
    await until(
      async () => slow.text.includes(`id: ${id}`),
      (came) => came,
      5000,
    );
    expect((slow.text.match(/"tool.output"/g) ?? []).length).toBeLessThan(600);
    slow.destroy();
  });
});

describe("bounds", () => {
  test("so many streams of one Task, of one client, in all; a place is free again when one leaves", async () => {
    for (const [limits, ask] of [
      [{ streamsPerTask: 2 }, (taskID: string) => `/task/${taskID}/events`],
      [{ streamsPerClient: 2 }, () => "/events"],
      [{ streams: 2 }, () => "/events"],
    ] as const) {
      await using small = await open(limits);
      const path = ask(await begin());
      const one = await read(path, {}, small);
      const two = await read(path, {}, small);
      const third = await fetch(small.url + path);
      expect([third.status, third.headers.get("retry-after")]).toEqual([429, "5"]);
      expect(await third.json()).toMatchObject({ code: "rate_limited", retryable: true });
      one.stop();
      await until(
        async () => (await read(path, {}, small)).response.status,
        (status) => status === 200,
        3000,
      );
      two.stop();
    }
  });

  test("defaults as decided", () => {
    expect(defaultLimits).toMatchObject({
      streams: 64,
      streamsPerTask: 8,
      streamsPerClient: 16,
      streamQueueBytes: 262_144,
      streamQueueEvents: 1000,
    });
  });
});

describe("all events, and pages", () => {
  test("everything from now on, of one directory if asked; an id at once", async () => {
    const all = await read("/events");
    const some = await read("/events?directory=/work/other");
    await until(
      async () => all.blocks.length + some.blocks.length,
      (count) => count >= 2,
      3000,
    );
    expect(all.blocks[0]?.text).toBe(`id: ${await store.position()}\nretry: 2000`);
    const here = await begin();
    const there = await begin("/work/other");
    await append(here, message("x"));
    await all.seen(3);
    await some.seen(1);
    expect(all.frames().map(({ type, ...rest }) => [type, (rest as unknown as { taskID: string }).taskID])).toEqual([
      ["task.created", here],
      ["task.created", there],
      ["message.received", here],
    ]);
    expect(some.types()).toEqual(["task.created"]);
    const resumed = await read("/events", { "last-event-id": String(all.ids()[0]) });
    await resumed.seen(2);
    expect(resumed.ids()).toEqual(all.ids().slice(1));
    for (const reader of [all, some, resumed]) reader.stop();
  });

  test("the same log page by page", async () => {
    const taskID = await begin();
    for (let count = 0; count < 7; count += 1) await append(taskID, message(`${count}`));
    const all = (await store.read(taskID)).map(({ position }) => position);
    const found: number[] = [];
    let after = 0;
    for (;;) {
      const page = (await (
        await fetch(`${double.url}/task/${taskID}/events?format=json&limit=3&after=${after}`)
      ).json()) as {
        events: { id: number }[];
        nextAfter: number;
      };
      if (page.events.length === 0) {
        expect(page.nextAfter).toBe(after);
        break;
      }
      expect(page.events.length).toBeLessThanOrEqual(3);
      found.push(...page.events.map(({ id }) => id));
      after = page.nextAfter;
    }
    expect(found).toEqual(all);
  });
});

test("a status record is as new as the last event, however often it was asked for", async () => {
  const taskID = await begin();
  const ask = async () => {
    const record = (await (await fetch(`${double.url}/task/${taskID}/status`)).json()) as Record<string, unknown>;
    return [record["title"], record["status"], record["lastEventID"]];
  };
  const [started] = (await store.read(taskID)).map(({ position }) => position);
  for (const record of [await ask(), await ask()]) expect(record).toEqual(["Make the test pass", "running", started]);
  const [settledAt] = await append(taskID, settled());
  for (const record of [await ask(), await ask()])
    expect(record).toEqual(["Make the test pass", "inactive", settledAt]);
  const [renamedAt] = await append(taskID, renamed);
  for (const record of [await ask(), await ask()]) expect(record).toEqual(["Other", "inactive", renamedAt]);
});

describe("the client", () => {
  /** Forwards to the service and cuts each connection after so many bytes of the answer. */
  const cutting = async (port: number, bytes: () => number) => {
    let connections = 0;
    const sockets = new Set<Socket>();
    const proxy = createServer((socket) => {
      connections += 1;
      sockets.add(socket);
      const target = createConnection(port, "127.0.0.1");
      let left = bytes();
      socket.on("error", () => {}).pipe(target);
      target
        .on("error", () => {})
        .on("data", (chunk) => {
          socket.write(chunk.subarray(0, left));
          left -= chunk.length;
          if (left <= 0) socket.destroy();
        });
      socket.on("close", () => target.destroy());
      target.on("close", () => socket.end());
    });
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    return {
      url: `http://127.0.0.1:${(proxy.address() as { port: number }).port}`,
      connections: () => connections,
      async [Symbol.asyncDispose]() {
        const closed = new Promise((resolve) => proxy.close(resolve));
        for (const socket of sockets) socket.destroy();
        await closed;
      },
    };
  };

  test("events resume by themselves through every cut, nothing lost or doubled", { timeout: 20_000 }, async () => {
    const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 100_000);
    let state = seed;
    const random = () => (state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff) / 0x7fffffff;
    const taskID = await begin();
    for (let count = 0; count < 40; count += 1) await append(taskID, message(`${count}`));
    const all = (await store.read(taskID)).map(({ position }) => position);
    await using proxy = await cutting(double.port, () => 2600 + Math.floor(random() * 4000));
    const stream = await openEvents({
      fetch,
      url: `${proxy.url}/task/${taskID}/events`,
      headers: {},
      after: 0,
      signal: undefined,
      waitMs: 5,
    });
    if (stream.error !== undefined) throw stream.error as Error;
    const ids: number[] = [];
    let last = "";
    for await (const frame of stream.data) {
      last = frame.type;
      if ("id" in frame) ids.push(frame.id);
      if (ids.length === all.length && frame.type !== "task.settled" && "id" in frame)
        all.push(...(await append(taskID, settled())));
    }
    expect(ids, `TEST_SEED=${seed}`).toEqual(all);
    // Cut after the last event, it learns of the end by a 204.
    expect(["task.settled", "stream.end"]).toContain(last);
    expect(proxy.connections()).toBeGreaterThan(3);
  });

  test("it gives up after a bounded number of tries, and ends quietly with its signal", async () => {
    const taskID = await begin();
    const proxy = await cutting(double.port, () => 1_000_000);
    const source = {
      fetch,
      url: `${proxy.url}/task/${taskID}/events`,
      headers: {},
      after: undefined,
      signal: undefined,
      tries: 3,
      waitMs: 5,
    };
    const stream = await openEvents(source);
    if (stream.error !== undefined) throw stream.error as Error;
    const iterator = stream.data[Symbol.asyncIterator]();
    expect((await iterator.next()).value).toMatchObject({ type: "task.snapshot" });
    const closing = proxy[Symbol.asyncDispose]();
    const next = iterator.next();
    await double.close();
    await closing;
    await expect(next).rejects.toThrow();
    double = await open();

    const stop = new AbortController();
    const client = createServiceClient({ baseUrl: double.url });
    const { data } = await client.task.events({ path: { taskID }, signal: stop.signal });
    const types: string[] = [];
    for await (const { type } of data ?? []) {
      types.push(type);
      stop.abort();
    }
    expect(types).toEqual(["task.snapshot"]);
  });

  test("a refusal is an error, not an exception", async () => {
    const client = createServiceClient({ baseUrl: double.url });
    const refused = await client.task.events({ path: { taskID: "task_x" } });
    expect(refused).toMatchObject({ data: undefined, error: { code: "task_not_found", status: 404 } });
    const nobody = createServiceClient({ baseUrl: "http://127.0.0.1:9" });
    expect((await nobody.task.events({ path: { taskID: "task_x" } })).error).toBeInstanceOf(Error);
    expect((await nobody.task.status({ path: { taskID: "task_x" } })).error).toBeDefined();
    await expect(nobody.task.status({ path: { taskID: "task_x" }, throwOnError: true })).rejects.toBeDefined();
    const taskID = await begin();
    const [end] = await append(taskID, settled());
    const over = await client.task.events({ path: { taskID }, query: { after: end ?? 0 } });
    const types: string[] = [];
    for await (const { type } of over.data ?? []) types.push(type);
    expect([over.error, types]).toEqual([undefined, []]);
  });

  test("wait: until it is settled, for so long, until told to stop; without a stream it asks again", async () => {
    const taskID = await begin();
    const client = createServiceClient({ baseUrl: double.url });
    const path = { taskID };
    const timedOut = await client.task.wait({ path, timeoutMs: 50 });
    expect(timedOut.error).toMatchObject({ name: "TimeoutError" });
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 30);
    expect((await client.task.wait({ path, signal: stop.signal })).error).toMatchObject({ name: "AbortError" });
    await using crowded = await open({ streams: 0 });
    const both = [client.task.wait({ path }), createServiceClient({ baseUrl: crowded.url }).task.wait({ path })];
    setTimeout(() => void append(taskID, settled()), 50);
    for (const { data } of await Promise.all(both)) expect(data?.lifecycleStatus).toBe("completed");
    expect((await client.task.wait({ path: { taskID: "task_x" } })).error).toMatchObject({ code: "task_not_found" });
  });
});
