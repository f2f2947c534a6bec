import { AwsV4Signer } from "aws4fetch";
import { setTimeout as pause } from "node:timers/promises";
import { messageOf, StartError } from "../../error.ts";
import { hashOf } from "../../hash.ts";
import type { Blobs } from "../store.ts";
import { unavailable, unreadable } from "../unavailable.ts";
import { touchedMs, youngMs } from "./folder.ts";

/**
 * Blobs as objects of a bucket, `<prefix>/ab/<sha256>`, signed with AWS Signature Version 4: of S3 itself and of what
 * speaks its protocol. The server holds each body against its hash, so an object that is found is complete; ages are by
 * the server's clock. Reads and writes are consistent, as S3 promises since 2020.
 */

export type S3Place = {
  bucket: string;
  /** Without slashes at its ends; "": none. */
  prefix: string;
  /** Without a slash at its end; undefined: Amazon's own, of the region. */
  endpoint: string | undefined;
  region: string;
  accessKeyID: string;
  secretAccessKey: string;
  sessionToken: string | undefined;
};

type Answer = { status: number; headers: Headers; body: Buffer };

/** The server refuses, and would refuse again. */
class Refused extends Error {
  readonly status: number;
  readonly code: string;
  constructor(status: number, code: string, message: string) {
    super(`S3 answers ${status} ${code}${message === "" ? "" : `: ${message}`}`);
    this.status = status;
    this.code = code;
  }
}

/** Milliseconds of one request; of its body besides, at a megabyte a second. */
const patienceMs = 20_000;
const tries = 5;
const passing = new Set([408, 429, 500, 502, 503, 504]);

/** The address of the bucket: a name before Amazon's host, a path at any other's. */
const bucketURL = ({ bucket, endpoint, region }: S3Place): string =>
  endpoint === undefined
    ? bucket.includes(".")
      ? `https://s3.${region}.amazonaws.com/${bucket}`
      : `https://${bucket}.s3.${region}.amazonaws.com`
    : `${endpoint}/${bucket}`;

const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

type Sent = { method: "GET" | "HEAD" | "PUT" | "DELETE"; name: string; body?: Uint8Array; sha256?: string };

/** Sends and signs each try anew. Rejects with `Refused`, or with why no try was answered. */
const createCall = (place: S3Place, stopped: AbortSignal) => {
  const root = `${bucketURL(place)}/${place.prefix === "" ? "" : `${place.prefix}/`}`;
  const once = async ({ method, name, body, sha256 = emptyHash }: Sent, signal: AbortSignal): Promise<Answer> => {
    const signed = await new AwsV4Signer({
      method,
      url: `${root}${name}`,
      headers: { "x-amz-content-sha256": sha256 },
      accessKeyId: place.accessKeyID,
      secretAccessKey: place.secretAccessKey,
      ...(place.sessionToken === undefined ? {} : { sessionToken: place.sessionToken }),
      service: "s3",
      region: place.region,
    }).sign();
    const time = AbortSignal.timeout(patienceMs + Math.ceil((body?.byteLength ?? 0) / 1000));
    const answer = await fetch(signed.url, {
      method,
      headers: signed.headers,
      ...(body === undefined ? {} : { body: body as Uint8Array<ArrayBuffer> }),
      redirect: "manual",
      signal: AbortSignal.any([signal, time]),
    });
    return { status: answer.status, headers: answer.headers, body: Buffer.from(await answer.arrayBuffer()) };
  };
  return async (sent: Sent, signal: AbortSignal = stopped, most = tries): Promise<Answer> => {
    for (let tried = 1; ; tried += 1) {
      const answer = await once(sent, signal).catch((error: unknown) => {
        signal.throwIfAborted();
        if (tried === most) throw new Error(`S3 does not answer (${reasonOf(error)})`, { cause: error });
      });
      if (answer !== undefined) {
        if (answer.status < 300 || answer.status === 404) return answer;
        if (!passing.has(answer.status) || tried === most) throw refusalOf(answer);
      }
      await pause(waitMs(tried), undefined, { signal });
    }
  };
};

/** Half of it by chance, so that those who failed together do not come back together. */
const waitMs = (tried: number): number => 100 * 2 ** tried * (0.5 + Math.random() / 2);

/** What `fetch` says is in its cause. */
const reasonOf = (error: unknown): string =>
  messageOf(error instanceof Error && error.cause instanceof Error ? error.cause : error);

const refusalOf = ({ status, body }: Answer): Refused => {
  const text = body.toString("utf8", 0, 4000);
  const [, code = ""] = /<Code>([^<]{1,100})<\/Code>/.exec(text) ?? [];
  const [, message = ""] = /<Message>([^<]{1,300})<\/Message>/.exec(text) ?? [];
  return new Refused(status, code, message);
};

const refuse = (answer: Answer): never => {
  throw refusalOf(answer);
};

/** Milliseconds since it was stored; undefined: it is not there. */
const ageOf = ({ status, headers }: Answer): number | undefined => {
  if (status === 404) return undefined;
  const [now, stored] = [headers.get("date"), headers.get("last-modified")].map((at) => Date.parse(at ?? ""));
  return (now ?? Number.NaN) - (stored ?? Number.NaN);
};

/** Milliseconds within which a removal that was announced is done or given up. */
const removalMs = 30_000;
/** Whoever gave an older notice is gone. */
const noticeMs = 2 * removalMs;

export const createS3Blobs = (place: S3Place, signal: AbortSignal): Blobs => {
  const call = createCall(place, signal);
  const nameOf = (sha256: string) => `${sha256.slice(0, 2)}/${sha256}`;
  /** Says that it is about to be removed: S3 has no removal of what is still as old as it was. */
  const noticeOf = (sha256: string) => `${nameOf(sha256)}.removal`;
  const ageIn = async (name: string) => ageOf(await call({ method: "HEAD", name }));
  const store = async (sha256: string, body: Uint8Array): Promise<void> => {
    const answer = await call({ method: "PUT", name: nameOf(sha256), body, sha256 });
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
   * Whoever removes a blob says so first and looks at its age then. So one that is young stays when the notice comes
   * later; else the notice is seen here, or the removal is over, and what is missing is stored again.
   */
  const write = async (sha256: string, bytes: Uint8Array): Promise<void> => {
    const age = (await ageIn(nameOf(sha256))) ?? Number.POSITIVE_INFINITY;
    // No notice is as old as this one.
    if (age > noticeMs && age < touchedMs) return;
    const isNew = age === Number.POSITIVE_INFINITY && (await ageIn(noticeOf(sha256))) === undefined;
    if (!(age < touchedMs)) await store(sha256, bytes);
    if (isNew) return;
    for (;;) {
      await untilWithdrawn(sha256);
      if ((await ageIn(nameOf(sha256))) !== undefined) return;
      await store(sha256, bytes);
    }
  };

  /**
   * Tried once: where the answer is lost, the blob may be stored again before the next try. False: the removal may be
   * done yet, so the notice has to stand.
   */
  const remove = async (sha256: string, until: AbortSignal): Promise<boolean> => {
    try {
      await call({ method: "DELETE", name: nameOf(sha256) }, until, 1);
      return true;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof Refused && !passing.has(error.status)) throw error;
      return false;
    }
  };

  return {
    async put(bytes) {
      const sha256 = await hashOf(bytes);
      try {
        await write(sha256, bytes);
      } catch (error) {
        throw unavailable(error);
      }
      return { sha256, bytes: bytes.byteLength };
    },

    async get(sha256) {
      if (!/^[0-9a-f]{64}$/.test(sha256)) return undefined;
      try {
        const { status, body } = await call({ method: "GET", name: nameOf(sha256) });
        if (status === 404) return undefined;
        if ((await hashOf(body)) !== sha256) throw new Error(`S3 answers ${sha256} with other bytes`);
        return body;
      } catch (error) {
        throw unreadable(error);
      }
    },

    async drop(sha256) {
      try {
        const before = await ageIn(nameOf(sha256));
        if (before !== undefined && !(before >= youngMs)) return "young";
        // Another one is at it: whoever ends first would withdraw the other's notice.
        const other = await ageIn(noticeOf(sha256));
        if (other !== undefined && !(other > noticeMs)) return "young";
        if (before === undefined) {
          if (other !== undefined) await withdraw(sha256);
          return "absent";
        }
        const until = AbortSignal.any([signal, AbortSignal.timeout(removalMs)]);
        const notice = await call({ method: "PUT", name: noticeOf(sha256), body: new Uint8Array() }, until);
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

/** Throws `StartError` where the bucket cannot be written, read and cleaned. `name`: of this service, among others. */
export const expectBucket = async (place: S3Place, name: string, signal: AbortSignal): Promise<void> => {
  const call = createCall(place, signal);
  const where = `${place.bucket} at ${new URL(bucketURL(place)).origin}`;
  try {
    const at = { name: `start/${name}` };
    // Without the right to list, what is not there is forbidden.
    for (const method of ["PUT", "GET", "DELETE", "GET"] as const) {
      const answer = await call({ ...at, method, ...(method === "PUT" ? { body: new Uint8Array() } : {}) });
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
