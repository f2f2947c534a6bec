import { expect, test } from "vitest";
import { createSharedSquads } from "../../src/store/postgres/node/squad.ts";

/** Rows of packages that no node wrote. Every listing of squads on every node reads them. */

const digest = "0".repeat(64);
const read = (files: string) =>
  createSharedSquads((async () => [{ digest, files }]) as Parameters<typeof createSharedSquads>[0], "instance").read(
    "x",
  );

test("control: pairs of a path and bytes are files", async () => {
  expect(await read('[["README.md","YQ=="]]')).toEqual({
    digest,
    files: [{ path: "README.md", bytes: Buffer.from("a") }],
  });
});

test.each([
  ["a path that is a number", '[[1,"YQ=="]]'],
  ["a path that is a list", '[[["README.md"],"YQ=="]]'],
  ["bytes that only have a length", '[["README.md",{"length":1000000}]]'],
  ["bytes that are a list", '[["README.md",[1,2,3]]]'],
  ["three parts", '[["README.md","YQ==","YQ=="]]'],
  ["no list", '{"map":1}'],
  ["lists within lists", "[".repeat(100_000) + "]".repeat(100_000)],
  ["no JSON", "[["],
])("%s: nothing is made of it", async (_, files) => {
  expect(await read(files)).toEqual({ digest, files: [] });
});
