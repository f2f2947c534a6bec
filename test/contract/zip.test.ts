import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { crc32 } from "node:zlib";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Entry as Read, open as openZip, type ZipFile } from "yauzl";
import { createZip } from "../../src/task/zip.ts";
import { centralRecord, endRecords, type Entry, localHeader, verifyEnd } from "../../src/task/zip-format.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sortie-zip-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const never = new AbortController().signal;

/** Names in order; the bytes of those that are asked for. */
const read = (path: string, wanted: readonly string[] = []): Promise<{ names: string[]; bytes: Buffer[] }> =>
  new Promise((resolve, reject) => {
    openZip(path, { lazyEntries: true }, (error: Error | null, zip: ZipFile) => {
      if (error) return reject(error);
      const found = { names: [] as string[], bytes: [] as Buffer[] };
      zip.on("error", reject).on("end", () => resolve(found));
      zip.on("entry", (entry: Read) => {
        found.names.push(entry.fileName);
        if (!wanted.includes(entry.fileName)) return zip.readEntry();
        zip.openReadStream(entry, (failed, stream) => {
          if (failed) return reject(failed);
          const parts: Buffer[] = [];
          stream
            .on("data", (part: Buffer) => parts.push(part))
            .once("end", () => {
              found.bytes.push(Buffer.concat(parts));
              zip.readEntry();
            });
        });
      });
      zip.readEntry();
    });
  });

describe("zip", () => {
  test("more entries than the plain format counts", async () => {
    const path = join(folder, "many.zip");
    const zip = await createZip(path, never);
    const count = 66_000;
    for (let index = 0; index < count; index++) await zip.add(`f${index}`, 0o100644, Buffer.alloc(0));
    const size = await zip.finish();
    await zip.close();
    expect(readFileSync(path).length).toBe(size);
    const { names } = await read(path);
    expect({ count: names.length, last: names.at(-1) }).toEqual({ count, last: `f${count - 1}` });
  });

  test("an entry and a directory behind the first four GiB", async () => {
    const path = join(folder, "far.zip");
    const data = Buffer.from("far away");
    const entry: Entry = {
      name: Buffer.from("far.txt"),
      mode: 0o100644,
      method: 0,
      crc: crc32(data),
      packed: data.length,
      size: data.length,
      offset: 5 * 1024 ** 3,
    };
    const header = localHeader(entry);
    const directory = centralRecord(entry);
    const begin = entry.offset + header.length + data.length;
    // A hole stands for what comes before it.
    await using file = await open(path, "wx+");
    await file.write(Buffer.concat([header, data]), 0, header.length + data.length, entry.offset);
    const end = Buffer.concat([directory, endRecords(1, begin, directory.length)]);
    await file.write(end, 0, end.length, begin);
    expect(await read(path, ["far.txt"])).toEqual({ names: ["far.txt"], bytes: [data] });
  });

  test("streams and buffers, small and large, stored and deflated, keep their order and their bytes", async () => {
    const path = join(folder, "mixed.zip");
    const zip = await createZip(path, never);
    const contents = new Map<string, Buffer>();
    for (let index = 0; index < 60; index++) {
      const bytes = Buffer.alloc(index ** 3 * 7, `${index} and so on `);
      contents.set(index % 3 === 0 ? `f${index}.gz` : `f${index}.txt`, bytes);
    }
    const sizes: number[] = [];
    for (const [name, bytes] of contents) {
      const stream = Readable.from([bytes.subarray(0, 1000), bytes.subarray(1000)], { objectMode: false });
      const { done } = await zip.add(name, 0o100644, bytes.length > 1000 && bytes.length % 2 === 0 ? stream : bytes);
      sizes.push((await done).bytes);
    }
    await zip.finish();
    await zip.close();
    expect(sizes).toEqual([...contents.values()].map(({ length }) => length));
    const { names, bytes } = await read(path, [...contents.keys()]);
    expect(names).toEqual([...contents.keys()]);
    expect(bytes.every((found, index) => contents.get(names[index] ?? "")?.equals(found))).toBe(true);
  });

  test("a source that fails, fails the archive; a file that was cut is seen", async () => {
    const zip = await createZip(join(folder, "failed.zip"), never);
    const broken = Readable.from(
      (async function* () {
        yield Buffer.alloc(10);
        throw new Error("unplugged");
      })(),
    );
    const { done } = await zip.add("a", 0o100644, broken);
    const later = Readable.from([Buffer.alloc(10)]);
    await zip.add("b", 0o100644, later);
    await expect(done).rejects.toThrow("unplugged");
    await expect(zip.finish()).rejects.toThrow("unplugged");
    await zip.close();
    expect(later.destroyed).toBe(true);

    const path = join(folder, "cut.zip");
    const whole = await createZip(path, never);
    await whole.add("a", 0o100644, Buffer.from("a"));
    const size = await whole.finish();
    await whole.close();
    await using file = await open(path, "r+");
    await verifyEnd(file, 1);
    await expect(verifyEnd(file, 2)).rejects.toThrow("Expected a ZIP of 2 entries, got a directory of 1");
    await file.truncate(size - 5);
    await expect(verifyEnd(file, 1)).rejects.toThrow("Expected a ZIP of 1 entries");
  });
});
