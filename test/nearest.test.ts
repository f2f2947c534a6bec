import { expect, test } from "vitest";
import { didYouMean, nearest } from "../src/nearest.ts";

/** Which known word somebody probably meant. */

const squads = ["advanced", "base", "docs", "research"];

test("a letter added, removed, changed or swapped; capitals do not matter", () => {
  expect(["basee", "bse", "bade", "bsae", "BASE", "reserch"].map((word) => nearest(word, squads))).toEqual([
    "base",
    "base",
    "base",
    "base",
    "base",
    "research",
  ]);
  expect(didYouMean("bas", squads)).toBe(" Did you mean base?");
});

test("control: a word that is near to none has no neighbour", () => {
  expect([nearest("nope", squads), nearest("x", squads), nearest("base", [])]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  expect(didYouMean("frontend", squads)).toBe("");
});
