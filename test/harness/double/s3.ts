import { createHash, createHmac } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { S3Place } from "../../../src/store/blob/s3.ts";

/**
 * A bucket that speaks the protocol of S3 as Amazon publishes it (API reference: PutObject, GetObject, HeadObject,
 * DeleteObject; "Signature Version 4"): signatures, hashes of bodies and consistency are checked, and it fails as it is
 * told.
 */

export const keys = { accessKeyID: "AKIDEXAMPLE", secretAccessKey: "canary-s3-wJalrXUtnFEMI-K7MDENG" };

/** What it does with a request in the place of what is asked for. */
export type Fault = "reset" | "halved" | "silent" | { status: number; code: string };

const sha256 = (data: string | Buffer) => createHash("sha256").update(data).digest("hex");
const hmac = (key: string | Buffer, data: string) => createHmac("sha256", key).update(data).digest();

/** Why it is not signed by the key's owner; undefined: it is. */
const signatureFault = ({ method = "", url = "", headers }: IncomingMessage): string | undefined => {
  const [, keyID, day, region, signed, given] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(
      headers.authorization ?? "",
    ) ?? [];
  if (keyID !== keys.accessKeyID) return "InvalidAccessKeyId";
  const at = String(headers["x-amz-date"]);
  const { pathname, searchParams } = new URL(url, "http://x");
  const query = [...searchParams].map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`);
  const names = (signed ?? "").split(";");
  const listed = names.map((name) => `${name}:${String(headers[name] ?? "").trim()}\n`).join("");
  const canonical = [method, pathname, query.sort().join("&"), listed, signed, headers["x-amz-content-sha256"]].join(
    "\n",
  );
  const scope = `${day}/${region}/s3/aws4_request`;
  const text = ["AWS4-HMAC-SHA256", at, scope, sha256(canonical)].join("\n");
  const key = ["s3", "aws4_request"].reduce(
    (made, part) => hmac(made, part),
    hmac(hmac(`AWS4${keys.secretAccessKey}`, day ?? ""), region ?? ""),
  );
  if (!names.includes("host") || !names.includes("x-amz-content-sha256")) return "AccessDenied";
  return hmac(key, text).toString("hex") === given ? undefined : "SignatureDoesNotMatch";
};

export const startS3 = async (bucket = "team") => {
  const objects = new Map<string, { bytes: Buffer; at: number }>();
  const seen: string[] = [];
  let open = 0;
  let fault: (method: string, name: string) => Fault | undefined | Promise<Fault | undefined> = () => undefined;

  let hold: (method: string) => Promise<void> | undefined = () => undefined;

  const refuse = (response: ServerResponse, status: number, code: string) =>
    response
      .writeHead(status, { "content-type": "application/xml" })
      .end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>Refused by the double.</Message></Error>`);

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<unknown> => {
    await hold(request.method ?? "");
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body = Buffer.concat(parts);
    const { method = "" } = request;
    const path = decodeURIComponent(new URL(request.url ?? "", "http://x").pathname);
    const name = path.slice(bucket.length + 2);
    seen.push(`${method} ${name}`);
    const what = await fault(method, name);
    if (what === "reset") return request.socket.destroy();
    if (what === "silent") return;
    if (typeof what === "object") return refuse(response, what.status, what.code);
    const unsigned = signatureFault(request);
    if (unsigned !== undefined) return refuse(response, 403, unsigned);
    if (!path.startsWith(`/${bucket}/`)) return refuse(response, 404, "NoSuchBucket");
    if (request.headers["x-amz-content-sha256"] !== sha256(body))
      return refuse(response, 400, "XAmzContentSHA256Mismatch");
    if (method === "PUT") {
      objects.set(name, { bytes: body, at: Date.now() });
      return response.writeHead(200).end();
    }
    if (method === "DELETE") {
      objects.delete(name);
      return response.writeHead(204).end();
    }
    const found = objects.get(name);
    if (found === undefined) return refuse(response, 404, "NoSuchKey");
    const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? "")?.[1] ?? 0);
    const bytes = found.bytes.subarray(from);
    response.writeHead(from === 0 ? 200 : 206, {
      "content-length": bytes.length,
      "last-modified": new Date(found.at).toUTCString(),
    });
    if (method === "HEAD") return response.end();
    open += 1;
    response.once("close", () => (open -= 1));
    if (what !== "halved") return response.end(bytes);
    response.write(bytes.subarray(0, bytes.length / 2), () => request.socket.destroy());
  };
  const server = createServer((request, response) => void answer(request, response).catch(() => response.destroy()));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const place: S3Place = {
    bucket,
    prefix: "sortie/blobs",
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    region: "eu-central-1",
    sessionToken: undefined,
    ...keys,
  };
  return {
    place,
    objects,
    /** Method and key of each request so far. */
    seen,
    /** Answers with bytes that are under way. */
    open: () => open,
    fail: (how: typeof fault) => (fault = how),
    /** It reads no body before that. */
    hold: (how: typeof hold) => (hold = how),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
};
