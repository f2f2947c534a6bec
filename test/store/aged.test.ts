import { expect } from "vitest";
import { newID } from "../../src/id.ts";
import type { AgedQuery, Store } from "../../src/store/store.ts";
import { created, settled } from "../harness/events.ts";
import { type Case, onEveryStore } from "./suite.ts";

/** Which Tasks have ended long ago, page by page. */

const all = async (store: Store, before: Date, limit: number): Promise<string[]> => {
  const found: string[] = [];
  for (let after: AgedQuery["after"]; ; ) {
    const page = await store.aged({ before, limit, after });
    expect(page.tasks.length).toBeLessThanOrEqual(limit);
    found.push(...page.tasks.map(({ taskID }) => taskID));
    after = page.next;
    if (after === undefined) return found;
  }
};

const cases: Case[] = [
  {
    name: "ended Tasks of all projects come once each, on pages of any size; none that is active, or of a Mission that is there",
    async run({ store }) {
      const mission = newID("ses");
      const missionOf = { missionID: "m", sessionID: mission, callID: newID("call"), phase: "p" };
      const woken = {
        missionID: "m",
        sessionID: mission,
        title: "M",
        titleBy: "service" as const,
        directory: "/work/a",
        project: "/work/a",
        productPillar: "code" as const,
        model: "builtin/rules-1" as const,
      };
      await store.commit({
        appends: [{ stream: mission, expected: 0, events: [{ type: "mission.created", data: woken }] }],
      });
      const ended: string[] = [];
      for (let n = 0; n < 40; n += 1) {
        const first = created({
          directory: `/work/${"abc"[n % 3]}`,
          ...(n === 7 ? { mission: missionOf } : {}),
        });
        const { taskID } = first.data;
        const ends = n % 4 !== 0;
        const events = ends ? [first, settled()] : [first];
        expect(await store.commit({ appends: [{ stream: taskID, expected: 0, events }] })).toMatchObject({ ok: true });
        if (ends && n !== 7) ended.push(taskID);
      }
      const later = new Date(Date.now() + 60_000);
      for (const limit of [1, 7, 100]) expect((await all(store, later, limit)).toSorted()).toEqual(ended.toSorted());
      expect(await all(store, new Date(Date.now() - 3_600_000), 7)).toEqual([]);
      // Those that go while the pages are read keep none from coming.
      const page = await store.aged({ before: later, limit: 100, after: undefined });
      for (let after = page.next; after !== undefined; ) {
        const { tasks, next } = await store.aged({ before: later, limit: 3, after });
        for (const { taskID } of tasks) expect(await store.erase(taskID)).toBe(true);
        after = next;
      }
      expect(await all(store, later, 100)).toEqual([]);
      await store.erase(mission);
      expect(await all(store, later, 100)).toHaveLength(1);
    },
  },
];

onEveryStore(cases);
