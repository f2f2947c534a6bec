import { createHmac, randomBytes } from "node:crypto";
import type { SigningSecret } from "../store/webhook-queue.ts";

/** Signatures as in Standard Webhooks 1.0: HMAC-SHA256 over id, timestamp and body. */

const prefix = "whsec_";

export const newSecret = (): string => `${prefix}${randomBytes(32).toString("base64")}`;

/** The secret part of a signing secret, without its prefix. */
export const keyOf = (secret: string): string => secret.slice(prefix.length);

/** The secrets that sign now, newest first. */
export const validSecrets = (secrets: readonly SigningSecret[], now: number): SigningSecret[] =>
  secrets.filter(({ until }) => until === null || until > now);

/** Puts a new secret first. The others continue to sign for `keepHours` at most; at most three sign at once. */
export const rotateSecrets = (
  secrets: readonly SigningSecret[],
  secret: string,
  { now, keepHours = 24 }: { now: number; keepHours?: number | undefined },
): SigningSecret[] => {
  const until = now + keepHours * 3_600_000;
  const old = validSecrets(secrets, now).map((one) => ({ ...one, until: Math.min(one.until ?? until, until) }));
  return [{ secret, until: null }, ...validSecrets(old, now).slice(0, 2)];
};

const signature = (secret: string, signed: string): string => {
  const key = Buffer.from(keyOf(secret), "base64");
  return `v1,${createHmac("sha256", key).update(signed).digest("base64")}`;
};

/** The headers of one attempt. The id is the same for all attempts, the timestamp is not. */
export const headersFor = (
  message: string,
  body: string,
  secrets: readonly SigningSecret[],
  now: number,
): Record<string, string> => {
  const timestamp = String(Math.floor(now / 1000));
  return {
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(body)),
    "webhook-id": message,
    "webhook-timestamp": timestamp,
    "webhook-signature": validSecrets(secrets, now)
      .map(({ secret }) => signature(secret, `${message}.${timestamp}.${body}`))
      .join(" "),
  };
};
