import { createHash } from "node:crypto";
import { readOf } from "../../../src/store/blob/piece.ts";
import type { Blobs } from "../../../src/store/store.ts";

/** Blobs in memory. `onPut` is told each one before it is kept. */
export const blobsInMemory = (onPut: (sha256: string) => void = () => {}) => {
  const kept = new Map<string, Buffer>();
  const put: Blobs["put"] = async (bytes) => {
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    onPut(sha256);
    kept.set(sha256, Buffer.from(bytes));
    return { sha256, bytes: bytes.byteLength };
  };
  const blobs: Blobs = {
    put,
    async write(pieces) {
      const parts: Uint8Array[] = [];
      for await (const piece of pieces()) parts.push(piece);
      return put(Buffer.concat(parts));
    },
    get: async (sha256) => kept.get(sha256),
    async read(sha256) {
      const bytes = kept.get(sha256);
      return bytes && readOf(bytes);
    },
    drop: async () => "absent",
  };
  return { kept, blobs };
};
