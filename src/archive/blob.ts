import { Readable } from "node:stream";
import type { BlobRef } from "../protocol/text.ts";
import { mostHeld, piecesOf } from "../store/blob/piece.ts";
import type { Blobs } from "../store/store.ts";

/** Blobs in an archive: large ones are read in pieces. */

/** The whole content, or a function that returns its pieces, from the beginning with each call. */
export type Content = Buffer | ReturnType<typeof piecesOf>;

/** The content of a blob; undefined: it is gone. */
export const contentOf = async (
  blobs: Pick<Blobs, "get" | "read">,
  { sha256, bytes }: BlobRef,
): Promise<Content | undefined> => {
  if (bytes <= mostHeld) return blobs.get(sha256);
  return (await blobs.read(sha256)) && piecesOf(blobs, sha256);
};

export const entryOf = (content: Content): Buffer | Readable =>
  typeof content === "function" ? Readable.from(content(), { objectMode: false }) : content;
