import { expect } from "vitest";
import { created } from "../harness/events.ts";
import { seededRandom } from "../harness/random.ts";
import { type Case, onEveryStore } from "./suite.ts";

/** Places in the queue, of one or of many, are those that looking at all that wait finds. */

const cases: Case[] = [
  {
    name: "places of many that wait, due now and later, some of the same rank and time",
    async run({ store }) {
      const seed = 1 + Math.floor(Math.random() * 1e6);
      process.stdout.write(`seed ${seed}\n`);
      const { below, pick } = seededRandom(seed);
      const now = Date.now();
      const queue = Array.from({ length: 80 }, (_, at) => ({
        first: created({ directory: "/work/project" }),
        rank: below(5),
        at: now + pick([-5000, -4000, -3000, -2000, ...(at % 10 === 0 ? [600_000, 700_000] : [])]),
      })).map((own) => ({ ...own, stream: own.first.data.taskID }));
      await store.commit({
        appends: queue.map(({ stream, first }) => ({ stream, expected: 0, events: [first] })),
        due: queue.map(({ stream, rank, at }) => ({ stream, due: { at: new Date(at), rank } })),
      });
      const held = queue.splice(7, 1)[0]?.stream ?? "";
      await using _claim = await store.claim(held, "w");
      type Waiting = (typeof queue)[number];
      const comesBefore = (one: Waiting, other: Waiting) =>
        one.rank - other.rank || one.at - other.at || (one.stream < other.stream ? -1 : 1);
      const ahead = (own: Waiting) =>
        queue.filter((other) => other !== own && comesBefore(other, own) < 0 && other.at <= Math.max(now, own.at))
          .length;
      const later = queue.filter(({ at }) => at > now);
      const due = queue.filter(({ at }) => at <= now);
      expect(later.length).toBeGreaterThan(0);
      for (const wanted of [
        queue.slice(0, 1),
        later.slice(0, 2),
        due,
        [...due.slice(0, 30), ...later.slice(0, 1)],
        queue,
        Array.from({ length: 9 }, () => pick(due)),
      ]) {
        const found = await store.places([held, ...wanted.map(({ stream }) => stream)]);
        expect(
          new Map([...found].map(([stream, place]) => [stream, { ahead: place.ahead, at: place.due.at.getTime() }])),
          `seed ${seed}`,
        ).toEqual(new Map(wanted.map((own) => [own.stream, { ahead: ahead(own), at: own.at }])));
      }
    },
  },
];

onEveryStore(cases);
