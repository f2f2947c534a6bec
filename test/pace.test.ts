import { afterEach, expect, test, vi } from "vitest";
import { pace } from "../src/pace.ts";

let now = 0;
afterEach(() => vi.restoreAllMocks());

/** Runs loops whose rounds take a millisecond each; resolves to the rounds of each turn of the event loop. */
const turnsOf = async (loops: number, rounds: number, round: () => unknown): Promise<string[]> => {
  vi.spyOn(performance, "now").mockImplementation(() => now);
  const turns: string[] = [""];
  let over = false;
  const next = (): void => {
    turns.push("");
    if (!over) setImmediate(next);
  };
  setImmediate(next);
  const loop = async (name: string): Promise<void> => {
    for (let at = 0; at < rounds; at += 1) {
      now += 1;
      turns.push(`${turns.pop()}${name}`);
      await round();
    }
  };
  await Promise.all(Array.from({ length: loops }, (_, at) => loop("abcdefgh".charAt(at))));
  over = true;
  return turns.filter((turn) => turn !== "");
};

test("loops of many rounds share the time of a turn, and each goes on in its turn", async () => {
  const turns = await turnsOf(4, 50, pace);
  expect(Math.max(...turns.map((turn) => turn.length))).toBeLessThanOrEqual(14);
  expect(turns.join("").length).toBe(200);
  // After the first turn each has a whole one, one after the other.
  expect(turns.slice(1, 9).map((turn) => new Set(turn).size)).toEqual([1, 1, 1, 1, 1, 1, 1, 1]);
  expect(new Set(turns.slice(1, 5).join("")).size).toBe(4);
});

test("control: without it they hold up everything else", async () => {
  expect(await turnsOf(4, 50, () => undefined)).toHaveLength(1);
});
