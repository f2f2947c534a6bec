import { EventEmitter } from "node:events";
import { type ServerResponse } from "node:http";
import { Webhook as Verifier } from "standardwebhooks";
import { describe, expect, test } from "vitest";
import type { DomainEvent } from "../../src/domain/event.ts";
import type { Log } from "../../src/log.ts";
import type { WebhookCreate } from "../../src/protocol/webhook.ts";
import type { Store } from "../../src/store/store.ts";
import { unreadable } from "../../src/store/unavailable.ts";
import { retryDelays } from "../../src/webhook/retry.ts";
import { parseAllowed, type TargetOptions } from "../../src/webhook/target.ts";
import { createWebhooks, onCommit, type Webhooks, type WebhooksDeps } from "../../src/webhook/service.ts";
import { created, settled } from "../harness/events.ts";
import { message } from "../fixtures/store/message.ts";
import { until } from "../harness/project.ts";
import { type Received, startReceiver, verified } from "../harness/receiver.ts";
import { type Backend, backends } from "../harness/store.ts";
import { night } from "../harness/night.ts";

/**
 * What is told to whom, and when again: real stores, real receivers on this machine; the clock is the test's. Which
 * facts are told over HTTP is in test/service/webhook/webhook.test.ts, what a kill leaves in
 * test/crash/webhook.test.ts.
 */

const hour = 3_600_000;

type Lab = AsyncDisposable & {
  store: Store;
  webhooks: Webhooks;
  clock: { now: number };
  warnings: { data: object; message: string }[];
  known: string[];
  /** A Task, with its stream. */
  task(callbackURL?: string): Promise<string>;
  commit(stream: string, ...events: DomainEvent[]): Promise<void>;
  add(url: string, more?: Partial<WebhookCreate>): Promise<{ id: string; secret: string }>;
  /** Time passes, and somebody looks. */
  pass(ms: number): void;
  /** The sender and the follower anew, as after a restart. */
  restart(): Promise<void>;
  /** Those of another node on the same log, which is told what is changed here unless it is deaf. */
  beside(deaf?: "deaf"): Promise<Pick<Lab, "commit">>;
};

/** Identities of directories that are not their own. */
const projects = new Map([
  ["/data/repositories/app/head", "https://git.example/app"],
  ["/srv/worktree", "/srv/mirror.git"],
]);

const openLab = async (
  backend: Backend,
  {
    allow = ["127.0.0.1"],
    way = {},
    claimed = () => {},
  }: { allow?: string[]; way?: TargetOptions; claimed?: (clock: Lab["clock"]) => void } = {},
): Promise<Lab> => {
  const scope = new AsyncDisposableStack();
  const place = scope.use(await backend.open());
  const clock = { now: Date.now() };
  const warnings: Lab["warnings"] = [];
  const log: Log = {
    debug() {},
    info() {},
    warn: (data, text) => void warnings.push({ data, message: text }),
    error: (data, text) => void warnings.push({ data, message: text }),
  };
  const allowed = parseAllowed(allow);
  if (typeof allowed === "string") throw new Error(allowed);
  const known: string[] = [];
  let current: Webhooks | undefined;
  const hearing = new EventEmitter();
  const others: WebhooksDeps["others"] = {
    tell: (topic, words) => void hearing.emit(topic, words),
    onTold: () => ({ [Symbol.dispose]: () => {} }),
  };
  const webhooks: Store["webhooks"] = {
    ...place.store.webhooks,
    async claim(options) {
      const found = await place.store.webhooks.claim(options);
      if (found.length > 0) claimed(clock);
      return found;
    },
  };
  const store = onCommit({ ...place.store, webhooks }, (events) => current?.heard(events));
  const start = (more: Partial<WebhooksDeps> = {}) =>
    createWebhooks({
      wall: () => clock.now,
      others,
      store,
      allowed,
      way,
      project: (directory) => Promise.resolve({ directory, project: projects.get(directory) ?? directory }),
      learn: (secrets) => void known.splice(0, known.length, ...secrets),
      redact: (text) => text.replaceAll("canary", "[redacted]"),
      instance: "lab/",
      worker: `lab/${Math.random()}`,
      log,
      now: () => new Date(clock.now),
      random: () => 0,
      ...more,
    });
  const commitTo = async (to: Pick<Store, "commit">, stream: string, events: DomainEvent[]) => {
    const done = await to.commit({ appends: [{ stream, expected: "any", events }] });
    if (!done.ok) throw new Error(done.reason);
  };
  const lab: Lab = {
    store,
    webhooks: await start(),
    clock,
    warnings,
    known,
    async task(callbackURL) {
      const first = created(callbackURL === undefined ? {} : { callbackURL: new URL("/", callbackURL).href });
      const stream = first.data.taskID;
      const done = await store.commit({
        appends: [{ stream, expected: 0, events: [first] }],
        ...(callbackURL === undefined ? {} : { callbacks: [{ stream, url: callbackURL }] }),
      });
      if (!done.ok) throw new Error(done.reason);
      return stream;
    },
    commit: (stream, ...events) => commitTo(store, stream, events),
    async add(url, more = {}) {
      const { webhook, secret } = await lab.webhooks.create({ url, ...more }, undefined);
      return { id: webhook.id, secret };
    },
    pass(ms) {
      clock.now += ms;
      lab.webhooks.wake();
    },
    async restart() {
      current = undefined;
      await lab.webhooks[Symbol.asyncDispose]();
      lab.webhooks = await start();
      current = lab.webhooks;
    },
    async beside(deaf) {
      const onTold = (topic: string, listener: (words: readonly unknown[]) => void): Disposable => {
        if (deaf === undefined) hearing.on(topic, listener);
        return { [Symbol.dispose]: () => void hearing.off(topic, listener) };
      };
      const worker = `beside/${Math.random()}`;
      const node = scope.use(await start({ others: { tell: () => {}, onTold }, instance: worker, worker }));
      const own = onCommit(place.store, (events) => node.heard(events));
      return { commit: (stream, ...events) => commitTo(own, stream, events) };
    },
    async [Symbol.asyncDispose]() {
      await lab.webhooks[Symbol.asyncDispose]();
      await scope.disposeAsync();
    },
  };
  current = lab.webhooks;
  return lab;
};

const say =
  (status: number, headers: Record<string, string> = {}, body = "") =>
  (_: Received, response: ServerResponse): void =>
    void response.writeHead(status, headers).end(body);

/** Whether one of its signatures is what the library makes of it, whatever the time is. */
const signedBy = (secret: string, { headers, body }: Received): boolean => {
  const at = new Date(Number(headers["webhook-timestamp"]) * 1000);
  const wanted = new Verifier(secret).sign(headers["webhook-id"] ?? "", at, body);
  return (headers["webhook-signature"] ?? "").split(" ").includes(wanted);
};

const one = async (lab: Lab, pleases: (delivery: Awaited<ReturnType<Webhooks["deliveries"]>>[number]) => boolean) =>
  (
    await until(
      () => lab.webhooks.deliveries({ limit: 10 }),
      ([first]) => first !== undefined && pleases(first),
    )
  )[0]!;

/** The file and PostgreSQL; `:memory:` is the same code as the file. */
const stores = backends.filter(({ name }) => name !== "SQLite :memory:");
const [file] = backends;
if (file === undefined) throw new Error("Expected a store");

describe.each(stores.map((backend) => [backend.name, backend] as const))("%s", (_, backend) => {
  test("a target that fails is asked again by the schedule, with the same id and body, and signed anew", async () => {
    let failures = 4;
    await using receiver = await startReceiver((received, response) =>
      say(failures-- > 0 ? 500 : 204, {}, failures >= 0 ? "no canary" : "")(received, response),
    );
    await using lab = await openLab(backend);
    const { id, secret } = await lab.add(receiver.url);
    const begun = lab.clock.now;
    const task = await lab.task();
    await lab.commit(task, settled());
    for (const [n, delay] of retryDelays.slice(0, 4).entries()) {
      const failed = await one(lab, ({ attempts }) => attempts === n + 1);
      expect(failed).toMatchObject({ state: "pending", dueAt: lab.clock.now + delay });
      expect(failed.last).toMatchObject({ status: 500, reason: "Answered 500: no [redacted]" });
      // Not a moment earlier.
      lab.pass(delay - 1);
      await new Promise((resolve) => setTimeout(resolve, 30));
      expect(receiver.received).toHaveLength(n + 1);
      lab.pass(1);
    }
    expect(await one(lab, ({ state }) => state === "delivered")).toMatchObject({ attempts: 5, last: { status: 204 } });
    const { received } = receiver;
    expect(new Set(received.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
    expect(new Set(received.map(({ body }) => body)).size).toBe(1);
    expect(received.map(({ headers }) => Number(headers["webhook-timestamp"]))).toEqual(
      [0, ...retryDelays.slice(0, 4)].map((_, n) =>
        Math.floor((begun + retryDelays.slice(0, n).reduce((sum, each) => sum + each, 0)) / 1000),
      ),
    );
    expect(received.map((each) => signedBy(secret, each))).toEqual([true, true, true, true, true]);
    await until(
      () => lab.webhooks.get(id),
      ({ failingSince }) => failingSince === null,
    );
  });

  test("after ten attempts it is dead; told again it begins anew, and five days without success disable the webhook", async () => {
    let works = false;
    await using receiver = await startReceiver((received, response) => say(works ? 200 : 503)(received, response));
    await using lab = await openLab(backend);
    const { id } = await lab.add(receiver.url);
    await lab.commit(await lab.task(), settled());
    for (const [n, delay] of retryDelays.entries()) {
      await one(lab, ({ attempts }) => attempts === n + 1);
      lab.pass(delay);
    }
    const dead = await one(lab, ({ state }) => state === "dead");
    expect(dead).toMatchObject({ attempts: 10, last: { status: 503 } });
    expect(receiver.received).toHaveLength(10);
    expect(await lab.webhooks.counts()).toMatchObject({ pending: 0, dead: 1, enabled: 1 });
    lab.pass(48 * hour);
    await lab.webhooks.redeliver(dead.id);
    await until(
      () => lab.webhooks.get(id),
      ({ state }) => state === "disabled",
    );
    expect((await lab.webhooks.get(id)).reason).toContain("No attempt has succeeded since");
    await until(
      () => Promise.resolve(lab.warnings.at(-1)?.message ?? ""),
      (said) => said.includes(`sortie webhook resume ${id}`),
    );
    expect(await lab.webhooks.counts()).toMatchObject({ pending: 0, dead: 1, disabled: 1 });
    // The control: it works again.
    works = true;
    await lab.webhooks.update(id, { state: "enabled" });
    expect(await lab.webhooks.redeliverSince(new Date(0), undefined)).toBe(1);
    expect(await one(lab, ({ state }) => state === "delivered")).toMatchObject({ attempts: 1 });
    expect(new Set(receiver.received.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
  });

  test("what is on record when nobody looked is told by the next start, and what was told is not told again", async () => {
    await using receiver = await startReceiver();
    await using lab = await openLab(backend);
    await lab.add(receiver.url);
    const task = await lab.task();
    await lab.commit(task, settled());
    await one(lab, ({ state }) => state === "delivered");
    await lab.webhooks[Symbol.asyncDispose]();
    await lab.commit(task, message(), settled({ lifecycleStatus: "failed", error: "No." }));
    await lab.restart();
    await receiver.got(2);
    expect(receiver.types()).toEqual(["task.completed", "task.failed"]);
    await lab.restart();
    await lab.restart();
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(receiver.received).toHaveLength(2);
  });

  test("a message says how it stood with the fact, whatever has come since", async () => {
    await using receiver = await startReceiver();
    await using lab = await openLab(backend);
    await lab.add(receiver.url);
    const task = await lab.task();
    await lab.webhooks[Symbol.asyncDispose]();
    await lab.commit(task, settled({ lifecycleStatus: "failed", error: "It broke." }));
    await lab.commit(task, message());
    await lab.commit(task, { type: "task.updated", data: { title: "Another title" } });
    await lab.restart();
    const [{ message: told } = expect.fail()] = await receiver.got(1);
    expect(told).toMatchObject({
      type: "task.failed",
      data: {
        title: "Make the test pass",
        status: "inactive",
        lifecycleStatus: "failed",
        error: "It broke.",
        attempt: 1,
      },
    });
  });

  test("a read that fails beside others loses no fact; control: what cannot be told at all holds up no other", async () => {
    await using receiver = await startReceiver();
    await using lab = await openLab(backend);
    await lab.add(receiver.url, { events: ["task.completed"] });
    const tasks = [await lab.task(), await lab.task(), await lab.task()];
    const state = lab.store.state.bind(lab.store);
    let failures = 2;
    const failing = (fault: Error) => async (stream: string) => {
      if (stream === tasks[1] && failures-- > 0) throw fault;
      return state(stream);
    };
    lab.store.state = failing(unreadable(new Error("Connection terminated unexpectedly")));
    for (const task of tasks) await lab.commit(task, settled());
    await receiver.got(3);
    const told = () => receiver.received.map(({ message: { data } }) => ("taskID" in data ? data.taskID : ""));
    expect(told().toSorted()).toEqual(tasks.toSorted());
    expect(failures).toBe(-1);

    failures = 1;
    lab.store.state = failing(new Error("no such thing"));
    for (const task of tasks) await lab.commit(task, message(), settled());
    await receiver.got(5);
    expect(new Set(told().slice(3))).toEqual(new Set([tasks[0], tasks[2]]));
    expect(lab.warnings.filter(({ message: text }) => text === "an event was not sent to webhooks")).toHaveLength(1);
  });

  test("a Task that is erased is not told of any more", async () => {
    await using receiver = await startReceiver(say(500));
    await using lab = await openLab(backend);
    await lab.add(receiver.url);
    const [gone, stays] = [await lab.task(`${receiver.url}/own`), await lab.task()];
    await lab.commit(gone, settled());
    await lab.commit(stays, settled());
    await receiver.got(3);
    await lab.store.erase(gone);
    lab.pass(5000);
    await receiver.got(4);
    lab.pass(5 * hour);
    await receiver.got(5);
    const later = receiver.received.slice(3).map(({ message: told }) => told.data);
    expect(later).toMatchObject([{ taskID: stays }, { taskID: stays }]);
  });
});

describe("answers", () => {
  test("Retry-After is kept to, a day at most; a date and a number; of other answers it is not read", async () => {
    const answers = [
      say(503, { "retry-after": "3600" }),
      say(429, { "retry-after": "99999999" }),
      say(500, { "retry-after": "86400" }),
      say(503, { "retry-after": "soon" }),
      say(503, { "retry-after": "1" }),
    ];
    await using receiver = await startReceiver((received, response) => answers.shift()?.(received, response));
    await using lab = await openLab(file);
    await lab.add(receiver.url);
    await lab.commit(await lab.task(), settled());
    for (const [n, wait] of [hour, 24 * hour, retryDelays[2]!, retryDelays[3]!, retryDelays[4]!].entries()) {
      const { dueAt } = await one(lab, ({ attempts }) => attempts === n + 1);
      expect(dueAt - lab.clock.now).toBe(wait);
      lab.pass(wait);
    }
  });

  test("410 disables the webhook at once with all that waits for it; a callback's own delivery alone", async () => {
    await using receiver = await startReceiver((received, response) =>
      say(received.path === "/works" ? 204 : 410)(received, response),
    );
    await using lab = await openLab(file);
    const { id } = await lab.add(`${receiver.url}/gone`);
    const works = await lab.add(`${receiver.url}/works`);
    const own = await lab.task(`${receiver.url}/own`);
    await lab.commit(own, settled());
    await until(
      () => lab.webhooks.get(id),
      ({ state }) => state === "disabled",
    );
    expect(await lab.webhooks.get(id)).toMatchObject({ reason: "The target answered 410: it is permanently gone." });
    const all = await until(
      () => lab.webhooks.deliveries({ limit: 9 }),
      (found) => found.length === 3 && found.every(({ state }) => state !== "pending"),
    );
    expect(Object.fromEntries(all.map(({ webhook, state }) => [webhook, state]))).toEqual({
      [id]: "dead",
      [works.id]: "delivered",
      callback: "dead",
    });
    await lab.commit(own, message(), settled());
    await until(
      () => lab.webhooks.deliveries({ limit: 9, webhook: "callback" }),
      (found) => found.length === 2,
    );
    expect(await lab.webhooks.deliveries({ limit: 9, webhook: id })).toHaveLength(1);
  });

  test("a redirect is not followed, wherever it leads", async () => {
    await using inside = await startReceiver();
    await using receiver = await startReceiver((received, response) =>
      say(received.path === "/direct" ? 204 : 307, { location: `${inside.url}/inner` })(received, response),
    );
    await using lab = await openLab(file);
    await lab.add(`${receiver.url}/around`);
    await lab.add(`${inside.url}/direct`);
    await lab.commit(await lab.task(), settled());
    await until(
      () => lab.webhooks.deliveries({ limit: 9 }),
      (found) => found.length === 2 && found.every(({ attempts }) => attempts === 1),
    );
    const [failed] = await lab.webhooks.deliveries({ limit: 9, state: "pending" });
    expect(failed?.last).toMatchObject({ status: 307, reason: expect.stringContaining("not followed") });
    expect(inside.received.map(({ path }) => path)).toEqual(["/direct"]);
  });

  test("a target that hangs is left after its time; one that says without an end what is wrong is heard to 1 KiB", async () => {
    await using receiver = await startReceiver((received, response) => {
      if (received.path === "/hang") return;
      response.writeHead(500);
      const more = () => {
        if (!response.destroyed) response.write("x".repeat(4096), () => setTimeout(more, 1));
      };
      more();
    });
    await using lab = await openLab(file, { way: { timeoutMs: 300 } });
    const [hang, endless] = [await lab.add(`${receiver.url}/hang`), await lab.add(`${receiver.url}/endless`)];
    await lab.commit(await lab.task(), settled());
    await until(
      () => lab.webhooks.deliveries({ limit: 9 }),
      (found) => found.length === 2 && found.every(({ attempts }) => attempts === 1),
    );
    const last = async (webhook: string) => (await lab.webhooks.deliveries({ limit: 1, webhook }))[0]?.last;
    expect(await last(hang.id)).toMatchObject({ status: null, reason: "No answer within 0.3 s" });
    expect((await last(hang.id))?.duration).toBeLessThan(3000);
    expect((await last(endless.id))?.reason).toMatch(/^Answered 500: x+…$/);
    expect((await last(endless.id))?.reason?.length).toBe(1024);
  });
});

test("a process that was stopped once it had claimed a delivery leaves it to whoever claims it next", async () => {
  const order: string[] = [];
  // The last is slow and no more: the control.
  const pauses = [120_000, 31_000, 25_000];
  await using receiver = await startReceiver((received, response) => {
    order.push("sent");
    say(204)(received, response);
  });
  await using lab = await openLab(file, {
    claimed(clock) {
      order.push("claimed");
      clock.now += pauses.shift() ?? 0;
      // Once the lease is over it may be claimed again.
      if (pauses.length === 1) setTimeout(() => lab.pass(60_000), 100);
    },
  });
  await lab.add(receiver.url);
  await lab.commit(await lab.task(), settled());
  const delivery = await one(lab, ({ state }) => state === "delivered");
  expect(order).toEqual(["claimed", "claimed", "claimed", "sent"]);
  // What was never sent was no attempt.
  expect(delivery.attempts).toBe(1);
});

describe("targets", () => {
  const resolve = (host: string) =>
    Promise.resolve(host === "two.example.com" ? ["127.0.0.1", "93.184.215.14"] : ["127.0.0.1"]);
  const attempt = async (url: string, allow: string[], way: TargetOptions = { resolve }) => {
    await using lab = await openLab(file, { allow, way });
    const { id } = await lab.add(url);
    const { delivered, reason } = await lab.webhooks.test(id, new AbortController().signal);
    return delivered ? "delivered" : reason;
  };

  test("a name that leads inside is refused when it is asked, with the reason; the control is a listed host", async () => {
    await using receiver = await startReceiver();
    const { port } = receiver;
    const why = (host: string) =>
      `Expected a public address of ${host}, got 127.0.0.1; webhooks.allow lists further permitted targets`;
    expect(await attempt("https://hooks.example.com/", [])).toBe(why("hooks.example.com"));
    expect(await attempt("https://two.example.com/", ["10.0.0.0/8"])).toBe(why("two.example.com"));
    expect(await attempt(`http://hooks.example.com:${port}/`, ["hooks.example.com"])).toBe("delivered");
    expect(await attempt(`http://hooks.example.com:${port}/`, [`hooks.example.com:${port}`])).toBe("delivered");
    expect(await attempt(`http://127.0.0.1:${port}/`, ["127.0.0.0/8"])).toBe("delivered");
    expect(receiver.received).toHaveLength(3);
  });

  test("what cannot be is refused when it is asked for, and nothing is kept", async () => {
    await using lab = await openLab(file, { allow: ["receiver:9000", "10.1.0.0/16", "::1", "fd00:1::/48"] });
    for (const url of [
      "http://receiver:9001/",
      "http://receiver/",
      "http://10.2.0.1/",
      "https://172.16.0.1/",
      "http://example.org/",
      "https://example.org:8443/",
      "https://a:b@example.org/",
      "ftp://receiver:9000/",
      "http://[::2]/",
      "http://[fd00:2::1]/",
      "http://u@receiver:9000/",
    ])
      await expect(lab.add(url), url).rejects.toMatchObject({
        code: "invalid_request",
        issues: [{ path: "body.url" }],
      });
    expect(await lab.webhooks.list()).toEqual([]);
    for (const url of [
      "http://receiver:9000/",
      "https://receiver:9000/",
      "http://10.1.2.3:8080/",
      "http://[::1]:1/",
      "http://[fd00:1::5]/",
      "https://example.org/",
    ])
      await lab.add(url);
    expect(await lab.webhooks.list()).toHaveLength(6);
  });

  test.each(["http://a", "a b", "a@b", "10.0.0.0/33", "::1/129", "", "a/b", "a:99999"])(
    "%j is no entry of the list",
    (entry) => {
      expect(parseAllowed([entry])).toMatch(/^expected a host/);
      expect(typeof parseAllowed(["a.example", "a:1", "::1", "[::1]:8080", "10.0.0.0/8"])).toBe("object");
    },
  );
});

describe("who is told", () => {
  test("a webhook that is made at one node is known to the others at once, who tell what came meanwhile, too", async () => {
    await using receiver = await startReceiver();
    await using lab = await openLab(file);
    const [other, deaf] = [await lab.beside(), await lab.beside("deaf")];
    const { id } = await lab.add(receiver.url);
    await deaf.commit(await lab.task(), settled());
    // Control: that one looks in half a minute.
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(receiver.received).toEqual([]);
    await other.commit(await lab.task(), settled());
    await receiver.got(2, 2000);
    // A fact that nobody has looked at since it came is found when the next change is told.
    await deaf.commit(await lab.task(), settled());
    await lab.webhooks.update(id, { description: "Again." });
    await receiver.got(3, 2000);
    expect(receiver.received).toHaveLength(3);
  });

  test("of its types, of its project, from now on, and not while it is paused", async () => {
    await using receiver = await startReceiver();
    await using lab = await openLab(file);
    const before = await lab.task();
    await lab.commit(before, settled());
    await lab.add(`${receiver.url}/failed`, { events: ["task.failed"] });
    await lab.webhooks.create({ url: `${receiver.url}/other` }, "/elsewhere");
    await lab.webhooks.create({ url: `${receiver.url}/own` }, "/work/project");
    const paused = await lab.add(`${receiver.url}/paused`);
    await lab.webhooks.update(paused.id, { state: "paused" });
    const task = await lab.task();
    await lab.commit(task, settled());
    await receiver.got(1);
    await lab.webhooks.update(paused.id, { state: "enabled" });
    await lab.commit(task, message(), settled({ lifecycleStatus: "failed", error: "No." }));
    await receiver.got(4);
    expect(receiver.received.map(({ path, message: { type } }) => `${path} ${type}`).toSorted()).toEqual([
      "/failed task.failed",
      "/own task.completed",
      "/own task.failed",
      "/paused task.failed",
    ]);
  });

  test("a rotated secret signs beside the new one for as long as was said, and no longer", async () => {
    await using receiver = await startReceiver();
    await using lab = await openLab(file);
    const { id, secret: old } = await lab.add(receiver.url);
    expect(lab.known).toEqual([old.slice("whsec_".length)]);
    const { secret } = await lab.webhooks.rotate(id, 2);
    expect(secret).not.toBe(old);
    expect(lab.known).toEqual([secret, old].map((each) => each.slice("whsec_".length)));
    await lab.commit(await lab.task(), settled());
    const [first = expect.fail()] = await receiver.got(1);
    expect([signedBy(old, first), signedBy(secret, first)]).toEqual([true, true]);
    expect([verified(old, first), verified(secret, first)]).toEqual([first.message, first.message]);
    lab.pass(2 * hour);
    await lab.commit(await lab.task(), settled());
    const [, second = expect.fail()] = await receiver.got(2);
    expect([signedBy(old, second), signedBy(secret, second)]).toEqual([false, true]);
  });

  test("a changed byte, an old time, another id and another secret are not believed; the message as it came is", async () => {
    await using receiver = await startReceiver();
    await using lab = await openLab(file);
    const { secret } = await lab.add(receiver.url);
    const other = (await lab.add(`${receiver.url}/2`, { events: ["mission.aborted"] })).secret;
    await lab.commit(await lab.task(), settled());
    const [came = expect.fail()] = await receiver.got(1);
    const { headers, body } = came;
    expect(Buffer.from(secret.slice("whsec_".length), "base64")).toHaveLength(32);
    expect(verified(secret, came)).toEqual(came.message);
    for (const wrong of [
      { body: body.replace("completed", "completeD"), headers },
      { body: `${body} `, headers },
      { body, headers: { ...headers, "webhook-timestamp": String(Number(headers["webhook-timestamp"]) - 1) } },
      { body, headers: { ...headers, "webhook-id": "evt_1" } },
    ])
      expect(() => verified(secret, wrong)).toThrow();
    expect(() => verified(other, came)).toThrow();
    const at = new Date(Date.now() - 600_000);
    const signature = new Verifier(secret).sign("evt_1", at, body);
    const old = { "webhook-id": "evt_1", "webhook-timestamp": String(Math.floor(at.getTime() / 1000)) };
    expect(() => verified(secret, { body, headers: { ...old, "webhook-signature": signature } })).toThrow(/old/);
  });
});

test("many facts with a target that hangs: the other has them in order and as quickly, and memory stays", {
  timeout: 120_000,
}, async () => {
  // A thousand at night.
  const count = night ? 1000 : 150;
  const run = async (dead: boolean) => {
    await using hangs = await startReceiver(() => {});
    await using receiver = await startReceiver();
    await using lab = await openLab(file, { way: { timeoutMs: 120_000 } });
    if (dead) await lab.add(hangs.url, { events: ["task.completed"] });
    await lab.add(receiver.url, { events: ["task.completed"] });
    const tasks = await Promise.all(Array.from({ length: count }, () => lab.task()));
    const heap = process.memoryUsage().heapUsed;
    const begun = performance.now();
    for (const task of tasks) await lab.commit(task, settled());
    await receiver.got(count, 100_000);
    const took = performance.now() - begun;
    expect(receiver.received.map(({ message: { data } }) => "eventID" in data && data.eventID)).toEqual(
      Array.from({ length: count }, (_, n) => count + n + 1),
    );
    expect(new Set(receiver.received.map(({ headers }) => headers["webhook-id"])).size).toBe(count);
    if (dead) {
      expect(hangs.received).toHaveLength(1);
      expect(await lab.webhooks.counts()).toMatchObject({ pending: count, dead: 0 });
    }
    return { took, heapMB: (process.memoryUsage().heapUsed - heap) / 1e6 };
  };
  const alone = await run(false);
  const beside = await run(true);
  process.stdout.write(
    `${count} facts: alone ${alone.took.toFixed(0)} ms and ${alone.heapMB.toFixed(0)} MB, beside a dead target ${beside.took.toFixed(0)} ms and ${beside.heapMB.toFixed(0)} MB\n`,
  );
  expect(beside.took).toBeLessThan(alone.took * 3 + 3000);
  expect(beside.heapMB).toBeLessThan(100);
});

test("the webhook of a repository that an earlier version knew by its mirror has the address after a start", async () => {
  await using lab = await openLab(file);
  const url = "http://127.0.0.1:9/";
  const { webhook: own } = await lab.webhooks.create({ url }, "/data/repositories/app/head");
  const { webhook: other } = await lab.webhooks.create({ url }, "/srv/worktree");
  expect([own.project, other.project]).toEqual(["https://git.example/app", "/srv/mirror.git"]);
  await lab.store.webhooks.change(own.id, { project: "/data/repositories/app/mirror.git" });
  // Control: it is read as it stands.
  expect((await lab.webhooks.get(own.id)).project).toBe("/data/repositories/app/mirror.git");
  await lab.restart();
  expect((await lab.webhooks.get(own.id)).project).toBe("https://git.example/app");
  expect((await lab.webhooks.get(other.id)).project).toBe("/srv/mirror.git");
});
