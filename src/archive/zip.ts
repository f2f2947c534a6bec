import { createHash, type Hash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { open } from "node:fs/promises";
import { PassThrough, Readable } from "node:stream";
import { finished, pipeline } from "node:stream/promises";
import { ZipFile } from "yazl";

/**
 * Writes a ZIP file in one pass; the same entries give the same bytes. Several small files are compressed ahead in
 * zlib's threads. Their number is limited, so memory does not grow with the archive.
 */

export interface Zip {
  /**
   * Adds an entry; resolves when the next one can be added. `done` resolves once the entry is written. Names are
   * relative. The archive takes over a stream and ends it, even if this rejects.
   */
  add(name: string, mode: number, content: Buffer | Readable): Promise<{ done: Promise<AddedEntry> }>;
  /** Resolves to the file's size in bytes once it is on disk and its central directory was found to be complete. */
  finish(): Promise<number>;
  /** Resolves when nothing is being written any more; must also be called after a failure. */
  close(): Promise<void>;
}

export type AddedEntry = { bytes: number; sha256: string };

/** The most bytes that are hashed and summed at once; larger contents are split into pieces. */
const mostAtOnce = 1024 * 1024;
const pieceBytes = 256 * 1024;

function* piecesOf(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
}

/** How many bytes and entries may be in flight between two gates. */
const windowBytes = 8 * 1024 * 1024;
const windowEntries = 32;

/**
 * The same local date for every entry, because the format has no time zone. It is not the format's first day, which
 * yazl clamps by its own time zone.
 */
const day = () => new Date(1980, 0, 3);

const packed =
  /\.(7z|aac|apk|avif|br|bz2|docx|flac|gif|gz|heic|jar|jpe?g|lz4|m4a|mkv|mov|mp[34]|odt|ogg|opus|pdf|png|pptx|rar|tgz|webm|webp|whl|woff2?|xlsx|xz|zip|zst)$/i;

/** Every method rejects when the signal aborts or writing fails; the caller then removes the file. */
export const createZip = (path: string, signal: AbortSignal): Zip => {
  const zip = new ZipFile();
  const failure = Promise.withResolvers<never>();
  failure.promise.catch(() => undefined);
  const sources = new Set<Readable>();
  const fail = (error: unknown) => {
    failure.reject(error);
    for (const source of sources) source.destroy();
  };
  const sink = createWriteStream(path, { flags: "wx", mode: 0o600 });
  const written = pipeline(zip.outputStream, sink, { signal });
  written.catch((error: unknown) => fail(signal.aborted ? signal.reason : error));
  zip.on("error", fail);

  let entries = 0;
  let [pendingBytes, pendingEntries] = [0, 0];
  /** Resolves when the writer reaches the last gate entry, that is, when everything before it has been written. */
  let gate: Promise<unknown> = Promise.resolve();

  const addStream = (name: string, options: object, stream: Readable): Promise<AddedEntry> => {
    const { promise, resolve } = Promise.withResolvers<AddedEntry>();
    const turn = Promise.withResolvers<void>();
    gate = turn.promise;
    sources.add(stream);
    stream.once("error", fail).once("close", () => sources.delete(stream));
    zip.addReadStreamLazy(name, options, (give) => {
      turn.resolve();
      const hash: Hash = createHash("sha256");
      let bytes = 0;
      const through = new PassThrough();
      stream.on("data", (chunk: Buffer) => {
        hash.update(chunk);
        bytes += chunk.length;
      });
      stream.once("end", () => resolve({ bytes, sha256: hash.digest("hex") }));
      give(null, stream.pipe(through));
    });
    return Promise.race([promise, failure.promise]);
  };

  const add: Zip["add"] = async (name, mode, content) => {
    if (signal.aborted) throw signal.reason;
    entries += 1;
    const empty = Buffer.isBuffer(content) && content.length === 0;
    const options = { mtime: day(), mode, compress: !empty && !packed.test(name), forceDosTimestamp: true };
    const full = pendingBytes > windowBytes || pendingEntries >= windowEntries;
    if (Buffer.isBuffer(content) && (empty || (!full && content.length <= mostAtOnce))) {
      pendingBytes += content.length;
      pendingEntries += 1;
      zip.addBuffer(content, name, options);
      const sha256 = createHash("sha256").update(content).digest("hex");
      return { done: Promise.resolve({ bytes: content.length, sha256 }) };
    }
    // Only entries with a lazy source show how far the writer has got. `failure` is first in the race, so that it wins
    // if both have settled.
    await Promise.race([failure.promise, gate]);
    [pendingBytes, pendingEntries] = [0, 0];
    const stream = Buffer.isBuffer(content) ? Readable.from(piecesOf(content), { objectMode: false }) : content;
    const done = addStream(name, options, stream);
    done.catch(() => undefined);
    return { done };
  };

  return {
    add: async (name, mode, content) => {
      try {
        return await add(name, mode, content);
      } catch (error) {
        if (!Buffer.isBuffer(content)) content.destroy();
        throw error;
      }
    },

    async close() {
      fail(new Error("The archive was closed"));
      sink.destroy();
      await finished(sink).catch(() => undefined);
    },

    async finish() {
      zip.end();
      await Promise.race([written, failure.promise]);
      return verify(path, entries);
    },
  };
};

const endSignature = 0x06054b50;
const endLength = 22;

/** Resolves to the size of the file; rejects unless its end record counts all entries. */
const verify = async (path: string, entries: number): Promise<number> => {
  await using file = await open(path, "r");
  const { size } = await file.stat();
  const end = Buffer.alloc(endLength);
  await file.read(end, 0, endLength, size - endLength);
  const counted = end.readUInt16LE(10);
  if (end.readUInt32LE(0) !== endSignature || counted !== Math.min(entries, 0xffff))
    throw new Error(`Expected a ZIP of ${entries} entries, got a directory of ${counted} in ${size} bytes`);
  return size;
};
