import { lookup } from "node:dns/promises";
import { type ClientRequest, request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { connect, isIP, type Socket } from "node:net";
import type { Readable } from "node:stream";
import { connect as tlsConnect } from "node:tls";
import { createBrotliDecompress, createGunzip, createInflate } from "node:zlib";
import { checkURL, hostOf, isPublic, type OutboundOptions, OutboundRefused } from "./address.ts";

/**
 * Requests to addresses that others chose: connected only to addresses that `address.ts` has judged, bounded in time
 * and size.
 */

/** `cut`: the body was longer than `maxBytes`. */
export type FetchedPage = { url: string; status: number; type: string; body: Buffer; cut: boolean };

const maxRedirects = 3;
/** How many interim responses, such as "103 Early Hints", may precede the answer. */
const mostHints = 20;

const addressesOf = async (host: string, options: OutboundOptions): Promise<readonly string[]> => {
  const { resolve = resolveAll, allowed = isPublic } = options;
  const addresses = isIP(host) > 0 ? [host] : await resolve(host);
  if (addresses.length === 0) throw new OutboundRefused(`Expected an address of ${host}, got none`);
  const inside = addresses.find((address) => !allowed(address));
  if (inside !== undefined) throw new OutboundRefused(`Expected a public address of ${host}, got ${inside}`);
  return addresses;
};

const resolveAll = async (host: string): Promise<string[]> =>
  (await lookup(host, { all: true })).map(({ address }) => address);

/** Signals the end of a request: when the caller aborts, or when its time is over. */
const endOf = (signal: AbortSignal, { timeoutMs = 20_000 }: OutboundOptions) => {
  const stop = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  const ended = new Promise<never>((_, reject) => {
    if (stop.aborted) reject(stop.reason);
    stop.addEventListener("abort", () => reject(stop.reason), { once: true });
  });
  ended.catch(() => undefined);
  return { stop, ended };
};

/** What to send; by default a GET without a body. */
type Sent = { method: string; headers: Record<string, string>; body?: string };

const page: Sent = {
  method: "GET",
  headers: {
    accept: "text/html, text/markdown, text/plain, application/json, */*;q=0.1",
    "accept-encoding": "gzip, br",
  },
};

export type PostResult = { status: number; retryAfter: string | undefined; body: Buffer };

/**
 * A POST without cookies or credentials; redirects are not followed. Only the body of a refusal is read, up to
 * `maxBytes`.
 */
export const postOutbound = async (
  text: string,
  headers: Record<string, string>,
  body: string,
  options: OutboundOptions,
  signal: AbortSignal,
): Promise<PostResult> => {
  const { stop, ended } = endOf(signal, options);
  const url = checkURL(text, options);
  const addresses = await Promise.race([addressesOf(hostOf(url), options), ended]);
  const answer = await ask(url, addresses, { method: "POST", headers, body }, options, stop);
  const { statusCode: status = 0, headers: sent } = answer;
  const taken = status >= 200 && status < 300;
  // The status is the answer, even if reading the body fails.
  const read = taken ? undefined : await Promise.race([bodyOf(answer, options), ended]).catch(() => undefined);
  answer.destroy();
  return { status, retryAfter: sent["retry-after"], body: read?.body ?? Buffer.alloc(0) };
};

export type CallResult = { status: number; headers: Record<string, string>; body: Buffer; cut: boolean };

/** A call of an API, with the credentials in its headers. Redirects are not followed. */
export const callOutbound = async (
  text: string,
  sent: Sent,
  options: OutboundOptions,
  signal: AbortSignal,
): Promise<CallResult> => {
  const { stop, ended } = endOf(signal, options);
  const url = checkURL(text, options);
  const addresses = await Promise.race([addressesOf(hostOf(url), options), ended]);
  const answer = await ask(url, addresses, sent, options, stop);
  const { body, cut } = await Promise.race([bodyOf(answer, options), ended]).finally(() => answer.destroy());
  const headers = Object.fromEntries(Object.entries(answer.headers).map(([name, value]) => [name, String(value)]));
  return { status: answer.statusCode ?? 0, headers, body, cut };
};

/** A request whose answer's body the caller reads and bounds. Redirects are not followed. */
export const openOutbound = async (
  text: string,
  sent: Sent,
  options: OutboundOptions,
  signal: AbortSignal,
): Promise<IncomingMessage> => {
  const url = checkURL(text, options);
  return ask(url, await addressesOf(hostOf(url), options), sent, options, signal);
};

/**
 * A GET that passes the body of a 200 answer to `onPart` as it arrives, undecoded and without a limit other than what
 * `onPart` throws. Only `signal` ends it. Resolves to the status. Redirects are not followed.
 */
export const streamOutbound = async (
  text: string,
  headers: Record<string, string>,
  options: OutboundOptions,
  signal: AbortSignal,
  onPart: (part: Buffer) => void,
): Promise<number> => {
  const url = checkURL(text, options);
  const addresses = await addressesOf(hostOf(url), options);
  const answer = await ask(url, addresses, { method: "GET", headers }, options, signal);
  const { statusCode: status = 0 } = answer;
  try {
    if (status === 200) for await (const part of answer as AsyncIterable<Buffer>) onPart(part);
  } finally {
    answer.destroy();
  }
  return status;
};

/** A GET without cookies or credentials. Each redirect is judged like the first address. */
export const fetchOutbound = async (
  text: string,
  options: OutboundOptions,
  signal: AbortSignal,
): Promise<FetchedPage> => {
  const { stop, ended } = endOf(signal, options);
  let next = text;
  for (let hop = 0; hop <= maxRedirects; hop += 1) {
    const url = checkURL(next, options);
    const rule = options.against?.(url);
    if (rule !== undefined)
      throw new OutboundRefused(
        `Expected ${hop === 0 ? "a host" : "to be redirected to a host"} that the rules allow, got ${url.hostname} (rule ${rule})`,
      );
    const addresses = await Promise.race([addressesOf(hostOf(url), options), ended]);
    const answer = await ask(url, addresses, page, options, stop);
    const { statusCode: status = 0, headers } = answer;
    if ([301, 302, 303, 307, 308].includes(status) && headers.location !== undefined) {
      answer.destroy();
      const target = URL.parse(headers.location, url.href);
      if (target === null) throw new OutboundRefused("Expected a URL to be redirected to, got none");
      next = target.href;
      continue;
    }
    const { body, cut } = await Promise.race([bodyOf(answer, options), ended]).finally(() => answer.destroy());
    return { url: url.href, status, type: headers["content-type"] ?? "", body, cut };
  }
  throw new OutboundRefused(`Expected at most ${maxRedirects} redirects, got more`);
};

/** Sends the request to the first address that accepts the connection. */
const ask = async (
  url: URL,
  addresses: readonly string[],
  sent: Sent,
  options: OutboundOptions,
  signal: AbortSignal,
): Promise<IncomingMessage> => {
  let failure: unknown;
  for (const address of addresses.slice(0, 4))
    try {
      return await askAt(url, address, sent, options, signal);
    } catch (error) {
      signal.throwIfAborted();
      failure = error;
    }
  throw failure;
};

const askAt = (
  url: URL,
  address: string,
  { method, headers, body }: Sent,
  options: OutboundOptions,
  signal: AbortSignal,
): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    const { dial = (host, port) => connect({ host, port }), ca } = options;
    const secure = url.protocol === "https:";
    const host = hostOf(url);
    const open = (): Socket => {
      const socket = dial(address, url.port === "" ? (secure ? 443 : 80) : Number(url.port));
      if (!secure) return socket;
      const name = isIP(host) > 0 ? { host } : { host, servername: host };
      return tlsConnect({ socket, ...name, ALPNProtocols: ["http/1.1"], ...(ca === undefined ? {} : { ca }) });
    };
    const start = secure ? httpsRequest : httpRequest;
    const sent: ClientRequest = start(
      url,
      {
        // No `agent`, not even false: an agent would resolve the name again and connect by itself.
        createConnection: open,
        signal,
        method,
        headers: { host: url.host, "user-agent": "sortie", ...headers },
      },
      resolve,
    );
    sent.once("error", reject);
    // The connection closes without an error when the server wants to speak another protocol.
    sent.once("close", () => reject(new Error("the connection was closed without an answer")));
    let hints = 0;
    sent.on("information", () => {
      if ((hints += 1) > mostHints) sent.destroy(new Error(`it sent more than ${mostHints} hints and no answer`));
    });
    sent.end(body);
  });

/** The decoded body up to `maxBytes`, which also bounds what a small compressed answer expands to. */
const bodyOf = (answer: IncomingMessage, { maxBytes = 5 * 1024 * 1024 }: OutboundOptions) =>
  new Promise<{ body: Buffer; cut: boolean }>((resolve, reject) => {
    const stream = unpacked(answer);
    const chunks: Buffer[] = [];
    let size = 0;
    const end = (cut: boolean) => resolve({ body: Buffer.concat(chunks).subarray(0, maxBytes), cut });
    stream.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      if (size <= maxBytes) return;
      stream.destroy();
      end(true);
    });
    stream.once("end", () => end(false));
    stream.once("error", reject);
    answer.once("error", reject);
    answer.once("close", () => {
      if (!answer.complete) reject(new Error("the connection was closed before the end"));
    });
  });

const unpacked = (answer: IncomingMessage): Readable => {
  switch (answer.headers["content-encoding"]?.toLowerCase() ?? "identity") {
    case "identity":
      return answer;
    case "gzip":
    case "x-gzip":
      return answer.pipe(createGunzip());
    case "deflate":
      return answer.pipe(createInflate());
    case "br":
      return answer.pipe(createBrotliDecompress());
    default:
      throw new OutboundRefused("Expected an answer that is plain, gzip, deflate or br, got another encoding");
  }
};
