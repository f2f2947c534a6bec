import { createHmac, hash, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";

/**
 * How one node shows another that a request is a node's: by a key that only the database has. What is signed is the
 * whole request, for one node, for a minute, once.
 */

/** The header: who sends, when, a word that is used once, the body's SHA-256, and the code over all of it. */
export const peerHeader = "x-sortie-peer";

/** What is signed. `to`: the node that is to answer. */
export type Signed = { method: string; target: string; from: string; to: string; body: Uint8Array };

const validMs = 60_000;

/** Words of requests that are remembered; more at once are refused. */
const mostWords = 100_000;

const codeOf = (key: Uint8Array, parts: readonly string[]): string =>
  createHmac("sha256", key).update(JSON.stringify(parts)).digest("hex");

/** The value of the header for a request that is sent now, by the clock that all nodes share. */
export const sign = (key: Uint8Array, { method, target, from, to, body }: Signed, now: Date): string => {
  const word = randomBytes(16).toString("hex");
  const time = String(now.getTime());
  const sha256 = hash("sha256", body);
  const code = codeOf(key, [method, target, from, to, time, word, sha256]);
  return `from=${from}; time=${time}; word=${word}; body=${sha256}; code=${code}`;
};

const form =
  /^from=([a-z0-9._-]{1,63}); time=(\d{1,16}); word=([0-9a-f]{32}); body=([0-9a-f]{64}); code=([0-9a-f]{64})$/;

/** What a request claims before its body is read: the body's SHA-256. */
export type Claimed = { sha256: string };

/** Checks headers of requests to the node `to`, each word once. undefined: it is no request of a node. */
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
    // From the past it is refused by its time, from the future until its time has passed.
    used.set(word, at + 2 * validMs);
    return { sha256 };
  };
};
