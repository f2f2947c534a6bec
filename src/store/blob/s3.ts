import { setTimeout as pause } from "node:timers/promises";
import { messageOf, StartError } from "../../error.ts";
import { hashOf } from "../../hash.ts";
import type { BlobRef } from "../../protocol/text.ts";
import type { Blobs } from "../store.ts";
import { unavailable, unreadable } from "../unavailable.ts";
import { isHash, touchedMs, youngMs } from "./folder.ts";
import { checked, writeWith } from "./piece.ts";
import {
  type Answer,
  type Body,
  bucketURL,
  createCall,
  createSend,
  emptyBody,
  transientStatuses,
  receive,
  refusalOf,
  Refused,
  type S3Place,
  mostTries,
  waitMs,
} from "./s3-request.ts";

/**
 * Blobs as objects of a bucket, `<prefix>/ab/<sha256>`, signed with AWS Signature Version 4, on S3 or a server that
 * speaks its protocol. The server verifies each body against its hash, so every object found is complete; ages are by
 * the server's clock. Reads and writes are consistent, as S3 has promised since 2020.
 */

export type { S3Place } from "./s3-request.ts";

const refuse = (answer: Answer): never => {
  throw refusalOf(answer);
};

/** Milliseconds since the object was stored; undefined: there is none. NaN: the server does not say. */
const ageOf = ({ status, headers }: Answer): number | undefined => {
  if (status === 404) return undefined;
  const [now, stored] = [headers.get("date"), headers.get("last-modified")].map((at) => Date.parse(at ?? ""));
  return (now ?? Number.NaN) - (stored ?? Number.NaN);
};

/** Milliseconds within which an announced removal is done or given up. */
const removalMs = 30_000;
/** The service that gave an older notice is gone. */
const noticeMs = 2 * removalMs;

export const createS3Blobs = (place: S3Place, signal: AbortSignal): Blobs => {
  const send = createSend(place);
  const call = createCall(send, signal);
  const nameOf = (sha256: string) => `${sha256.slice(0, 2)}/${sha256}`;
  /**
   * The name of the notice that a blob is about to be removed. It is needed because S3 cannot delete an object on the
   * condition that its age has not changed.
   */
  const noticeOf = (sha256: string) => `${nameOf(sha256)}.removal`;
  const ageIn = async (name: string) => ageOf(await call({ method: "HEAD", name }));
  const store = async (body: Body): Promise<void> => {
    const answer = await call({ method: "PUT", name: nameOf(body.ref.sha256), body });
    if (answer.status !== 200) refuse(answer);
  };
  const withdraw = async (sha256: string): Promise<void> =>
    void (await call({ method: "DELETE", name: noticeOf(sha256) }));

  const untilWithdrawn = async (sha256: string): Promise<void> => {
    for (;;) {
      const age = await ageIn(noticeOf(sha256));
      if (age === undefined) return;
      if (age > noticeMs) await withdraw(sha256);
      else await pause(200, undefined, { signal });
    }
  };

  /**
   * A removal gives its notice first, then looks at the blob's age. If the notice comes after the blob was stored or
   * found young here, the removal finds it young, and keeps it. Otherwise the notice is seen here, or the removal is
   * over and the missing blob is stored again.
   */
  const write = async (body: Body): Promise<void> => {
    const { sha256 } = body.ref;
    const age = (await ageIn(nameOf(sha256))) ?? Number.POSITIVE_INFINITY;
    // A notice given before the blob was stored has expired by now; one given later finds the blob young.
    if (age > noticeMs && age < touchedMs) return;
    const isNew = age === Number.POSITIVE_INFINITY && (await ageIn(noticeOf(sha256))) === undefined;
    if (!(age < touchedMs)) await store(body);
    if (isNew) return;
    for (;;) {
      await untilWithdrawn(sha256);
      if ((await ageIn(nameOf(sha256))) !== undefined) return;
      await store(body);
    }
  };

  /**
   * Tries only once: if the answer is lost, the blob may be stored again before a second try. false: the removal may
   * still happen, so the notice has to stand.
   */
  const remove = async (sha256: string, until: AbortSignal): Promise<boolean> => {
    try {
      await call({ method: "DELETE", name: nameOf(sha256) }, until, 1);
      return true;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof Refused && !transientStatuses.has(error.status)) throw error;
      return false;
    }
  };

  const put = async (bytes: Uint8Array): Promise<BlobRef> => {
    const ref = { sha256: await hashOf(bytes), bytes: bytes.byteLength };
    try {
      await write({ ref, content: bytes });
    } catch (error) {
      throw unavailable(error);
    }
    return ref;
  };
  const writePieces = writeWith(put, (ref, pieces) => write({ ref, content: pieces }));

  async function* piecesIn(ref: BlobRef): AsyncGenerator<Buffer> {
    try {
      yield* checked(received(ref), ref);
    } catch (error) {
      throw unreadable(error);
    }
  }

  /** When an answer breaks off, requests the rest, as often as it takes while bytes keep coming. */
  async function* received({ sha256, bytes }: BlobRef): AsyncGenerator<Buffer> {
    for (let at = 0, tried = 0; at < bytes; ) {
      try {
        for await (const piece of receive(send, { name: nameOf(sha256), from: at }, signal)) {
          at += piece.length;
          tried = 0;
          yield piece;
        }
        if (at < bytes) throw new Error(`S3 answers with ${at} of ${bytes} bytes`);
      } catch (error) {
        signal.throwIfAborted();
        const lasts = error instanceof Refused && !transientStatuses.has(error.status);
        if (lasts || (tried += 1) === mostTries) throw error;
        await pause(waitMs(tried), undefined, { signal });
      }
    }
  }

  return {
    put,
    write: (pieces) =>
      writePieces(pieces).catch((error: unknown) => {
        throw unavailable(error);
      }),

    async get(sha256) {
      if (!isHash(sha256)) return undefined;
      try {
        const { status, body } = await call({ method: "GET", name: nameOf(sha256) });
        if (status === 404) return undefined;
        if ((await hashOf(body)) !== sha256) throw new Error(`S3 answers ${sha256} with other bytes`);
        return body;
      } catch (error) {
        throw unreadable(error);
      }
    },

    async read(sha256) {
      if (!isHash(sha256)) return undefined;
      try {
        const { status, headers } = await call({ method: "HEAD", name: nameOf(sha256) });
        const bytes = Number(headers.get("content-length"));
        return status === 404 ? undefined : { bytes, pieces: piecesIn({ sha256, bytes }) };
      } catch (error) {
        throw unreadable(error);
      }
    },

    async drop(sha256) {
      try {
        const before = await ageIn(nameOf(sha256));
        if (before !== undefined && !(before >= youngMs)) return "young";
        // Another service is removing it: the first one to end would withdraw the other's notice.
        const other = await ageIn(noticeOf(sha256));
        if (other !== undefined && !(other > noticeMs)) return "young";
        if (before === undefined) {
          if (other !== undefined) await withdraw(sha256);
          return "absent";
        }
        const until = AbortSignal.any([signal, AbortSignal.timeout(removalMs)]);
        const notice = await call({ method: "PUT", name: noticeOf(sha256), body: emptyBody }, until);
        if (notice.status !== 200) refuse(notice);
        const age = await ageIn(nameOf(sha256));
        const goes = age !== undefined && age >= youngMs;
        if (goes && !(await remove(sha256, until))) return "young";
        await withdraw(sha256);
        return goes ? "dropped" : "young";
      } catch (error) {
        throw unavailable(error);
      }
    },
  };
};

/**
 * Throws `StartError` if objects in the bucket cannot be written, read and deleted. `name`: distinguishes the test
 * object of this service from those of others.
 */
export const expectBucket = async (place: S3Place, name: string, signal: AbortSignal): Promise<void> => {
  const call = createCall(createSend(place), signal);
  const where = `${place.bucket} at ${new URL(bucketURL(place)).origin}`;
  try {
    const at = { name: `start/${name}` };
    // Without the right to list, S3 answers "forbidden" for an object that does not exist.
    for (const method of ["PUT", "GET", "DELETE", "GET"] as const) {
      const answer = await call({ ...at, method, ...(method === "PUT" ? { body: emptyBody } : {}) });
      if (answer.status === 404 && method === "PUT") throw refusalOf(answer);
    }
  } catch (error) {
    const remedy =
      error instanceof Refused
        ? (remedies[error.code] ?? "Check the bucket and its rights")
        : "Check AWS_ENDPOINT_URL_S3";
    throw new StartError(69, `The bucket ${where} could not be used: ${messageOf(error)}. ${remedy}.`);
  }
};

const remedies: Record<string, string> = {
  NoSuchBucket: "Create it, or set SERVICE_BLOBS to another",
  AccessDenied: "Grant s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket on it",
  InvalidAccessKeyId: "Check AWS_ACCESS_KEY_ID",
  SignatureDoesNotMatch: "Check AWS_SECRET_ACCESS_KEY",
  RequestTimeTooSkewed: "Set this machine's clock",
  ExpiredToken: "Set a new AWS_SESSION_TOKEN",
  AuthorizationHeaderMalformed: "Check AWS_REGION",
};
