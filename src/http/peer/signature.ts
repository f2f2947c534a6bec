import { createHmac, hash, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";

/**
 * How a node proves to another one that a request comes from a node: with a key that is stored only in the database.
 * The signature covers the whole request and is valid for one receiving node, for a minute, once.
 */

/** The header: the sender, the time, a nonce, the body's SHA-256, and the code (HMAC) over all of it. */
export const peerHeader = "x-sortie-peer";

/** The signed parts of a request. `to`: the node that is to answer. */
export type Signed = { method: string; target: string; from: string; to: string; body: Uint8Array };

const validMs = 60_000;

/** How many nonces are remembered; requests beyond that are refused. */
const mostWords = 100_000;

const codeOf = (key: Uint8Array, parts: readonly string[]): string =>
  createHmac("sha256", key).update(JSON.stringify(parts)).digest("hex");

/** The header's value for a request sent now. `now`: the time on the clock that all nodes share. */
export const sign = (key: Uint8Array, { method, target, from, to, body }: Signed, now: Date): string => {
  const word = randomBytes(16).toString("hex");
  const time = String(now.getTime());
  const sha256 = hash("sha256", body);
  const code = codeOf(key, [method, target, from, to, time, word, sha256]);
  return `from=${from}; time=${time}; word=${word}; body=${sha256}; code=${code}`;
};

const form =
  /^from=([a-z0-9._-]{1,63}); time=(\d{1,16}); word=([0-9a-f]{32}); body=([0-9a-f]{64}); code=([0-9a-f]{64})$/;

/** The SHA-256 that a verified header claims for the body, which has not been read yet. */
export type Claimed = { sha256: string };

/**
 * Returns a function that verifies the headers of requests to the node `to` and accepts each nonce once. It returns
 * undefined for a request that no node signed.
 */
export const createVerifier = (key: Uint8Array, to: string, now: () => Date) => {
  const used = new Map<string, number>();
  return (method: string, target: string, headers: IncomingHttpHeaders): Claimed | undefined => {
    const header = headers[peerHeader];
    const [, from = "", time = "", word = "", sha256 = "", code = ""] =
      (typeof header === "string" ? form.exec(header) : undefined) ?? [];
    if (code === "") return undefined;
    const wanted = codeOf(key, [method, target, from, to, time, word, sha256]);
    if (!timingSafeEqual(Buffer.from(wanted), Buffer.from(code))) return undefined;
    const at = now().getTime();
    if (Math.abs(at - Number(time)) > validMs) return undefined;
    for (const [known, until] of used) {
      if (until > at) break;
      used.delete(known);
    }
    if (used.has(word) || used.size >= mostWords) return undefined;
    // Kept for twice the validity, because a request whose time is in the future stays valid for longer.
    used.set(word, at + 2 * validMs);
    return { sha256 };
  };
};
