import { expect } from "vitest";
import { dueNow, dueToEnd } from "../../src/engine/due.ts";
import type { StreamID } from "../../src/domain/event.ts";
import type { Claim, Due, Store } from "../../src/store/store.ts";
import { created } from "../harness/events.ts";
import { type Case, onEveryStore } from "./suite.ts";

/** Bounds on the Tasks that run, on every implementation of the store. */

const make = async (store: Store, directory: string, due: Due = dueNow(new Date(), "normal")): Promise<StreamID> => {
  const event = created({ directory });
  const stream = event.data.taskID;
  const done = await store.commit({ appends: [{ stream, expected: 0, events: [event] }], due: [{ stream, due }] });
  expect(done.ok).toBe(true);
  return stream;
};

const several = async (count: number, one: () => Promise<StreamID>): Promise<StreamID[]> => {
  const streams: StreamID[] = [];
  while (streams.length < count) streams.push(await one());
  return streams;
};

const held = (claims: readonly (Claim | undefined)[]): Claim[] => claims.filter((claim) => claim !== undefined);

const dueIn = async (store: Store, full?: Parameters<Store["due"]>[2]): Promise<StreamID[]> =>
  (await store.due(new Date(Date.now() + 1000), 100, full)).map(({ stream }) => stream);

const cases: Case[] = [
  {
    name: "claims at the same time take the places of a project that there are, and one that is given back is taken again",
    bounds: { all: 0, project: 2 },
    async run({ store }) {
      const own = await several(6, () => make(store, "/p"));
      const [other = ""] = await several(1, () => make(store, "/q"));
      const claims = held(await Promise.all(own.map((stream) => store.claim(stream, "w"))));
      expect(claims).toHaveLength(2);
      expect(await store.claim(other, "w")).toBeDefined();
      const left = own.filter((stream) => !claims.some((claim) => claim.stream === stream));
      expect(await store.claim(left[0] ?? "", "w")).toBeUndefined();
      await claims[0]?.release();
      expect(await store.claim(left[0] ?? "", "w")).toBeDefined();
      expect(await store.claim(left[1] ?? "", "w")).toBeUndefined();
      await store.erase(claims[1]?.stream ?? "");
      expect(await store.claim(left[1] ?? "", "w")).toBeDefined();
    },
  },
  {
    name: "without bounds as many are claimed as are asked for",
    async run({ store }) {
      const own = await several(6, () => make(store, "/p"));
      expect(held(await Promise.all(own.map((stream) => store.claim(stream, "w"))))).toHaveLength(6);
    },
  },
  {
    name: "a bound in all counts every project, and what only ends needs no room",
    bounds: { all: 3, project: 0 },
    async run({ store }) {
      const own = [...(await several(2, () => make(store, "/p"))), ...(await several(2, () => make(store, "/q")))];
      expect(held(await Promise.all(own.map((stream) => store.claim(stream, "w"))))).toHaveLength(3);
      const ending = await make(store, "/p", dueToEnd(new Date()));
      expect(await store.claim(ending, "w", true)).toBeDefined();
    },
  },
  {
    name: "the queue names those that run, and leaves out what has no room",
    bounds: { all: 0, project: 1 },
    async run({ store }) {
      const [p1 = "", p2 = ""] = await several(2, () => make(store, "/p"));
      const q = await make(store, "/q");
      const ending = await make(store, "/p", dueToEnd(new Date()));
      expect((await store.running([p1])).running).toEqual(new Map());
      await store.claim(p1, "w");
      const { running, projects } = await store.running([p2, q, "task_none"]);
      expect([...running.keys()]).toEqual([p1]);
      expect([...projects.keys()].toSorted()).toEqual([p2, q].toSorted());
      expect(projects.get(p2)).toBe(running.get(p1));
      expect(await dueIn(store)).toEqual([ending, p2, q]);
      const own = [running.get(p1) ?? ""];
      expect(await dueIn(store, { all: false, projects: own })).toEqual([ending, q]);
      expect(await dueIn(store, { all: true, projects: [] })).toEqual([ending]);
      expect(await dueIn(store, { all: false, projects: [] })).toEqual([ending, p2, q]);
    },
  },
  {
    name: "two services take no more together than one",
    needs: "beside",
    bounds: { all: 5, project: 2 },
    async run({ store, beside }) {
      const other = (await beside?.()) ?? store;
      for (let round = 0; round < 10; round += 1) {
        const own = await several(6, () => make(store, `/p${round}`));
        const both = own.flatMap((stream, index) => [store.claim(stream, "a"), other.claim(own.at(-index) ?? "", "b")]);
        const claims = held(await Promise.all(both));
        expect(claims).toHaveLength(2);
        for (const claim of claims) await claim.release();
        await Promise.all(own.map((stream) => store.erase(stream)));
      }
    },
  },
];

onEveryStore(cases);
