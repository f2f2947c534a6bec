import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import { pace } from "../../pace.ts";
import type { BlobRef } from "../../protocol/text.ts";
import type { BlobRead, Blobs, Pieces } from "../store.ts";

/** Blobs in pieces, so that a large one is never in memory as a whole. */

/** The most bytes of one piece. */
export const pieceBytes = 256 * 1024;

/** The most bytes held in memory at once. A blob that is no larger is stored like a text. */
export const mostHeld = 1024 * 1024;

/** The same bytes in pieces of exactly `size`, except for the last. */
export async function* cut(pieces: ReturnType<Pieces>, size = pieceBytes): AsyncGenerator<Buffer> {
  let held: Buffer[] = [];
  let bytes = 0;
  for await (const piece of pieces) {
    for (let at = 0; at < piece.byteLength; ) {
      const part = Buffer.from(piece.buffer, piece.byteOffset + at, Math.min(size - bytes, piece.byteLength - at));
      at += part.length;
      bytes += part.length;
      held.push(part);
      if (bytes < size) continue;
      yield held.length === 1 ? part : Buffer.concat(held);
      [held, bytes] = [[], 0];
    }
  }
  if (bytes > 0) yield Buffer.concat(held);
}

/**
 * The hash and size of the bytes. `whole`: all of them, or undefined if they are more than `mostHeld`. Rejects with the
 * error that the pieces throw.
 */
export const measured = async (pieces: Pieces): Promise<{ ref: BlobRef; whole: Buffer | undefined }> => {
  const hash = createHash("sha256");
  let held: Uint8Array[] | undefined = [];
  let bytes = 0;
  for await (const piece of pieces()) {
    hash.update(piece);
    bytes += piece.byteLength;
    if (bytes > mostHeld) held = undefined;
    else held?.push(piece);
    await pace();
  }
  return { ref: { sha256: hash.digest("hex"), bytes }, whole: held && Buffer.concat(held) };
};

/**
 * Passes the pieces on. Throws instead of yielding the last one if the bytes are not those of the blob, so that no
 * reader takes them for it.
 */
export async function* checked<Piece extends Uint8Array>(
  pieces: AsyncIterable<Piece> | Iterable<Piece>,
  { sha256, bytes }: BlobRef,
): AsyncGenerator<Piece> {
  const hash = createHash("sha256");
  let seen = 0;
  let last: Piece | undefined;
  for await (const piece of pieces) {
    hash.update(piece);
    seen += piece.byteLength;
    if (seen > bytes) break;
    if (last !== undefined) yield last;
    last = piece;
  }
  const found = hash.digest("hex");
  if (seen !== bytes || found !== sha256)
    throw new Error(`Expected the ${bytes} bytes of ${sha256}, got other bytes (${found})`);
  if (last !== undefined) yield last;
}

/**
 * Makes the `write` of a store of blobs: `put` stores a small blob, `keep` a large one, whose pieces are checked on
 * every pass.
 */
export const writeWith =
  (
    put: (bytes: Buffer) => Promise<BlobRef>,
    keep: (ref: BlobRef, pieces: () => AsyncGenerator<Uint8Array>) => unknown,
  ) =>
  async (pieces: Pieces): Promise<BlobRef> => {
    const { ref, whole } = await measured(pieces);
    if (whole !== undefined) return put(whole);
    await keep(ref, () => checked(pieces(), ref));
    return ref;
  };

/** Reads a file of this size, which is open while it is read. Throws if the file is shorter. */
export async function* piecesOfFile(path: string, bytes: number): AsyncGenerator<Buffer> {
  await using file = await open(path, "r");
  for (let at = 0; at < bytes; ) {
    const piece = Buffer.allocUnsafe(Math.min(pieceBytes, bytes - at));
    const { bytesRead } = await file.read(piece, 0, piece.length, at);
    if (bytesRead === 0) throw new Error(`Expected ${bytes} bytes in ${path}, got ${at}`);
    at += bytesRead;
    yield piece.subarray(0, bytesRead);
  }
}

/** Each call of the returned function reads the blob from its beginning. The pieces throw if the blob is missing. */
export const piecesOf = (blobs: Pick<Blobs, "read">, sha256: string) =>
  async function* (): AsyncGenerator<Buffer> {
    const found = await blobs.read(sha256);
    if (found === undefined) throw new Error(`Expected the blob ${sha256}, got nothing there`);
    yield* found.pieces;
  };

/** Reads the blob into memory, for callers that need all of it at once. */
export const wholeOf = async ({ pieces }: BlobRead): Promise<Buffer> => {
  const parts: Buffer[] = [];
  for await (const piece of pieces) parts.push(piece);
  return Buffer.concat(parts);
};

/** Presents bytes in memory as a blob to read. */
export const readOf = (bytes: Buffer): BlobRead => ({
  bytes: bytes.length,
  pieces: cut([bytes]),
});

/** Opens a blob of known size; a small one is read at once. undefined: the blob is missing. */
export const openBlob = async (
  blobs: Pick<Blobs, "get" | "read">,
  { sha256, bytes }: BlobRef,
): Promise<BlobRead | undefined> => {
  if (bytes > mostHeld) return blobs.read(sha256);
  const whole = await blobs.get(sha256);
  return whole && readOf(whole);
};

/**
 * A blob that may be moved while it is read. When reading fails, `now` opens the blob at its new place, and the rest is
 * read from there. If `now` resolves to undefined, the blob is nowhere, and the error is thrown.
 */
export const blobThatMayMove = ({ bytes, pieces }: BlobRead, now: () => Promise<BlobRead | undefined>): BlobRead => ({
  bytes,
  pieces: follow(pieces, now),
});

async function* follow(pieces: BlobRead["pieces"], now: () => Promise<BlobRead | undefined>): AsyncGenerator<Buffer> {
  let given = 0;
  try {
    for await (const piece of pieces) {
      given += piece.length;
      yield piece;
    }
  } catch (error) {
    const moved = await now();
    if (moved === undefined) throw error;
    let at = 0;
    for await (const piece of moved.pieces) {
      const rest = piece.subarray(Math.max(0, given - at));
      at += piece.length;
      if (rest.length > 0) yield rest;
    }
  }
}
