import { expect } from "vitest";
import type { Recorded } from "../../src/domain/event.ts";
import { summarise } from "../../src/domain/view/summary.ts";
import { taskRevision } from "../../src/domain/task/evolve.ts";
import { dueNow } from "../../src/engine/due.ts";
import { withClaim } from "../../src/store/claimed-stream.ts";
import type { IdempotencyRecord, Store, Write } from "../../src/store/store.ts";
import { created, settled } from "../harness/events.ts";
import { message } from "../fixtures/store/message.ts";
import { type Case, onEveryStore } from "./suite.ts";

/** What every store keeps, on every implementation. What only a process can show is in store-process.test.ts. */

const begin = async (store: Store, overrides: Parameters<typeof created>[0] = {}): Promise<string> => {
  const first = created(overrides);
  const stream = first.data.taskID;
  const done = await store.commit({ appends: [{ stream, expected: 0, events: [first] }] });
  if (!done.ok) throw new Error(`Expected a new Task, got ${done.reason}`);
  return stream;
};

const add = (stream: string, expected: number | "any" = "any", count = 1): Write => ({
  appends: [{ stream, expected, events: Array.from({ length: count }, () => message()) }],
});

const take = async (events: AsyncIterable<Recorded>, count: number): Promise<Recorded[]> => {
  const taken: Recorded[] = [];
  for await (const event of events) {
    taken.push(event);
    if (taken.length === count) break;
  }
  return taken;
};

const positions = (events: readonly Recorded[]): number[] => events.map(({ position }) => position);

const cases: Case[] = [
  {
    name: "events get positions, versions and a time, and are read again as they were",
    async run({ store }) {
      expect(await store.position()).toBe(0);
      const one = created({ title: "a \u0000 b \ud800 c", metadata: { "k\u0000": "\udfff", n: [1] } });
      const two = created();
      const [a, b] = [one.data.taskID, two.data.taskID];
      const done = await store.commit({
        appends: [
          { stream: a, expected: 0, events: [one, message()] },
          { stream: b, expected: 0, events: [two] },
        ],
      });
      if (!done.ok) throw new Error(done.reason);
      expect(done.recorded.map(({ stream, version, position }) => [stream, version, position])).toEqual([
        [a, 1, 1],
        [a, 2, 2],
        [b, 1, 3],
      ]);
      expect(await store.since(0, 10)).toEqual(done.recorded);
      expect(await store.since(1, 1)).toEqual(done.recorded.slice(1, 2));
      expect(await store.read(a)).toEqual(done.recorded.slice(0, 2));
      expect(await store.read(a, { after: 1 })).toEqual(done.recorded.slice(1, 2));
      expect(await store.read(a, { last: true, limit: 1 })).toEqual(done.recorded.slice(1, 2));
      expect(await store.read(a, { types: ["task.created"] })).toEqual(done.recorded.slice(0, 1));
      expect(await store.read("task_none")).toEqual([]);
      expect(await store.state("task_none")).toBeUndefined();
      expect(await store.position()).toBe(3);
      const [row] = await store.list({ project: "/work/project", limit: 5, metadata: { n: "[1]" } });
      expect(row?.title).toBe(one.data.title);
      await store.check();
    },
  },
  {
    name: "a write at another version is refused whole",
    async run({ store }) {
      const a = await begin(store);
      const b = await begin(store);
      const write = (expected: number): Write => ({
        appends: [...add(a, 1).appends, ...add(b, expected).appends],
        due: [{ stream: a, due: { at: new Date(0), rank: 1 } }],
        once: { scope: "s", key: "k", bodyHash: "h", answer: { status: 200, body: {} } },
      });
      expect(await store.commit(write(7))).toEqual({ ok: false, reason: "version", stream: b, version: 1 });
      expect(await store.position()).toBe(2);
      expect((await store.state(a))?.version).toBe(1);
      expect(await store.due(new Date(), 5)).toEqual([]);
      expect(await store.once("s", "k")).toBeUndefined();
      expect(await store.commit(add("task_new", 3))).toMatchObject({ ok: false, reason: "version", version: 0 });
      expect(await store.commit({ appends: [{ stream: a, expected: 2, events: [] }] })).toMatchObject({ ok: false });

      expect(await store.commit(write(1))).toMatchObject({ ok: true });
      expect((await store.state(a))?.version).toBe(2);
      expect(await store.due(new Date(), 5)).toHaveLength(1);
    },
  },
  {
    name: "only the holder of the claim writes under its fence",
    async run({ store }) {
      const stream = await begin(store);
      const claim = await store.claim(stream, "one");
      if (claim === undefined) throw new Error("Expected a claim");
      const fenced = (epoch = claim.fence.epoch): Write => ({ ...add(stream), fence: { stream, epoch } });
      expect(await store.commit(fenced())).toMatchObject({ ok: true });
      expect(await store.commit(fenced(claim.fence.epoch - 1))).toEqual({ ok: false, reason: "fence" });
      expect(await store.commit(fenced(claim.fence.epoch + 1))).toEqual({ ok: false, reason: "fence" });
      await claim.release();
      expect(await store.commit(fenced())).toEqual({ ok: false, reason: "fence" });
      const next = await store.claim(stream, "two");
      expect(next?.fence.epoch).toBeGreaterThan(claim.fence.epoch);
      expect(await store.commit(fenced())).toEqual({ ok: false, reason: "fence" });
      expect(await store.commit({ ...add(stream), fence: { stream: "task_none", epoch: 1 } })).toEqual({
        ok: false,
        reason: "fence",
      });
      expect((await store.state(stream))?.version).toBe(2);
      await next?.release();
    },
  },
  {
    name: "fifty parallel sends of one key have one effect and one answer",
    async run({ store, beside }) {
      const other = (await beside?.()) ?? store;
      const send = (index: number) => {
        const first = created();
        const once: IdempotencyRecord = {
          scope: "POST /task",
          key: "k",
          bodyHash: "h",
          answer: { status: 202, body: { taskID: first.data.taskID, eventID: 0 } },
          positionAs: "eventID",
        };
        const on = index % 2 === 0 ? store : other;
        return on.commit({ appends: [{ stream: first.data.taskID, expected: 0, events: [first] }], once });
      };
      const all = await Promise.all(Array.from({ length: 50 }, (_, index) => send(index)));
      const won = all.filter((done) => done.ok);
      expect(won).toHaveLength(1);
      const [event] = won[0]?.recorded ?? [];
      const stored = { status: 202, body: { taskID: event?.stream, eventID: event?.position } };
      for (const done of all) if (!done.ok) expect(done).toEqual({ ok: false, reason: "once", bodyHash: "h", stored });
      expect(await store.position()).toBe(1);
      expect(await store.once("POST /task", "k")).toEqual({ bodyHash: "h", stored });
      expect(await store.once("POST /other", "k")).toBeUndefined();
      await store.forget(new Date(Date.now() - 60_000));
      expect(await store.once("POST /task", "k")).toBeDefined();
      await store.forget(new Date(Date.now() + 60_000));
      expect(await store.once("POST /task", "k")).toBeUndefined();
    },
  },
  {
    name: "a refused member of a tick takes nothing from the others",
    async run({ store }) {
      const streams = await Promise.all(Array.from({ length: 10 }, () => begin(store)));
      const before = await store.position();
      const outcomes = await Promise.allSettled(
        streams.flatMap((stream) => [
          store.commit(add(stream, 1)),
          store.commit(add(stream, 1)),
          store.commit({ appends: [{ stream, expected: 2, events: [message(), created()] }] }),
          store.commit(add(stream, 2)),
        ]),
      );
      const told = outcomes.map((one) => (one.status === "rejected" ? "thrown" : one.value.ok));
      expect(told).toEqual(streams.flatMap(() => [true, false, "thrown", true]));
      for (const stream of streams) {
        expect((await store.read(stream)).map(({ version }) => version)).toEqual([1, 2, 3]);
        expect((await store.state(stream))?.version).toBe(3);
      }
      expect((await store.since(before, 100)).length).toBe(20);
    },
  },
  {
    name: "a stream has one holder; a revoked one knows at once",
    async run({ store }) {
      const stream = await begin(store);
      expect(await store.claim("task_none", "w")).toBeUndefined();
      const claims = await Promise.all(Array.from({ length: 10 }, (_, index) => store.claim(stream, `w${index}`)));
      const [claim, ...others] = claims.filter((one) => one !== undefined);
      expect(others).toEqual([]);
      if (claim === undefined) throw new Error("Expected one claim");
      expect(claim.lost.aborted).toBe(false);
      expect(await store.commit({ appends: [], revoke: [stream] })).toMatchObject({ ok: true });
      expect(claim.lost.aborted).toBe(true);
      expect(await store.commit({ ...add(stream), fence: claim.fence })).toEqual({ ok: false, reason: "fence" });
      // Active without a due mark: it must not be forgotten.
      expect((await store.due(new Date(Date.now() + 1000), 5)).map((due) => due.stream)).toEqual([stream]);
      const next = await store.claim(stream, "next");
      await claim.release();
      expect(await store.commit({ ...add(stream), fence: next?.fence ?? claim.fence })).toMatchObject({ ok: true });
      await next?.release();
    },
  },
  {
    name: "a release leaves an active stream due: after a backoff, or as it was marked meanwhile",
    async run({ store }) {
      const stream = await begin(store);
      const due = { at: new Date(1000), rank: 5 };
      await store.commit({ appends: [], due: [{ stream, due }] });
      const waits: number[] = [];
      for (let round = 0; round < 3; round++) {
        const claim = await store.claim(stream, "w");
        expect(await store.due(new Date(), 5)).toEqual([]);
        expect(await store.nextDue()).toBeUndefined();
        expect(await store.waiting()).toBe(0);
        const asked = Date.now();
        await claim?.release();
        const next = await store.nextDue();
        waits.push(Math.round(((next?.getTime() ?? 0) - asked) / 100) / 10);
      }
      for (const [index, expected] of [1, 2, 4].entries())
        expect(Math.abs((waits[index] ?? 0) - expected)).toBeLessThan(0.9);

      const marked = await store.claim(stream, "w");
      await store.commit({ appends: [], due: [{ stream, due }] });
      await marked?.release();
      expect(await store.due(new Date(), 5)).toEqual([{ stream, due, seq: expect.any(Number) }]);

      const last = await store.claim(stream, "w");
      await store.commit({ appends: [{ stream, expected: "any", events: [settled()] }] });
      await last?.release();
      expect(await store.waiting()).toBe(0);
    },
  },
  {
    name: "what was due is due again when the run fails, also of a stream that rests; control: a run that comes to its end uses it up",
    async run({ store }) {
      const stream = await begin(store);
      await store.commit({ appends: [{ stream, expected: "any", events: [settled()] }] });
      const { signal } = new AbortController();
      for (const [fails, again] of [
        [true, true],
        [false, false],
      ] as const) {
        await store.commit({ appends: [], due: [{ stream, due: { at: new Date(1000), rank: 5 } }] });
        const ran = withClaim({ store, worker: "w" }, stream, signal, () =>
          fails ? Promise.reject(new Error("a read failed")) : Promise.resolve(),
        );
        await (fails ? expect(ran).rejects.toThrow("a read failed") : ran);
        expect((await store.nextDue()) !== undefined).toBe(again);
        if (again) expect((await store.due(new Date(Date.now() + 2000), 5)).map((one) => one.stream)).toEqual([stream]);
      }
    },
  },
  {
    name: "what was due stays due when the service stops the run; control: a run that comes to its end uses it up",
    async run({ store }) {
      const stream = await begin(store);
      await store.commit({ appends: [{ stream, expected: "any", events: [settled()] }] });
      // As a Mission that sleeps until a time: nothing of it is active.
      const due = { at: new Date(1000), rank: 5 };
      await store.commit({ appends: [], due: [{ stream, due }] });
      const stop = new AbortController();
      await withClaim({ store, worker: "w" }, stream, stop.signal, () => {
        stop.abort();
        return Promise.reject(new Error("stopped"));
      });
      expect(await store.due(new Date(), 5)).toEqual([{ stream, due, seq: expect.any(Number) }]);
      const { signal } = new AbortController();
      await withClaim({ store, worker: "w" }, stream, signal, () => Promise.resolve());
      expect(await store.nextDue()).toBeUndefined();
    },
  },
  {
    name: "what is due comes by rank, and nothing starves",
    async run({ store }) {
      const now = new Date();
      const ago = (minutes: number) => new Date(now.getTime() - minutes * 60_000);
      const marks = [
        dueNow(ago(0), "critical"),
        dueNow(ago(0), "high"),
        dueNow(ago(11), "low"),
        dueNow(ago(0), "normal"),
        dueNow(ago(1), "low"),
      ];
      const streams: string[] = [];
      for (const due of marks) {
        const stream = await begin(store);
        streams.push(stream);
        await store.commit({ appends: [], due: [{ stream, due }] });
      }
      const later = await begin(store);
      await store.commit({
        appends: [],
        due: [{ stream: later, due: { at: new Date(now.getTime() + 60_000), rank: -1 } }],
      });

      const due = await store.due(now, 10);
      expect(due.map(({ stream }) => stream)).toEqual(streams);
      expect(due.map(({ due: mark }) => mark)).toEqual(marks);
      expect(await store.due(now, 2)).toEqual(due.slice(0, 2));
      const place = async (stream = "") => (await store.places([stream])).get(stream);
      const places = await store.places([...streams, "task_none"]);
      expect([...places.keys()].toSorted()).toEqual(streams.toSorted());
      for (const [index, stream] of streams.entries())
        expect(places.get(stream)).toEqual({ ahead: index, due: marks[index] });
      expect(await store.places([])).toEqual(new Map());
      expect(await store.waiting()).toBe(6);
      expect(await store.nextDue()).toEqual(ago(11));
      const claim = await store.claim(streams[0] ?? "", "w");
      expect(await place(streams[0])).toBeUndefined();
      expect((await place(streams[1]))?.ahead).toBe(0);
      await store.commit({ appends: [], due: [{ stream: streams[1] ?? "", due: null }] });
      expect(await place(streams[1])).toBeUndefined();
      await claim?.release();
    },
  },
  {
    name: "lists filter, and page without loss or double",
    async run({ store }) {
      const directory = `/work/${"long/".repeat(700)}`;
      const all = await Promise.all(
        Array.from({ length: 25 }, (_, index) =>
          begin(store, {
            directory,
            title: index === 3 ? "Find 100%_\\ OF it" : `Task ${index}`,
            request: index === 4 ? { blob: { sha256: "0".repeat(64), bytes: 9 }, head: "ÄRGER" } : "plain",
            productPillar: index === 5 ? "work" : "code",
            priority: index === 6 ? "high" : "normal",
            squad: { id: index === 7 ? "other" : "base", version: "1", digest: "d", scope: "builtin" },
            metadata: index === 8 ? { owner: "me", flag: true } : { owner: "you" },
          }),
        ),
      );
      await begin(store, { directory: "/elsewhere" });
      const id = (index: number) => all[index] ?? "";
      await store.commit({ appends: [{ stream: id(9), expected: 1, events: [settled()] }] });
      await store.commit({
        appends: [
          {
            stream: id(10),
            expected: 1,
            events: [{ type: "task.updated", data: { archived: true, title: "Renamed" } }],
          },
        ],
      });
      const projects = await store.projects(10);
      expect(projects.map(({ directory: path, tasks }) => ({ path, tasks }))).toContainEqual({
        path: directory,
        tasks: 25,
      });
      expect(await store.projects(1)).toHaveLength(1);
      const find = async (query: Partial<Parameters<Store["list"]>[0]>) =>
        (await store.list({ project: directory, limit: 100, ...query })).map(({ taskID }) => taskID);
      expect(await find({ search: "100%_\\ of" })).toEqual([id(3)]);
      expect(await find({ search: "100x" })).toEqual([]);
      expect(await find({ search: "ärger" })).toEqual([id(4)]);
      expect(await find({ search: id(11).toUpperCase() })).toEqual([id(11)]);
      expect(await find({ search: "renamed", archived: true })).toEqual([id(10)]);
      expect(await find({ search: "renamed" })).toEqual([]);
      expect(await find({ productPillar: "work" })).toEqual([id(5)]);
      expect(await find({ priority: "high" })).toEqual([id(6)]);
      expect(await find({ promptProfile: "other" })).toEqual([id(7)]);
      expect(await find({ metadata: { owner: "me" } })).toEqual([id(8)]);
      expect(await find({ metadata: { owner: "me", flag: "true" } })).toEqual([id(8)]);
      expect(await find({ metadata: { owner: "you", flag: "true" } })).toEqual([]);
      expect(await find({ lifecycleStatus: "completed" })).toEqual([id(9)]);
      expect(await find({ status: "inactive" })).toEqual([id(9)]);
      expect(await find({ status: "running" })).toHaveLength(23);
      expect(await find({ archived: true })).toHaveLength(25);

      const paged: string[] = [];
      let cursor: { updated: number; taskID: string } | undefined;
      for (;;) {
        const page = await store.list({
          project: directory,
          limit: 4,
          archived: true,
          ...(cursor === undefined ? {} : { cursor }),
        });
        paged.push(...page.map(({ taskID }) => taskID));
        const last = page.at(-1);
        if (last === undefined) break;
        cursor = { updated: last.updated, taskID: last.taskID };
      }
      expect(paged).toEqual(await find({ archived: true }));
      expect(new Set(paged)).toEqual(new Set(all));
    },
  },
  {
    name: "an erased stream leaves nothing, and takes nothing else with it",
    async run({ store }) {
      const gone = await begin(store, { metadata: { a: "b" } });
      const stays = await begin(store);
      await store.commit({ appends: [], due: [{ stream: gone, due: { at: new Date(0), rank: 0 } }] });
      const claim = await store.claim(gone, "w");
      await store.erase(gone);
      expect(claim?.lost.aborted).toBe(true);
      expect(await store.commit({ ...add(gone), ...(claim && { fence: claim.fence }) })).toEqual({
        ok: false,
        reason: "fence",
      });
      await claim?.release();
      expect(await store.state(gone)).toBeUndefined();
      expect(await store.read(gone)).toEqual([]);
      expect(positions(await store.since(0, 10))).toEqual([2]);
      expect((await store.list({ project: "/work/project", limit: 10 })).map(({ taskID }) => taskID)).toEqual([stays]);
      expect(await store.waiting()).toBe(0);
      await store.erase(stays);
      const next = await begin(store);
      expect(positions(await store.read(next))).toEqual([3]);
      await store.erase("task_none");
      expect(await store.erase(next, 2)).toBe(false);
      expect(positions(await store.read(next))).toEqual([3]);
      expect(await store.erase(next, 1)).toBe(true);
      expect(await store.read(next)).toEqual([]);
    },
  },
  {
    name: "followers see everything once, in order, under writers",
    async run({ store, beside }) {
      const stores = beside === undefined ? [store] : [store, await beside(), await beside()];
      const streams = await Promise.all(Array.from({ length: 6 }, () => begin(store)));
      await begin(store, { directory: "/elsewhere" });
      const [one = ""] = streams;
      const stop = new AbortController();
      const total = 7 + 6 * 40;
      const following = stores.map((each) => take(each.follow(0, stop.signal), total));
      const own = take(store.follow(0, stop.signal, { stream: one, types: ["message.received"] }), 40);
      const elsewhere = take(store.follow(7, stop.signal, { project: "/elsewhere" }), 1);
      await Promise.all(
        streams.map(async (stream, index) => {
          const on = stores[index % stores.length] ?? store;
          for (let count = 0; count < 40; count++) await on.commit(add(stream));
        }),
      );
      const log = await store.since(0, 1000);
      expect(positions(log)).toEqual(positions(log).toSorted((a, b) => a - b));
      for (const seen of await Promise.all(following)) expect(seen).toEqual(log);
      expect(await own).toEqual(log.filter((event) => event.stream === one && event.type === "message.received"));
      const there = await begin(store, { directory: "/elsewhere" });
      expect((await elsewhere).map((event) => event.stream)).toEqual([there]);

      // Nothing more comes: a follower waits, and ends with its signal.
      const end = new AbortController();
      const silence = take(store.follow(await store.position(), end.signal), 1);
      setTimeout(() => end.abort(), 20);
      expect(await silence).toEqual([]);
      stop.abort();
    },
  },
  {
    name: "live frames reach who listens to the stream, until it stops",
    async run({ store }) {
      const heard: string[] = [];
      const frame = (taskID: string, text: string) =>
        ({ type: "message.delta", taskID, sessionID: "s", at: "", data: { messageID: "m", text } }) as const;
      const listening = store.live.subscribe("a", ({ type, data }) => {
        if (type === "message.delta") heard.push(data.text);
      });
      store.live.publish(frame("a", "1"), 0);
      store.live.publish(frame("b", "2"), 0);
      listening[Symbol.dispose]();
      store.live.publish(frame("a", "3"), 0);
      expect(heard).toEqual(["1"]);
    },
  },
  {
    name: "folds and rows are the same after a new start, from a snapshot and the rest",
    needs: "reopen",
    async run(place) {
      const stream = await begin(place.store);
      for (const count of [60, 10, 3]) await place.store.commit(add(stream, "any", count));
      const before = await place.store.state(stream);
      const list = await place.store.list({ project: "/work/project", limit: 5 });
      const store = await place.reopen?.();
      expect(await store?.state(stream)).toEqual(before);
      expect(await store?.list({ project: "/work/project", limit: 5 })).toEqual(list);

      // The control: a snapshot of this revision is what is read. One of another is not.
      await place.sql?.(`update snapshots set state = replace(state, 'Make the test pass', 'From the snapshot')`);
      const fromSnapshot = await (await place.reopen?.())?.state(stream);
      expect([fromSnapshot?.title, fromSnapshot?.version]).toEqual(["From the snapshot", 74]);
      await place.sql?.(`update snapshots set revision = ${taskRevision + 1}`);
      await place.sql?.(`update tasks set revision = ${taskRevision + 1}, summary = '{}'`);
      const again = await place.reopen?.();
      expect(await again?.state(stream)).toEqual(before);
      expect(await again?.list({ project: "/work/project", limit: 5 })).toEqual(list);
      expect(before && list[0]).toEqual(before && summarise(before));
    },
  },
  {
    name: "processes on one database: one winner per version, one holder, and every fold is the newest",
    needs: "beside",
    async run({ store, beside }) {
      const other = await beside?.();
      if (other === undefined) throw new Error("Expected a second store");
      const stream = await begin(store);
      for (let round = 1; round <= 20; round++) {
        const done = await Promise.all([store, other, store, other].map((each) => each.commit(add(stream, round))));
        expect(done.filter(({ ok }) => ok)).toHaveLength(1);
        expect((await store.state(stream))?.version).toBe(round + 1);
        expect(await other.state(stream)).toEqual(await store.state(stream));
      }
      const first = created();
      const make = (on: Store) => on.commit({ appends: [{ stream: first.data.taskID, expected: 0, events: [first] }] });
      expect((await Promise.all([make(store), make(other)])).map(({ ok }) => ok).filter(Boolean)).toHaveLength(1);

      const claims = await Promise.all(
        [store, other, store, other].map((each, index) => each.claim(stream, `w${index}`)),
      );
      const held = claims.filter((claim) => claim !== undefined);
      expect(held).toHaveLength(1);
      const by = claims[0] === undefined && claims[2] === undefined ? store : other;
      await by.commit({ appends: [], revoke: [stream] });
      await expect.poll(() => held[0]?.lost.aborted, { timeout: 3000 }).toBe(true);
    },
  },
];

onEveryStore(cases);
