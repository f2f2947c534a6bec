import { night } from "../../harness/night.ts";
import { postgresURL } from "../../harness/postgres.ts";
import { type Random, seededRandom } from "../../harness/random.ts";
import { type Follower, followers } from "./place.ts";

/** Which kills there are, and which of them are made now. */

/** `12+3 rename plan.json`. `state`: equal where a death leaves the same machine. */
export type Point = { name: string; state: string };
export type Cut = { point: Point; follower: Follower };

/**
 * `states`: how many points differ in what a death leaves; all others are a death that is tried already. `minutes`:
 * when they are over, nothing more of `cuts` is begun.
 */
export type Chosen = { seed: number; states: number; all: number; cuts: Cut[]; minutes: number };

/** How many by day, and for how long at night. */
export type Share = { byDay: number; atNight: number };

/** By day. */
const dayMinutes = 0.5;

/** The first point of each state. */
const distinct = (points: readonly Point[]): Point[] => {
  const met = new Set<string>();
  return points.filter(({ state }) => state === "" || (!met.has(state) && met.add(state)));
};

/**
 * At night all of it, in an order that the seed shuffles, as far as the minutes go; by day so many of all. With
 * TEST_SWEEP all of it however long it takes: `whole`, or in parts that together are all (`3/20`: the third of twenty,
 * drawn evenly). TEST_SEED brings a sample again, TEST_POINT (`12+3 cancel,14+0`) one of them, or all that follow a
 * point.
 */
export const cutsOf = (points: readonly Point[], { byDay, atNight }: Share): Chosen => {
  const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
  const usable = followers.filter((follower) => follower !== "PostgreSQL" || postgresURL !== undefined);
  // Not each time the same is the first, which goes on where the kill left it.
  const turned = (at: number) => usable.map((_, index) => usable[(index + at) % usable.length] ?? "nothing");
  const cutsAt = (these: readonly Point[]): Cut[] =>
    these.flatMap((point, at) => turned(at).map((follower) => ({ point, follower })));
  const different = distinct(points);
  const all = cutsAt(different);
  const named = process.env["TEST_POINT"];
  const about = { seed, states: different.length, all: all.length, minutes: Number.POSITIVE_INFINITY };
  if (named !== undefined) {
    const wanted = named.split(",").map((one) => one.trim().split(" "));
    const cuts = cutsAt(points).filter(({ point, follower }) =>
      wanted.some(([at, then]) => point.name.startsWith(`${at} `) && (then === undefined || then === follower)),
    );
    return { ...about, cuts };
  }
  const sweep = process.env["TEST_SWEEP"];
  if (sweep !== undefined && sweep !== "whole") {
    const [part = Number.NaN, parts = Number.NaN] = sweep.split("/").map(Number);
    if (!(part >= 1 && part <= parts)) throw new Error(`Expected TEST_SWEEP to be whole or 3/20, got ${sweep}`);
    return { ...about, cuts: cutsAt(different.filter((_, index) => index % parts === part - 1)) };
  }
  if (sweep === "whole") return { ...about, cuts: all };
  const random = seededRandom(seed);
  if (night) return { ...about, minutes: atNight, cuts: cutsAt(shuffled(different, random)) };
  return { ...about, minutes: dayMinutes, cuts: Array.from({ length: byDay }, () => random.pick(all)) };
};

const shuffled = <T>(all: readonly T[], random: Random): T[] => {
  const rest = [...all];
  return all.flatMap(() => rest.splice(random.below(rest.length), 1));
};
