import { once } from "node:events";
import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { readInTurns } from "../../src/process/runner/in-turns.ts";

const piece = 64 * 1024;

/** Most bytes that are taken in one turn of the event loop of 32 pieces that are there, and all of them. */
const taken = async (read: (pipe: Readable, take: (chunk: Buffer) => void) => void) => {
  const pipe = new Readable({ read() {} });
  for (let count = 0; count < 32; count += 1) pipe.push(Buffer.alloc(piece, count));
  pipe.push(null);
  let [now, most] = [0, 0];
  const all: Buffer[] = [];
  read(pipe, (chunk) => {
    if (now === 0) setImmediate(() => (now = 0));
    now += chunk.length;
    most = Math.max(most, now);
    all.push(chunk);
  });
  await once(pipe, "end");
  return { most, order: all.map(([first]) => first) };
};

const inOrder = Array.from({ length: 32 }, (_, count) => count);

test("what a pipe has is taken with turns for others in between, all of it and in order", async () => {
  const { most, order } = await taken(readInTurns);
  expect(order).toEqual(inOrder);
  // Here two of its turns are one: the first ends with the tick that the second begins in.
  expect(most).toBeLessThanOrEqual(8 * piece);
});

test("control: without, all of it is one turn", async () => {
  expect(await taken((pipe, take) => void pipe.on("data", take))).toEqual({ most: 32 * piece, order: inOrder });
});
