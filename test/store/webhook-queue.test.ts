import { describe, expect, test } from "vitest";
import { newID } from "../../src/id.ts";
import type { Store } from "../../src/store/store.ts";
import { callback, type NewDelivery, type Verdict } from "../../src/store/webhook-queue.ts";
import { created, settled } from "../harness/events.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { type Backend, backends, type Place } from "../harness/store.ts";
import { hook } from "./hook.ts";

/** What a store keeps of webhooks and of what is to be told to them, on every implementation. */

const begin = async (store: Store, url?: string): Promise<string> => {
  const first = created();
  const stream = first.data.taskID;
  const done = await store.commit({
    appends: [{ stream, expected: 0, events: [first] }],
    ...(url === undefined ? {} : { callbacks: [{ stream, url }] }),
  });
  if (!done.ok) throw new Error(done.reason);
  return stream;
};

let serial = 0;
const delivery = (stream: string, webhook: string, over: Partial<NewDelivery> = {}): NewDelivery => ({
  id: newID("dlv"),
  webhook,
  target: webhook,
  stream,
  message: `evt_${(serial += 1)}`,
  type: "task.completed",
  position: serial,
  body: "{}",
  ...over,
});

const claim = (store: Store, now: number, limit = 10, worker = "here/1") =>
  store.webhooks.claim({ now, worker, leaseMs: 100, limit });
const verdict = (over: Partial<Verdict> = {}): Verdict => ({
  state: "delivered",
  dueAt: 0,
  status: 204,
  reason: null,
  duration: 3,
  ...over,
});

const cases: { name: string; needs?: "beside"; run: (place: Place) => Promise<void> }[] = [
  {
    name: "webhooks are kept as they are, changed, counted, bounded and removed with what is theirs",
    async run({ store }) {
      const task = await begin(store);
      const one = hook({ project: "/work/project", directory: "/work/project", events: ["task.failed", "task.asked"] });
      expect(await store.webhooks.add(one, 2)).toBe(true);
      expect(await store.webhooks.list()).toEqual([{ ...one, since: 1, failingSince: null }]);
      const secrets = [
        { secret: "whsec_2", until: null },
        { secret: "whsec_1", until: 99 },
      ];
      expect(await store.webhooks.change(one.id, { state: "disabled", reason: "gone", secrets, failingSince: 7 })).toBe(
        true,
      );
      expect(await store.webhooks.list()).toEqual([
        { ...one, since: 1, state: "disabled", reason: "gone", secrets, failingSince: 7 },
      ]);
      expect(await store.webhooks.change("hook_none", { state: "paused" })).toBe(false);
      const two = hook();
      expect(await store.webhooks.add(two, 2)).toBe(true);
      expect(await store.webhooks.add(hook(), 2)).toBe(false);
      await store.webhooks.record([delivery(task, one.id), delivery(task, two.id)], 1, 5);
      expect(await store.webhooks.counts()).toEqual({ pending: 2, dead: 0, enabled: 1, paused: 0, disabled: 1 });
      expect(await store.webhooks.remove(one.id)).toBe(true);
      expect(await store.webhooks.remove(one.id)).toBe(false);
      expect((await store.webhooks.deliveries({ limit: 9 })).map(({ webhook }) => webhook)).toEqual([two.id]);
    },
  },
  {
    name: "the first secret of callbacks stays, whoever comes at the same time",
    async run({ store }) {
      expect(await store.webhooks.secrets()).toEqual([]);
      const made = await Promise.all(["whsec_a", "whsec_b", "whsec_c"].map((secret) => store.webhooks.secrets(secret)));
      expect(new Set(made.map((secrets) => JSON.stringify(secrets))).size).toBe(1);
      expect(made[0]).toHaveLength(1);
      await store.webhooks.setSecrets([{ secret: "whsec_d", until: null }]);
      expect(await store.webhooks.secrets("whsec_e")).toEqual([{ secret: "whsec_d", until: null }]);
    },
  },
  {
    name: "what is told of a fact is recorded once, with how far the log was looked through; of what is gone nothing is",
    async run({ store }) {
      const task = await begin(store);
      const { id } = hook();
      await store.webhooks.add(hook({ id }), 9);
      const one = delivery(task, id);
      await store.webhooks.record([one], 7, 5);
      await store.webhooks.record(
        [{ ...one, id: newID("dlv") }, delivery("task_none", id), delivery(task, "hook_none")],
        4,
        6,
      );
      expect(await store.webhooks.deliveries({ limit: 9 })).toEqual([
        { ...one, state: "pending", attempts: 0, dueAt: 5, last: null, created: 5, updated: 5 },
      ]);
      expect(await store.webhooks.position()).toBe(7);
      const bad = { ...delivery(task, id), type: null as unknown as string };
      await expect(store.webhooks.record([delivery(task, id), bad], 8, 6)).rejects.toThrow();
      expect(await store.webhooks.position()).toBe(7);
      expect(await store.webhooks.deliveries({ limit: 9 })).toHaveLength(1);
    },
  },
  {
    name: "what was put off before the clock was set back is due at the start; control: what was put off since waits",
    async run({ store }) {
      const task = await begin(store);
      const [early, late] = [hook(), hook()];
      for (const each of [early, late]) await store.webhooks.add(each, 9);
      const [before, since] = [delivery(task, early.id), delivery(task, late.id)];
      await store.webhooks.record([before, since], 1, 10);
      await claim(store, 10);
      const later = { state: "pending", dueAt: 8_000, status: 500 } as const;
      expect(await store.webhooks.conclude(before.id, "here/1", verdict(later), 7_000)).toBe(true);
      expect(await store.webhooks.conclude(since.id, "here/1", verdict(later), 900)).toBe(true);
      expect(await claim(store, 1_000)).toEqual([]);
      await store.webhooks.free("here/", 1_000);
      expect((await claim(store, 1_000)).map(({ id }) => id)).toEqual([before.id]);
      expect((await claim(store, 8_000)).map(({ id }) => id)).toContain(since.id);
    },
  },
  {
    name: "a target has one in hand; a lease that ended, or was given back, is somebody else's",
    async run({ store }) {
      const task = await begin(store, "https://example.org/own?token=1");
      const [a, b] = [hook(), hook()];
      for (const each of [a, b]) await store.webhooks.add(each, 9);
      const [first, second] = [delivery(task, a.id), delivery(task, a.id)];
      const other = delivery(task, b.id);
      const own = delivery(task, callback, { target: "callback https://example.org" });
      await store.webhooks.record([first, second, other, own], 1, 10);
      expect(await claim(store, 9)).toEqual([]);
      const taken = await claim(store, 10);
      expect(taken.map(({ id, url }) => [id, url])).toEqual([
        [first.id, null],
        [other.id, null],
        [own.id, "https://example.org/own?token=1"],
      ]);
      expect(await claim(store, 11, 10, "here/2")).toEqual([]);
      expect(await store.webhooks.conclude(first.id, "here/1", verdict(), 12)).toBe(true);
      expect((await claim(store, 12, 10, "here/2")).map(({ id }) => id)).toEqual([second.id]);
      // By time, and by name.
      expect((await claim(store, 110, 10, "here/3")).map(({ id }) => id)).toEqual([other.id, own.id]);
      expect(await store.webhooks.conclude(other.id, "here/1", verdict(), 111)).toBe(false);
      await store.webhooks.free("here/3", 111);
      expect((await claim(store, 111, 1, "here/4")).map(({ id }) => id)).toEqual([other.id]);
      expect((await claim(store, 111, 9, "there/1")).map(({ id }) => id)).toEqual([own.id]);
    },
  },
  {
    name: "what failed is due when it is due; paused and disabled ones are passed by",
    async run({ store }) {
      const task = await begin(store);
      const a = hook();
      await store.webhooks.add(a, 9);
      const one = delivery(task, a.id);
      expect(await store.webhooks.nextDue()).toBeUndefined();
      await store.webhooks.record([one], 1, 10);
      expect(await store.webhooks.nextDue()).toBe(10);
      await claim(store, 10);
      expect(await store.webhooks.nextDue()).toBe(110);
      const failed = verdict({ state: "pending", dueAt: 500, status: 500, reason: "Answered 500" });
      await store.webhooks.conclude(one.id, "here/1", failed, 20);
      expect(await store.webhooks.deliveries({ limit: 1 })).toMatchObject([
        { attempts: 1, dueAt: 500, updated: 20, last: { status: 500, reason: "Answered 500", duration: 3 } },
      ]);
      expect(await store.webhooks.nextDue()).toBe(500);
      await store.webhooks.change(a.id, { state: "paused" });
      expect(await store.webhooks.nextDue()).toBeUndefined();
      expect(await claim(store, 600)).toEqual([]);
      await store.webhooks.change(a.id, { state: "enabled" });
      expect(await claim(store, 499)).toEqual([]);
      expect(await claim(store, 500)).toMatchObject([{ id: one.id, attempts: 1 }]);
      await store.webhooks.bury(a.id, "disabled", 501);
      expect(await store.webhooks.conclude(one.id, "here/1", verdict(), 502)).toBe(false);
      expect(await store.webhooks.deliveries({ state: "dead", limit: 1 })).toMatchObject([
        { last: { reason: "disabled" } },
      ]);
    },
  },
  {
    name: "what is over is listed in pages, told again, and forgotten in time",
    async run({ store }) {
      const task = await begin(store);
      const [a, b] = [hook(), hook()];
      for (const each of [a, b]) await store.webhooks.add(each, 9);
      const all = Array.from({ length: 6 }, (_, n) => delivery(task, n < 3 ? a.id : b.id, { target: `t${n}` }));
      await store.webhooks.record(all, 1, 10);
      await claim(store, 10);
      for (const [n, { id }] of all.entries())
        await store.webhooks.conclude(id, "here/1", verdict(n % 2 === 0 ? {} : { state: "dead" }), 20 + n);
      const first = await store.webhooks.deliveries({ limit: 4 });
      const rest = await store.webhooks.deliveries({ limit: 4, cursor: first.at(-1)?.id ?? "" });
      expect([...first, ...rest].map(({ id }) => id)).toEqual(all.map(({ id }) => id).reverse());
      expect(await store.webhooks.deliveries({ limit: 9, state: "dead", webhook: a.id, stream: task })).toHaveLength(1);
      expect(await store.webhooks.redeliver({ since: 11 }, 30)).toBe(0);
      expect(await store.webhooks.redeliver({ since: 10, webhook: b.id }, 30)).toBe(2);
      expect(await store.webhooks.redeliver({ id: all[0]?.id ?? "" }, 31)).toBe(1);
      expect(await store.webhooks.redeliver({ id: all[0]?.id ?? "" }, 31)).toBe(0);
      expect((await claim(store, 31)).map(({ id, attempts }) => [id, attempts])).toEqual(
        [all[3], all[5], all[0]].map((one) => [one?.id, 0]),
      );
      expect(await store.webhooks.counts()).toMatchObject({ pending: 3, dead: 1 });
      await store.webhooks.purge({ delivered: 0, keep: 1, rest: 0 });
      expect((await store.webhooks.deliveries({ state: "delivered", limit: 9 })).map(({ id }) => id)).toEqual([
        all[4]?.id,
      ]);
      await store.webhooks.purge({ delivered: 25, keep: 1, rest: 0 });
      expect(await store.webhooks.deliveries({ state: "delivered", limit: 9 })).toEqual([]);
      await store.webhooks.purge({ delivered: 0, keep: 1, rest: 22 });
      expect((await store.webhooks.deliveries({ limit: 9 })).map(({ id }) => id)).toEqual(
        [all[5], all[3], all[0]].map((one) => one?.id),
      );
    },
  },
  {
    name: "with its Task goes what was to be told of it, and where",
    async run({ store }) {
      const [gone, stays] = [await begin(store, "https://example.org/a"), await begin(store, "https://example.org/b")];
      const target = callback;
      await store.webhooks.record(
        [delivery(gone, callback, { target }), delivery(stays, callback, { target: "b" })],
        2,
        1,
      );
      await store.commit({ appends: [{ stream: gone, expected: 1, events: [settled()] }] });
      expect(await store.erase(gone, 2)).toBe(true);
      expect(await claim(store, 5)).toMatchObject([{ stream: stays, url: "https://example.org/b" }]);
      await store.webhooks.record([delivery(gone, callback)], 3, 1);
      expect(await store.webhooks.deliveries({ stream: gone, limit: 5 })).toEqual([]);
    },
  },
  {
    name: "a refused commit leaves no callback",
    async run({ store }) {
      const stream = await begin(store, "https://example.org/first");
      const again = await store.commit({
        appends: [{ stream, expected: 0, events: [created({ taskID: stream })] }],
        callbacks: [{ stream, url: "https://example.org/second" }],
      });
      expect(again).toMatchObject({ ok: false, reason: "version" });
      await store.webhooks.record([delivery(stream, callback)], 1, 1);
      expect(await claim(store, 5)).toMatchObject([{ url: "https://example.org/first" }]);
    },
  },
  {
    name: "processes on one database: each is somebody's alone, and one looks on from where another did",
    needs: "beside",
    async run({ store, beside }) {
      const other = await beside?.();
      if (other === undefined) throw new Error("Expected a second store");
      const task = await begin(store);
      const a = hook();
      await store.webhooks.add(a, 9);
      const all = Array.from({ length: 40 }, (_, n) => delivery(task, a.id, { target: `t${n}` }));
      await Promise.all(
        [store, other].map((each) =>
          each.webhooks.record(
            all.map((one) => ({ ...one, id: newID("dlv") })),
            1,
            1,
          ),
        ),
      );
      expect(await other.webhooks.position()).toBe(1);
      expect(await store.webhooks.deliveries({ limit: 99 })).toHaveLength(40);
      const taken: string[] = [];
      // Who comes second at a row goes without it, and asks again.
      for (let round = 0; round < 40 && taken.length < 40; round += 1)
        for (const found of await Promise.all(
          [store, other, store, other].map((each, n) => claim(each, 5, 3, `w${n}/`)),
        ))
          taken.push(...found.map(({ id }) => id));
      expect(taken.length).toBe(40);
      expect(new Set(taken).size).toBe(40);
    },
  },
];

const suite = (backend: Backend): void => {
  describe(backend.name, () => {
    for (const { name, needs, run } of cases) {
      if (needs === "beside" && backend.name !== "PostgreSQL") continue;
      test(name, async () => {
        await using place = await backend.open();
        await run(place);
      });
    }
  });
};

for (const backend of backends) suite(backend);
if (postgresURL === undefined) {
  countSkipped(cases.length);
  describe.skip("PostgreSQL", () => {
    for (const { name } of cases) test(name, () => {});
  });
}
