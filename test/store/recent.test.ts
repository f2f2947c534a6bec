import { expect, test } from "vitest";
import type { Recorded, StreamID } from "../../src/domain/event.ts";
import { createRecentEvents } from "../../src/store/sqlite/recent.ts";
import { seededRandom } from "../harness/random.ts";

/** The newest events in memory: either all that there are after a position, or none. */

const streams = ["task_a", "task_b", "task_c"] as StreamID[];

test("what is answered is what was written and not erased; what was let go is asked for elsewhere", () => {
  const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
  const random = seededRandom(seed);
  const recent = createRecentEvents(7);
  let all: Recorded[] = [];
  let position = 7;
  let answered = 0;
  let unknown = 0;
  for (let round = 0; round < 400; round += 1) {
    const erased = new Set(random.below(12) === 0 ? [random.pick(streams)] : []);
    const events = Array.from({ length: random.below(4) }, () => {
      position += 1;
      return { position, stream: random.pick(streams) } as Recorded;
    });
    all = [...all.filter(({ stream }) => !erased.has(stream)), ...events];
    recent.add({ position, events, erased }, events.length * random.below(20_000));
    for (const stream of [undefined, ...streams]) {
      const after = Math.max(7, position - random.below(60));
      const limit = 1 + random.below(10);
      const found = recent.since(after, limit, stream);
      if (found === undefined) unknown += 1;
      else {
        answered += 1;
        const expected = all.filter((event) => event.position > after && (stream ?? event.stream) === event.stream);
        expect(found, `TEST_SEED=${seed}, round ${round}`).toEqual(expected.slice(0, limit));
      }
    }
  }
  expect(Math.min(answered, unknown)).toBeGreaterThan(100);
});

test("of a commit that is larger than what is kept nothing stays; of small ones the newest do", () => {
  const recent = createRecentEvents(0);
  const batch = (position: number) => ({
    position,
    events: [{ position, stream: "task_a" } as Recorded],
    erased: new Set<StreamID>(),
  });
  recent.add(batch(1), 1000);
  expect(recent.since(0, 10, undefined)).toHaveLength(1);
  recent.add(batch(2), 10_000_000);
  expect(recent.since(1, 10, undefined)).toBeUndefined();
  expect(recent.since(2, 10, undefined)).toEqual([]);
  for (let position = 3; position < 100; position += 1) recent.add(batch(position), 10);
  expect(recent.since(2, 10, undefined)).toBeUndefined();
  expect(recent.since(95, 10, undefined)).toHaveLength(4);
});
