import { createHash } from "node:crypto";
import type { Readable } from "node:stream";
import { type Entry, openPromise, type ZipFile } from "yauzl";

/** Reads a ZIP file entry by entry, each as a stream, so that memory does not grow with the archive. */

export interface Unzip extends Disposable {
  /** In the order of the ZIP's directory. The same `name` may occur twice. */
  readonly entries: readonly { name: string; mode: number; bytes: number }[];
  /** The whole entry as text; undefined when there is no such entry. Rejects above `maxBytes`. */
  text(name: string, maxBytes: number): Promise<string | undefined>;
  /** The entry's lines; none when there is no such entry. Throws when a line is longer than `maxBytes`. */
  lines(name: string, maxBytes: number): AsyncGenerator<string, void, undefined>;
  /**
   * The entry's length, its SHA-256, and the id that Git gives to it as a blob of `bytes` bytes under `algorithm`.
   * `converted`: whether it is a text with CRLF line ends.
   */
  digest(name: string, bytes: number, algorithm: "sha1" | "sha256"): Promise<Digest>;
}

export type Digest = { bytes: number; sha256: string; object: string; converted: boolean };

/** Rejects when the file cannot be read as a ZIP. */
export const openZip = async (path: string): Promise<Unzip> => {
  const zip = await openPromise(path, { lazyEntries: true, autoClose: false, strictFileNames: true });
  try {
    const listed: Entry[] = [];
    for await (const entry of zip.eachEntry()) listed.push(entry);
    return createUnzip(zip, listed);
  } catch (error) {
    zip.close();
    throw error;
  }
};

const createUnzip = (zip: ZipFile, listed: readonly Entry[]): Unzip => {
  const byName = new Map(listed.map((entry) => [entry.fileName, entry]));

  const open = async (name: string): Promise<Readable | undefined> => {
    const entry = byName.get(name);
    return entry === undefined ? undefined : zip.openReadStreamPromise(entry);
  };

  return {
    entries: listed.map(({ fileName, externalFileAttributes, uncompressedSize }) => ({
      name: fileName,
      mode: externalFileAttributes >>> 16,
      bytes: uncompressedSize,
    })),

    async text(name, maxBytes) {
      const stream = await open(name);
      if (stream === undefined) return undefined;
      const chunks: Buffer[] = [];
      let bytes = 0;
      for await (const chunk of stream as AsyncIterable<Buffer>) {
        bytes += chunk.length;
        if (bytes > maxBytes) throw new Error(`Expected at most ${maxBytes} bytes, got more`);
        chunks.push(chunk);
      }
      return Buffer.concat(chunks).toString();
    },

    async *lines(name, maxBytes) {
      const stream = await open(name);
      if (stream === undefined) return;
      let rest = "";
      stream.setEncoding("utf8");
      for await (const chunk of stream as AsyncIterable<string>) {
        const parts = (rest + chunk).split("\n");
        rest = parts.pop() ?? "";
        if (rest.length > maxBytes) throw new Error(`Expected lines of at most ${maxBytes} bytes, got a longer one`);
        yield* parts;
      }
      if (rest !== "") yield rest;
    },

    async digest(name, bytes, algorithm) {
      const stream = await open(name);
      const whole = createHash("sha256");
      const object = createHash(algorithm).update(`blob ${bytes}\0`);
      let got = 0;
      let [text, returns, last] = [true, false, 0];
      for await (const chunk of (stream ?? []) as AsyncIterable<Buffer>) {
        whole.update(chunk);
        object.update(chunk);
        // Git may have converted the line ends of content that it takes for text; this is Git's own heuristic.
        if (got === 0) text = !chunk.subarray(0, 8000).includes(0);
        returns ||= chunk.includes("\r\n") || (last === 13 && chunk[0] === 10);
        last = chunk.at(-1) ?? 0;
        got += chunk.length;
      }
      return {
        bytes: got,
        sha256: whole.digest("hex"),
        object: object.digest("hex"),
        converted: text && returns,
      };
    },

    [Symbol.dispose]: () => zip.close(),
  };
};
