import { expect, test } from "vitest";
import { waitForDirectory } from "../../src/task/directory-queue.ts";

/** Tasks that wait for a directory in which another works in place. */

test("a fault of a look ends nobody's wait; control: who waits beside is let in", async () => {
  const { signal } = new AbortController();
  let looks = 0;
  const hold = { [Symbol.dispose]: () => {} };
  const faulty = () => {
    looks += 1;
    if (looks === 1) throw new Error("EMFILE: too many open files");
    return hold;
  };
  const first = waitForDirectory({ taskID: "task_1", directory: "/one", rank: 1, take: faulty }, signal);
  const second = waitForDirectory({ taskID: "task_2", directory: "/two", rank: 2, take: () => hold }, signal);
  using let2 = await second;
  expect([looks, let2 === undefined]).toEqual([1, false]);
  using let1 = await first;
  expect([looks, let1 === undefined]).toEqual([2, false]);
});
