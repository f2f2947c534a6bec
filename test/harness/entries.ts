import { inflateRawSync } from "node:zlib";

/**
 * Reads a finished ZIP in memory: what it holds, and the bytes of an entry. No ZIP64, which our archives need only
 * beyond 4 GiB.
 */

export type Entry = { path: string; bytes: number; read(): Buffer };

const endMark = 0x06054b50;
const centralMark = 0x02014b50;

export const entriesOf = (zip: Buffer): Entry[] => {
  // The end record stands last; only a comment of at most 64 KiB may follow it.
  let end = zip.length - 22;
  while (end >= 0 && zip.readUInt32LE(end) !== endMark) end -= 1;
  if (end < 0) throw new Error(`Expected a ZIP, got ${zip.length} bytes without an end record`);
  const entries: Entry[] = [];
  let at = zip.readUInt32LE(end + 16);
  for (let left = zip.readUInt16LE(end + 10); left > 0; left -= 1) {
    if (zip.readUInt32LE(at) !== centralMark) throw new Error(`Expected a ZIP entry at byte ${at}`);
    const method = zip.readUInt16LE(at + 10);
    const packed = zip.readUInt32LE(at + 20);
    const [name, extra, comment] = [28, 30, 32].map((offset) => zip.readUInt16LE(at + offset)) as [
      number,
      number,
      number,
    ];
    const local = zip.readUInt32LE(at + 42);
    entries.push({
      path: zip.toString("utf8", at + 46, at + 46 + name),
      bytes: zip.readUInt32LE(at + 24),
      read() {
        const start = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
        const data = zip.subarray(start, start + packed);
        return method === 0 ? data : inflateRawSync(data);
      },
    });
    at += 46 + name + extra + comment;
  }
  return entries;
};
