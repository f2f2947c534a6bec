import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import { crc32, createDeflateRaw, deflateRaw, deflateRawSync } from "node:zlib";
import { centralRecord, endRecords, type Entry, localHeader, verifyEnd } from "./zip-format.ts";

/**
 * A ZIP file written once, from front to back, the same bytes for the same entries. Entries are compressed several
 * ahead in zlib's threads and written in the order of `add`; how far ahead is bounded, so memory does not grow with the
 * archive. Our own because the libraries we know look through all entries for every entry: 60,000 took half a minute.
 */

export interface Zip {
  /** Resolves when there is room for the next entry; `done` once it is written. Names are relative, modes git's. */
  add(name: string, mode: number, content: Buffer | Readable): Promise<{ done: Promise<Added> }>;
  /** Resolves with the file's size when it is on disk and its directory was found to be whole. */
  finish(): Promise<number>;
  /** Resolves when nothing is written any more, after a failure too. */
  close(): Promise<void>;
}

export type Added = { bytes: number; sha256: string };

const level = 6;
/** What may be compressed and not yet written. A stream counts as what it holds. */
const windowBytes = 16 * 1024 * 1024;
const windowEntries = 64;
const streamBytes = 1024 * 1024;
/** Up to here a thread costs more than it saves. */
const smallBytes = 4 * 1024;
/** No more memory than such a file needs; a usual state is 256 KiB to be cleared for every file. */
const small = { level, windowBits: 12, memLevel: 5 };
/** Bytes that go to the disk in one write. */
const writeBytes = 256 * 1024;

const packed =
  /\.(7z|aac|apk|avif|br|bz2|docx|flac|gif|gz|heic|jar|jpe?g|lz4|m4a|mkv|mov|mp[34]|odt|ogg|opus|pdf|png|pptx|rar|tgz|webm|webp|whl|woff2?|xlsx|xz|zip|zst)$/i;

const deflateLater = promisify(deflateRaw) as (bytes: Buffer, options: { level: number }) => Promise<Buffer>;

/** Every method rejects when the signal aborted or writing failed. The file is the caller's to remove. */
export const createZip = async (path: string, signal: AbortSignal): Promise<Zip> => {
  const file = await open(path, "wx+", 0o600);
  const entries: Entry[] = [];
  let position = 0;
  let pending: Buffer[] = [];
  let pendingBytes = 0;

  const flush = async (): Promise<void> => {
    signal.throwIfAborted();
    const chunks = pending;
    pending = [];
    pendingBytes = 0;
    if (chunks.length > 0) await file.writev(chunks);
  };
  const put = async (bytes: Buffer): Promise<void> => {
    pending.push(bytes);
    pendingBytes += bytes.length;
    position += bytes.length;
    if (pendingBytes >= writeBytes) await flush();
  };

  /** What is written so far; one that fails stops all that come after it. */
  let tail: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const done = tail.then(work);
    tail = done;
    done.catch(() => undefined);
    return done;
  };

  const addBuffer = (name: Buffer, mode: number, method: 0 | 8, bytes: Buffer): Promise<Added> => {
    const data =
      method === 0
        ? bytes
        : bytes.length <= smallBytes
          ? deflateRawSync(bytes, { ...small, chunkSize: bytes.length + 64 })
          : deflateLater(bytes, { level });
    if (data instanceof Promise) data.catch(() => undefined);
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    const crc = crc32(bytes);
    return inTurn(async () => {
      const ready = await data;
      const entry = { name, mode, method, crc, packed: ready.length, size: bytes.length, offset: position };
      entries.push(entry);
      await put(localHeader(entry));
      await put(ready);
      return { bytes: bytes.length, sha256 };
    });
  };

  const addStream = (name: Buffer, mode: number, method: 0 | 8, stream: Readable): Promise<Added> => {
    const done = inTurn(async () => {
      const entry: Entry = { name, mode, method, crc: 0, packed: 0, size: 0, offset: position };
      entries.push(entry);
      await put(localHeader(entry));
      const begin = position;
      const hash = createHash("sha256");
      const watch = async function* (source: AsyncIterable<Buffer>) {
        for await (const chunk of source) {
          hash.update(chunk);
          entry.crc = crc32(chunk, entry.crc);
          entry.size += chunk.length;
          yield chunk;
        }
      };
      const write = async (source: AsyncIterable<Buffer>) => {
        for await (const chunk of source) await put(chunk);
      };
      if (method === 0) await pipeline(stream, watch, write, { signal });
      else await pipeline(stream, watch, createDeflateRaw({ level, chunkSize: writeBytes }), write, { signal });
      entry.packed = position - begin;
      // Now that it is known what was written, the header in front of it says so.
      await flush();
      const header = localHeader(entry);
      await file.write(header, 0, header.length, entry.offset);
      return { bytes: entry.size, sha256: hash.digest("hex") };
    });
    done.catch(() => stream.destroy());
    return done;
  };

  /** Entries that are not known to be written, oldest first. */
  const ahead: { bytes: number; done: Promise<unknown> }[] = [];
  let aheadBytes = 0;

  return {
    async add(name, mode, content) {
      const bytes = Buffer.isBuffer(content) ? content.length : streamBytes;
      const encoded = Buffer.from(name);
      const method = bytes === 0 || packed.test(name) ? 0 : 8;
      const done = Buffer.isBuffer(content)
        ? addBuffer(encoded, mode, method, content)
        : addStream(encoded, mode, method, content);
      ahead.push({ bytes, done });
      aheadBytes += bytes;
      while (aheadBytes > windowBytes || ahead.length > windowEntries) {
        const oldest = ahead.shift();
        aheadBytes -= oldest?.bytes ?? 0;
        await oldest?.done;
      }
      return { done };
    },

    finish: () =>
      inTurn(async () => {
        const begin = position;
        for (const entry of entries) await put(centralRecord(entry));
        await put(endRecords(entries.length, begin, position - begin));
        await flush();
        await verifyEnd(file, entries.length);
        return position;
      }),

    async close() {
      await tail.catch(() => undefined);
      await file.close();
    },
  };
};
