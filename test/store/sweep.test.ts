import { expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { sweepOrphanBlobs } from "../../src/store/blob/sweep.ts";
import type { Nodes, Turn } from "../../src/store/node.ts";
import type { Blobs, OrphanBlobs } from "../../src/store/store.ts";

/** Which node drops what nobody names. */

const blobs = ["a", "b", "c"];

/** What is dropped at a start by a service that has, or does not have, its turn. */
const dropped = async (turn?: Nodes["turn"]): Promise<string[]> => {
  const gone: string[] = [];
  const orphans: OrphanBlobs = {
    markOrphans: async () => {},
    release: async () => {},
    nameBlobs: async () => {},
    find: async () => blobs,
    forget: async () => {},
  };
  const kept = { drop: async (sha256: string) => (gone.push(sha256), "dropped") } as unknown as Blobs;
  const over = Promise.withResolvers<void>();
  const ends = (found: Turn | undefined): Turn | undefined => {
    if (found === undefined) over.resolve();
    return (
      found && {
        isHeld: () => found.isHeld(),
        async [Symbol.asyncDispose]() {
          await found[Symbol.asyncDispose]();
          over.resolve();
        },
      }
    );
  };
  const store = { orphans, blobs: kept };
  await using sweep = sweepOrphanBlobs(
    turn === undefined ? store : { ...store, nodes: { turn: async (name) => ends(await turn(name)) } },
    silent,
  );
  if (turn === undefined) await expect.poll(() => gone.length).toBe(blobs.length);
  else await over.promise;
  expect(sweep).toBeDefined();
  return gone;
};

/** Held for so many looks. */
const turnOf = (looks: number): Turn => ({ isHeld: () => (looks -= 1) >= 0, [Symbol.asyncDispose]: async () => {} });

test("a node drops while it has its turn, and nothing in another's; control: one alone drops all", async () => {
  expect(await dropped(async () => undefined)).toEqual([]);
  expect(await dropped(async () => turnOf(1))).toEqual(["a"]);
  expect(await dropped(async () => turnOf(9))).toEqual(blobs);
  expect(await dropped()).toEqual(blobs);
});
