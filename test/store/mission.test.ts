import { Worker } from "node:worker_threads";
import Database from "better-sqlite3";
import { expect, test, vi } from "vitest";
import type { DomainEvent } from "../../src/domain/event.ts";
import { newID } from "../../src/id.ts";
import type { Filter, Store } from "../../src/store/store.ts";
import { created, settled } from "../harness/events.ts";
import { backends, type Place } from "../harness/store.ts";
import { atRest } from "./at-rest.ts";
import { type Case, onEveryStore } from "./suite.ts";

/** What a store keeps of Missions, on every implementation: their names, their rows, the Tasks they dispatched. */

const begun = (missionID: string, project = "/work/project", sessionID = newID("ses")): DomainEvent[] => [
  {
    type: "mission.created",
    data: {
      missionID,
      sessionID,
      title: `Mission ${missionID}`,
      titleBy: "service",
      directory: project,
      project,
      productPillar: "code",
      model: "builtin/rules-1",
    },
  },
  { type: "mission.woken", data: { sessionID, by: "user" } },
];

const streamIn = (events: readonly DomainEvent[]): string => {
  const [first] = events;
  return first?.type === "mission.created" ? first.data.sessionID : "";
};

const make = (store: Store, events: readonly DomainEvent[]) =>
  store.commit({ appends: [{ stream: streamIn(events), expected: 0, events }] });

const dispatch = async (store: Store, mission: string, missionID: string, callID = newID("call")): Promise<string> => {
  const event = created({ mission: { missionID, sessionID: mission, callID, phase: "p" } });
  const done = await store.commit({ appends: [{ stream: event.data.taskID, expected: 0, events: [event] }] });
  if (!done.ok) throw new Error(done.reason);
  return event.data.taskID;
};

const cases: Case[] = [
  {
    name: "of fifty that want a name at once one has it, and the others are told whose it is",
    async run({ store }) {
      const done = await Promise.all(Array.from({ length: 50 }, () => make(store, begun("m"))));
      const won = done.flatMap((one) => (one.ok ? one.recorded.slice(0, 1) : []));
      expect(won).toHaveLength(1);
      const owner = won[0]?.stream;
      expect(done.filter(({ ok }) => !ok)).toEqual(
        Array.from({ length: 49 }, () => ({ ok: false, reason: "name", stream: owner })),
      );
      expect(await store.missionsNamed("m", "/work/project")).toEqual([owner]);
      expect(await make(store, begun("m", "/work/other"))).toMatchObject({ ok: true });
      expect(await store.missionsNamed("m")).toHaveLength(2);
      expect(await store.missionsNamed("m", "/work/none")).toEqual([]);
    },
  },
  {
    name: "a name is free again once its Mission is erased",
    async run({ store }) {
      const first = begun("m");
      await make(store, first);
      const stream = streamIn(first);
      const [erased, again] = await Promise.all([store.erase(stream), make(store, begun("m"))]);
      expect(erased).toBe(true);
      expect(again).toMatchObject({ ok: true });
      expect(await store.mission(stream)).toBeUndefined();
      expect(await store.missions({ limit: 10 })).toHaveLength(1);
    },
  },
  {
    name: "processes on one database: one of two has the name",
    needs: "beside",
    async run({ store, beside }) {
      const other = await beside?.();
      if (other === undefined) throw new Error("Expected a second store");
      for (let round = 0; round < 10; round += 1) {
        const id = `m-${round}`;
        const done = await Promise.all([store, other, store, other].map((each) => make(each, begun(id))));
        expect(done.filter(({ ok }) => ok)).toHaveLength(1);
        expect(done.filter((one) => !one.ok && one.reason === "name")).toHaveLength(3);
      }
    },
  },
  {
    name: "a Mission's fold and a Task's are told apart, also from snapshots",
    needs: "reopen",
    async run(place) {
      const { store } = place;
      const events = begun("m");
      const stream = streamIn(events);
      await make(store, events);
      const note = { type: "note.written" as const, data: { sessionID: stream, callID: "call_1", text: "x" } };
      for (let round = 0; round < 70; round += 1)
        await store.commit({ appends: [{ stream, expected: "any", events: [note] }] });
      const taskID = await dispatch(store, stream, "m");
      const before = await store.mission(stream);
      expect(before).toMatchObject({ missionID: "m", sessionID: stream, version: 72 });
      expect(await store.state(stream)).toBeUndefined();
      expect(await store.mission(taskID)).toBeUndefined();
      const again = await place.reopen?.();
      expect(await again?.mission(stream)).toEqual(before);
      expect(await again?.state(taskID)).toMatchObject({ mission: { missionID: "m", sessionID: stream } });
    },
  },
  {
    name: "Tasks of a Mission: its rows in order, its numbers, its facts in one log; another Mission has its own",
    async run({ store }) {
      const [one, other] = [begun("one"), begun("other")];
      await make(store, one);
      await make(store, other);
      const stream = streamIn(one);
      const ids = [await dispatch(store, stream, "one"), await dispatch(store, stream, "one")];
      const foreign = await dispatch(store, streamIn(other), "other");
      await store.commit({ appends: [{ stream: ids[0] ?? "", expected: 1, events: [settled()] }] });
      expect((await store.dispatched(stream)).map(({ taskID }) => taskID)).toEqual(ids);
      const found = await store.missions({ project: "/work/project", limit: 10, search: "MISSION ONE" });
      expect(found).toMatchObject([
        { row: { missionID: "one" }, stats: { active: 1, completed: 1, failed: 0, cancelled: 0 } },
      ]);
      expect(await store.list({ project: "/work/project", missionID: "one", limit: 10 })).toHaveLength(2);
      const streams = new Set((await store.since(0, 100, { mission: stream })).map((event) => event.stream));
      expect(streams).toEqual(new Set([stream, ...ids]));
      const all = await store.since(0, 100, { project: "/work/project" });
      expect(new Set(all.map((event) => event.stream))).toEqual(new Set([...streams, streamIn(other), foreign]));
      expect(await store.since(0, 100, { project: "/elsewhere" })).toEqual([]);
    },
  },
  {
    name: "a Mission that will look again is no Task that waits",
    async run({ store }) {
      const events = begun("m");
      const stream = streamIn(events);
      await make(store, events);
      const taskID = await dispatch(store, stream, "m");
      const due = { at: new Date(1000), rank: 1 };
      await store.commit({ appends: [], due: [{ stream, due }] });
      expect(await store.waiting()).toBe(0);
      await store.commit({ appends: [], due: [{ stream: taskID, due: { ...due, rank: 2 } }] });
      expect(await store.waiting()).toBe(1);
      // It takes a place all the same.
      expect((await store.places([taskID])).get(taskID)?.ahead).toBe(1);
    },
  },
  {
    name: "who follows a Mission or a Task is done when it is erased, and nobody else",
    async run({ store }) {
      const [one, other] = [begun("one"), begun("other")];
      await make(store, one);
      await make(store, other);
      const taskID = await dispatch(store, streamIn(one), "one");
      const stop = new AbortController();
      let read = 0;
      const reading = async (filter: Filter) => {
        const seen: number[] = [];
        for await (const { version } of store.follow(0, stop.signal, filter)) {
          seen.push(version);
          read += 1;
        }
        return seen;
      };
      const mission = reading({ mission: streamIn(one) });
      const task = reading({ stream: taskID });
      let ended = false;
      const rest = reading({ mission: streamIn(other) }).then((seen) => {
        ended = true;
        return seen;
      });
      // Each has read what is there.
      await expect.poll(() => read, { timeout: 10_000 }).toBe(3 + 1 + 2);
      await store.erase(streamIn(one));
      expect(await mission).toEqual([1, 2, 1]);
      await store.erase(taskID);
      expect(await task).toEqual([1]);
      await new Promise((resolve) => setTimeout(resolve, 50));
      expect(ended).toBe(false);
      stop.abort();
      expect(await rest).toEqual([1, 2]);
    },
  },
  {
    name: "one call has one Task, whatever comes",
    async run({ store }) {
      const events = begun("m");
      await make(store, events);
      await dispatch(store, streamIn(events), "m", "call_1");
      await expect(dispatch(store, streamIn(events), "m", "call_1")).rejects.toThrow();
      expect(await store.dispatched(streamIn(events))).toHaveLength(1);
    },
  },
];

onEveryStore(cases);

test("a list of 200 Missions with 50 Tasks each is two statements, as one of 2 is", { timeout: 60_000 }, async () => {
  const [file] = backends;
  await using place = (await file?.open()) as Place;
  const { store } = place;
  const fill = async (from: number, to: number, tasks: number) => {
    for (let at = from; at < to; at += 1) {
      const events = begun(`m-${at}`);
      await make(store, events);
      await Promise.all(Array.from({ length: tasks }, () => dispatch(store, streamIn(events), `m-${at}`)));
    }
  };
  /** Statements that a query makes, here and in the thread that reads. */
  const counted = async (query: () => Promise<unknown[]>): Promise<{ statements: number; rows: number }> => {
    const prepare = vi.spyOn(Database.prototype, "prepare");
    const post = vi.spyOn(Worker.prototype, "postMessage");
    try {
      const { length: rows } = await query();
      const apart = post.mock.calls.filter(([order]) => (order as { kind?: string }).kind === "query");
      return { rows, statements: prepare.mock.calls.length + apart.length };
    } finally {
      prepare.mockRestore();
      post.mockRestore();
    }
  };
  const list = () => store.missions({ limit: 200 });
  await fill(0, 2, 1);
  await atRest();
  expect(await counted(list)).toEqual({ rows: 2, statements: 2 });
  await fill(2, 200, 50);
  await atRest();
  expect(await counted(list)).toEqual({ rows: 200, statements: 2 });
  const [stream = ""] = await store.missionsNamed("m-7");
  expect(await counted(() => store.dispatched(stream))).toEqual({ rows: 50, statements: 1 });
  const tasks = (await store.dispatched(stream)).map(({ taskID }) => taskID);
  const due = tasks.map((task, at) => ({ stream: task, due: { at: new Date(at), rank: at } }));
  await store.commit({ appends: [], due });
  const places = async () => [...(await store.places(tasks)).values()].map(({ ahead }) => ahead);
  expect(await places()).toEqual(tasks.map((_, at) => at));
  expect(await counted(places)).toEqual({ rows: 50, statements: 2 });
});
