import { AwsV4Signer } from "aws4fetch";
import { setTimeout as pause } from "node:timers/promises";
import { messageOf } from "../../error.ts";
import type { BlobRef } from "../../protocol/text.ts";
import type { Pieces } from "../store.ts";

/** Requests to a bucket, signed with AWS Signature Version 4 and retried. */

export type S3Place = {
  bucket: string;
  /** Without slashes at its ends; "": no prefix. */
  prefix: string;
  /** Without a slash at its end; undefined: Amazon's endpoint of the region. */
  endpoint: string | undefined;
  region: string;
  accessKeyID: string;
  secretAccessKey: string;
  sessionToken: string | undefined;
};

export type Answer = { status: number; headers: Headers; body: Buffer };

/** The server answered with an error. Unless its status is in `transientStatuses`, it would refuse again. */
export class Refused extends Error {
  readonly status: number;
  readonly code: string;
  constructor(status: number, code: string, message: string) {
    super(`S3 answers ${status} ${code}${message === "" ? "" : `: ${message}`}`);
    this.status = status;
    this.code = code;
  }
}

/** Milliseconds for one request, in addition to the time of its body at a megabyte a second. */
const patienceMs = 20_000;
export const mostTries = 5;
export const transientStatuses = new Set([408, 429, 500, 502, 503, 504]);

/**
 * The bucket's address: at Amazon, the bucket's name precedes the host (unless the name has a dot); elsewhere it is the
 * path.
 */
export const bucketURL = ({ bucket, endpoint, region }: S3Place): string =>
  endpoint === undefined
    ? bucket.includes(".")
      ? `https://s3.${region}.amazonaws.com/${bucket}`
      : `https://${bucket}.s3.${region}.amazonaws.com`
    : `${endpoint}/${bucket}`;

const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
export const emptyBody: Body = { ref: { sha256: emptyHash, bytes: 0 }, content: new Uint8Array() };

type Sent = {
  method: "GET" | "HEAD" | "PUT" | "DELETE";
  name: string;
  body?: Body;
  /** The first byte that is wanted. */
  from?: number;
};
/** Pieces are read from the beginning for each try. */
export type Body = { ref: BlobRef; content: Uint8Array | Pieces };

type Send = (sent: Sent, signal: AbortSignal) => Promise<Response>;

/** Signs a request, and sends it once. */
export const createSend = (place: S3Place): Send => {
  const root = `${bucketURL(place)}/${place.prefix === "" ? "" : `${place.prefix}/`}`;
  return async ({ method, name, body: sentBody, from = 0 }: Sent, signal: AbortSignal): Promise<Response> => {
    const signed = await new AwsV4Signer({
      method,
      url: `${root}${name}`,
      headers: {
        "x-amz-content-sha256": sentBody?.ref.sha256 ?? emptyHash,
        ...(from === 0 ? {} : { range: `bytes=${from}-` }),
      },
      accessKeyId: place.accessKeyID,
      secretAccessKey: place.secretAccessKey,
      ...(place.sessionToken === undefined ? {} : { sessionToken: place.sessionToken }),
      service: "s3",
      region: place.region,
    }).sign();
    const sent = { method, headers: signed.headers, redirect: "manual", signal } as const;
    if (sentBody === undefined) return fetch(signed.url, sent);
    const { content, ref } = sentBody;
    if (content instanceof Uint8Array) return fetch(signed.url, { ...sent, body: content as Uint8Array<ArrayBuffer> });
    signed.headers.set("content-length", String(ref.bytes));
    const given = watched(content);
    // `fetch` keeps all that it sent of a request that it might have to send again. These options rule a second sending
    // out.
    const once = { redirect: "error", window: null, duplex: "half" } as const;
    const body = ReadableStream.from(given.pieces());
    return fetch(signed.url, { ...sent, ...once, body }).catch((error: unknown) => {
      throw given.fault() ?? error;
    });
  };
};

/** The pieces to be sent could not be read, or are not those of the blob. */
class SourceFault extends Error {}

/** Passes the pieces on. `fault`: the error that they threw, which `fetch` wraps in one of its own. */
const watched = (content: Pieces) => {
  let fault: SourceFault | undefined;
  return {
    fault: () => fault,
    async *pieces(): AsyncGenerator<Uint8Array> {
      try {
        yield* content();
      } catch (error) {
        throw (fault = new SourceFault(messageOf(error), { cause: error }));
      }
    },
  };
};

/**
 * Sends a request, signing each try anew. Rejects with `Refused`, with the reason why no try was answered, or at once
 * with a `SourceFault` if the body could not be read.
 */
export const createCall = (send: Send, stopped: AbortSignal) => {
  const once = async (sent: Sent, signal: AbortSignal): Promise<Answer> => {
    const time = AbortSignal.timeout(patienceMs + Math.ceil((sent.body?.ref.bytes ?? 0) / 1000));
    const answer = await send(sent, AbortSignal.any([signal, time]));
    return { status: answer.status, headers: answer.headers, body: Buffer.from(await answer.arrayBuffer()) };
  };
  return async (sent: Sent, signal: AbortSignal = stopped, most = mostTries): Promise<Answer> => {
    for (let tried = 1; ; tried += 1) {
      const answer = await once(sent, signal).catch((error: unknown) => {
        signal.throwIfAborted();
        if (error instanceof SourceFault) throw error;
        if (tried === most) throw new Error(`S3 does not answer (${reasonOf(error)})`, { cause: error });
      });
      if (answer !== undefined) {
        if (answer.status < 300 || answer.status === 404) return answer;
        if (!transientStatuses.has(answer.status) || tried === most) throw refusalOf(answer);
      }
      await pause(waitMs(tried), undefined, { signal });
    }
  };
};

/**
 * The bytes of an object from `from` on, as they arrive; the response is cancelled when the reader stops. Only each
 * wait for more bytes is bounded, so the reader may take as long as it likes.
 */
export async function* receive(send: Send, wanted: Pick<Sent, "name"> & { from: number }, stopped: AbortSignal) {
  const stop = new AbortController();
  const signal = AbortSignal.any([stopped, stop.signal]);
  const within = async <T>(work: () => Promise<T>): Promise<T> => {
    const timer = setTimeout(() => stop.abort(new Error("nothing came for a while")), patienceMs);
    return work().finally(() => clearTimeout(timer));
  };
  try {
    const { status, headers, body } = await within(() => send({ method: "GET", ...wanted }, signal));
    if (status >= 300) {
      const text = await within(() => new Response(body).arrayBuffer());
      throw refusalOf({ status, headers, body: Buffer.from(text) });
    }
    // A server without ranges answers from the first byte.
    let before = status === 206 ? 0 : wanted.from;
    const reader = body?.getReader();
    for (;;) {
      const { value } = (await within(async () => reader?.read())) ?? {};
      if (value === undefined) return;
      const piece = Buffer.from(value.buffer, value.byteOffset, value.byteLength).subarray(before);
      before -= value.byteLength - piece.length;
      if (piece.length > 0) yield piece;
    }
  } finally {
    stop.abort();
  }
}

/**
 * Milliseconds to wait before the next try. Half of them are random, so that requests that failed together do not
 * return together.
 */
export const waitMs = (tried: number): number => 100 * 2 ** tried * (0.5 + Math.random() / 2);

/** `fetch` puts the reason into the cause of its error. */
const reasonOf = (error: unknown): string =>
  messageOf(error instanceof Error && error.cause instanceof Error ? error.cause : error);

export const refusalOf = ({ status, body }: Answer): Refused => {
  const text = body.toString("utf8", 0, 4000);
  const [, code = ""] = /<Code>([^<]{1,100})<\/Code>/.exec(text) ?? [];
  const [, message = ""] = /<Message>([^<]{1,300})<\/Message>/.exec(text) ?? [];
  return new Refused(status, code, message);
};
