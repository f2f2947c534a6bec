import { createHash, subtle } from "node:crypto";

/** The most bytes that are hashed on this thread. */
const mostAtOnce = 1024 * 1024;

/** SHA-256 in hexadecimal. More than `mostAtOnce` bytes are hashed in one of Node's own threads. */
export const hashOf = async (bytes: Uint8Array): Promise<string> =>
  bytes.length <= mostAtOnce
    ? createHash("sha256").update(bytes).digest("hex")
    : Buffer.from(await subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>)).toString("hex");
