import { isAscii, isUtf8 } from "node:buffer";
import { hash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { setImmediate as tick } from "node:timers/promises";
import { ServiceError } from "../../error.ts";
import type { Limits } from "../../protocol/limit.ts";
import type { Route } from "../../protocol/route/route.ts";
import { quote } from "../../protocol/issue.ts";

/**
 * Reads and parses a JSON body: type, then length, then bytes within the limit, then UTF-8, then shape, then JSON. It
 * stays on the main thread: 28 MiB of base64 block it for at most 25 ms, other text for 35 ms, because the steps yield
 * to the event loop in between (measured, see test/service/http/bad-input.test.ts).
 */

export type Body = { bytes: Buffer; value: unknown };

/** The parts of a route that decide how its body is read. */
type Takes = Pick<Route, "bodyOptional" | "bodySize"> & { body?: unknown };

export type Bodies = {
  /**
   * Resolves to undefined when there is no body and the route does not require one; rejects with a `ServiceError`
   * otherwise.
   */
  read(route: Takes, incoming: IncomingMessage, outgoing: ServerResponse): Promise<Body | undefined>;
};

/** The bytes of the bodies that were read, for a request that is forwarded to another node. */
const kept = new WeakMap<IncomingMessage, Buffer>();

/** The bytes of a request's body; undefined: the request has a body that was not read. */
export const bytesOf = (incoming: IncomingMessage): Buffer | undefined =>
  kept.get(incoming) ?? (declaredLength(incoming) === 0 ? Buffer.alloc(0) : undefined);

/** The SHA-256 that the body of a request signed by another node must have. */
const signed = new WeakMap<IncomingMessage, string>();

/** Makes reading the body of this request throw `unauthorized` unless the body has this SHA-256 (hex). */
export const expectBody = (incoming: IncomingMessage, sha256: string): void => void signed.set(incoming, sha256);

const checkSigned = (incoming: IncomingMessage, bytes: Buffer): void => {
  const expected = signed.get(incoming);
  if (expected !== undefined && hash("sha256", bytes) !== expected)
    throw new ServiceError("unauthorized", "Expected the body that was signed.");
};

export const createBodies = (limits: Limits): Bodies => {
  const large = slots(limits.largeBodies);
  return {
    async read(route, incoming, outgoing) {
      const length = declaredLength(incoming);
      if (length === 0) checkSigned(incoming, Buffer.alloc(0));
      if (route.body === undefined) {
        if (length !== 0) throw new ServiceError("invalid_request", "Expected a request without a body, got one.");
        return undefined;
      }
      if (length === 0) {
        if (route.bodyOptional === true) return undefined;
        throw new ServiceError("invalid_json", "Expected a JSON body, got an empty one.");
      }
      checkType(incoming);
      const limit = route.bodySize === "large" ? limits.largeBodyBytes : limits.bodyBytes;
      if (length !== undefined && length > limit) throw tooLarge(limit, `${length}`);
      const big = limit > limits.bodyBytes && (length === undefined || length > limits.bodyBytes);
      using _slot = big ? await large.take() : undefined;
      if (incoming.headers.expect !== undefined) outgoing.writeContinue();
      const bytes = await collect(incoming, limit);
      checkSigned(incoming, bytes);
      kept.set(incoming, bytes);
      if (bytes.length === 0 && route.bodyOptional === true) return undefined;
      return { bytes, value: await parseJson(bytes, limits) };
    },
  };
};

/** undefined: chunked, so not known yet. Node's parser has refused values that are not numbers. */
const declaredLength = ({ headers }: IncomingMessage): number | undefined =>
  headers["transfer-encoding"] !== undefined ? undefined : Number(headers["content-length"] ?? 0);

const jsonMedia = /^application\/json[ \t]*(?:;[ \t]*charset="?utf-8"?[ \t]*)?$/i;

const checkType = ({ headers }: IncomingMessage): void => {
  const type = headers["content-type"];
  if (type === undefined || !jsonMedia.test(type))
    throw new ServiceError(
      "unsupported_media_type",
      `Expected Content-Type: application/json, got ${type === undefined ? "none" : quote(type)}.`,
    );
  const encoding = headers["content-encoding"];
  if (encoding !== undefined && encoding !== "identity")
    throw new ServiceError(
      "unsupported_media_type",
      `Expected a body without Content-Encoding, got ${quote(encoding)}.`,
    );
};

const tooLarge = (limit: number, got: string): ServiceError =>
  new ServiceError("body_too_large", `Expected a body of at most ${limit} bytes, got ${got}.`);

const collect = async (incoming: IncomingMessage, limit: number): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const stop = (error: Error) => {
      incoming.off("data", data);
      incoming.pause();
      reject(error);
    };
    const data = (chunk: Buffer) => {
      size += chunk.length;
      if (size > limit) stop(tooLarge(limit, "more"));
      else chunks.push(chunk);
    };
    const cut = () => reject(new ServiceError("invalid_request", "Expected a complete body, got part of one."));
    incoming.on("data", data);
    incoming.once("end", () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, size)));
    incoming.once("error", cut);
    incoming.once("close", cut);
  });

const protoKey = /(?<!\\)"__proto__"\s*:/;

/**
 * Bytes scanned per turn of the event loop; in a larger body, every pass over the whole of it gets a turn of its own.
 */
const step = 1024 * 1024;

const parseJson = async (bytes: Buffer, limits: Limits): Promise<unknown> => {
  const pause = async () => {
    if (bytes.length > step) await tick();
  };
  await pause();
  if (!isUtf8(bytes)) throw new ServiceError("invalid_json", "Expected a body in UTF-8, got other bytes.");
  const shape = createShape(limits);
  for (let at = 0; at < bytes.length; at += step) {
    shape(bytes, at, Math.min(at + step, bytes.length));
    await pause();
  }
  const text = bytes.toString(isAscii(bytes) ? "latin1" : "utf8");
  await pause();
  // zod drops such a key silently, so refuse it.
  const named = text.includes('"__proto__"') && protoKey.test(text);
  await pause();
  // Checked before JSON.parse, which would scan the whole text first.
  if (text.trimStart() === "") throw new ServiceError("invalid_json", "Expected valid JSON, got white space.");
  if (named) throw new ServiceError("invalid_request", 'Expected no key "__proto__", got one.');
  try {
    return JSON.parse(text);
  } catch (error) {
    // V8's message quotes the text around the error; only the position is passed on.
    const at = /position (\d+)/.exec(error instanceof Error ? error.message : "")?.[1];
    throw new ServiceError(
      "invalid_json",
      `Expected valid JSON, got ${at === undefined ? "an unfinished text" : `a mistake at position ${at}`}.`,
    );
  } finally {
    await pause();
  }
};

const [quoteMark, backslash, comma, colon, open, openArray, close, closeArray] = [
  0x22, 0x5c, 0x2c, 0x3a, 0x7b, 0x5b, 0x7d, 0x5d,
];

/**
 * More than any valid request has, even one with texts of `requestBytes` and files in base64. The limit exists because
 * escapes make JSON.parse four times slower.
 */
const maxEscapes = 500_000;

/** Checks depth, keys and values before JSON.parse, which would build them all first. */
const createShape = ({ jsonDepth, jsonKeys }: Limits) => {
  let inText = false;
  let skip = false;
  let depth = 0;
  let keys = 0;
  let values = 0;
  let escapes = 0;
  return (bytes: Buffer, from: number, to: number): void => {
    for (let at = from; at < to; at += 1) {
      const byte = bytes[at] as number;
      if (inText) {
        if (skip) skip = false;
        else if (byte === backslash) {
          skip = true;
          escapes += 1;
          if (escapes > maxEscapes) throw shapeError(`at most ${maxEscapes} escapes`);
        } else if (byte === quoteMark) inText = false;
      } else if (byte === quoteMark) inText = true;
      else if (byte === open || byte === openArray) {
        depth += 1;
        if (depth > jsonDepth) throw shapeError(`at most ${jsonDepth} levels of nesting`);
      } else if (byte === close || byte === closeArray) depth -= 1;
      else if (byte === colon) {
        keys += 1;
        if (keys > jsonKeys) throw shapeError(`at most ${jsonKeys} keys`);
      } else if (byte === comma) {
        values += 1;
        if (values > 2 * jsonKeys) throw shapeError(`at most ${2 * jsonKeys} values`);
      }
    }
  };
};

const shapeError = (rule: string): ServiceError =>
  new ServiceError("invalid_request", `Expected JSON of ${rule}, got more.`);

const waitMs = 30_000;
const waiters = 32;

/** At most `count` holders at a time; others wait, limited in number and time. */
const slots = (count: number) => {
  let free = count;
  const queue: (() => void)[] = [];
  const busy = () =>
    new ServiceError("rate_limited", `Expected at most ${count} large bodies at once, got more. Try again.`);
  const slot = (): Disposable => ({
    [Symbol.dispose]() {
      const next = queue.shift();
      if (next === undefined) free += 1;
      else next();
    },
  });
  return {
    async take(): Promise<Disposable> {
      if (free > 0) {
        free -= 1;
        return slot();
      }
      if (queue.length >= waiters) throw busy();
      await new Promise<void>((resolve, reject) => {
        const enter = () => {
          clearTimeout(timer);
          resolve();
        };
        const timer = setTimeout(() => {
          queue.splice(queue.indexOf(enter), 1);
          reject(busy());
        }, waitMs);
        queue.push(enter);
      });
      return slot();
    },
  };
};
