import { createReadStream, fstatSync, openSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough, type Readable } from "node:stream";
import { expect, test } from "vitest";
import { createZip } from "../../src/archive/zip.ts";
import { temporary } from "../harness/project.ts";

/** What an archive that is given up leaves open: nothing. */

const setUp = () => {
  const folder = temporary("sortie-zip-");
  const file = join(folder.path, "file");
  writeFileSync(file, Buffer.alloc(100_000));
  const stop = new AbortController();
  return {
    stop,
    zip: createZip(join(folder.path, "a.zip"), stop.signal),
    /** A file that is open already, as those of a project are. */
    opened: (): { fd: number; stream: Readable } => {
      const fd = openSync(file, "r");
      return { fd, stream: createReadStream(file, { fd }) };
    },
    [Symbol.dispose]: () => folder[Symbol.dispose](),
  };
};

const isOpen = (fd: number): boolean => {
  try {
    return fstatSync(fd).isFile();
  } catch {
    return false;
  }
};

test("a file that waits for its turn is closed when the archive is given up, and one that comes later, too", async () => {
  using scene = setUp();
  const { zip, stop } = scene;
  // The writer is at this one for good.
  const slow = new PassThrough();
  await zip.add("slow", 0o644, slow);
  const [next, waits, late] = [scene.opened(), scene.opened(), scene.opened()];
  const all = [next, waits, late].map(({ fd }) => fd);
  await zip.add("next", 0o644, next.stream);
  const waiting = zip.add("waits", 0o644, waits.stream);
  expect(all.map(isOpen)).toEqual([true, true, true]);
  stop.abort(new Error("given up"));
  await expect(waiting).rejects.toThrow("given up");
  await expect(zip.add("late", 0o644, late.stream)).rejects.toThrow("given up");
  await zip.close();
  await expect.poll(() => all.map(isOpen)).toEqual([false, false, false]);
  expect(slow.destroyed).toBe(true);
});

test("one that comes after the writer failed is closed, whatever could be written before", async () => {
  using scene = setUp();
  const { zip } = scene;
  const first = scene.opened();
  first.stream.destroy(new Error("the disk is gone"));
  const { done } = await zip.add("first", 0o644, first.stream);
  await expect(done).rejects.toThrow("the disk is gone");
  const late = scene.opened();
  await expect(zip.add("late", 0o644, late.stream)).rejects.toThrow("the disk is gone");
  await expect.poll(() => isOpen(late.fd)).toBe(false);
  await zip.close();
});

test("control: one that is written is closed, and what was never handed over stays open", async () => {
  using scene = setUp();
  const { zip } = scene;
  const [written, own] = [scene.opened(), scene.opened()];
  const { done } = await zip.add("written", 0o644, written.stream);
  expect(await zip.finish()).toBeGreaterThan(100);
  expect((await done).bytes).toBe(100_000);
  expect([isOpen(written.fd), isOpen(own.fd)]).toEqual([false, true]);
  own.stream.destroy();
  await expect.poll(() => isOpen(own.fd)).toBe(false);
  await zip.close();
});
