import { messageOf } from "../../error.ts";
import { isPublic } from "../../outbound/address.ts";
import { type CallResult, callOutbound } from "../../outbound/request.ts";
import { ForgeRefused, RepositoryAway } from "../repository.ts";
import { plainText } from "../words.ts";

/**
 * The only way to a forge: requests below the operator's address, bounded in time and size, without redirects. Every
 * answer other than a success becomes an error here, so that all clients distinguish in the same way a forge that is
 * away from one that refuses.
 */

export type Call = (request: CallRequest, signal: AbortSignal) => Promise<CallResult>;

export type CallRequest = {
  method: "GET" | "POST" | "PATCH" | "PUT";
  url: string;
  headers: Record<string, string>;
  body?: string | undefined;
};

const timeoutMs = 30_000;
const maxBytes = 4 * 1024 * 1024;

export type CallOptions = {
  /** The operator named the host, so it may have internal addresses. */
  vouched: boolean;
  resolve: ((host: string) => Promise<readonly string[]>) | undefined;
};

export const createCall = (api: string, { vouched, resolve }: CallOptions): Call => {
  const root = new URL(`${api}/`);
  const options = {
    vouched: () => vouched,
    allowed: (address: string) => vouched || isPublic(address),
    ...(resolve === undefined ? {} : { resolve }),
  };
  return async ({ method, url, headers, body }, signal) => {
    const target = URL.parse(url);
    if (target === null || target.origin !== root.origin || !target.pathname.startsWith(root.pathname))
      throw new Error(`Expected a request below ${root.href}, got ${url}.`);
    const sent = { method, headers, ...(body === undefined ? {} : { body }) };
    const answer = await callOutbound(target.href, sent, { ...options, timeoutMs, maxBytes }, signal).catch(
      (error: unknown) => {
        signal.throwIfAborted();
        throw new RepositoryAway(`its forge at ${root.host} could not be reached (${messageOf(error)})`, {
          cause: error,
        });
      },
    );
    expectTaken(answer, root.host);
    return answer;
  };
};

const expectTaken = (answer: CallResult, host: string): void => {
  const { status, headers, cut } = answer;
  if (cut) throw new ForgeRefused(status, `the answer of ${host} is longer than ${maxBytes} bytes`);
  if (status >= 200 && status < 300) return;
  const words = wordsOf(answer);
  const limited = status === 429 || (status === 403 && isLimit(headers, words));
  if (limited || status === 408 || status >= 500)
    throw new RepositoryAway(
      limited ? `its forge at ${host} is limiting requests` : `its forge at ${host} answers with status ${status}`,
      { retryAfterMs: retryAfterOf(headers) },
    );
  if (status === 401)
    throw new ForgeRefused(status, `${host} refused the token in repositories.credentials (${words})`);
  if (status >= 300 && status < 400)
    throw new ForgeRefused(status, `${host} answers with a redirect, which is not followed: use the final address`);
  throw new ForgeRefused(status, `${host} answers with status ${status}: ${words}`);
};

/** Whether GitHub reports too many requests: by a 403 with the remaining number, or in words. */
const isLimit = (headers: Record<string, string>, words: string): boolean =>
  headers["retry-after"] !== undefined || headers["x-ratelimit-remaining"] === "0" || /rate limit/i.test(words);

const retryAfterOf = (headers: Record<string, string>): number | undefined => {
  const after = headers["retry-after"];
  const ms = (text: string, from: number): number => Math.max(0, Number(text) * 1000 - from);
  if (after !== undefined && /^\d+$/.test(after)) return ms(after, 0);
  if (after !== undefined && !Number.isNaN(Date.parse(after))) return Math.max(0, Date.parse(after) - Date.now());
  const reset = headers["x-ratelimit-reset"] ?? headers["ratelimit-reset"];
  return reset !== undefined && /^\d+$/.test(reset) && headers["x-ratelimit-remaining"] === "0"
    ? ms(reset, Date.now())
    : undefined;
};

/** The forge's message, from the fields that GitHub, GitLab and Gitea use for it. */
const wordsOf = ({ body }: CallResult): string => {
  const text = body.toString("utf8");
  let said: unknown;
  try {
    said = JSON.parse(text);
  } catch {
    return plain(text.replaceAll(/<[^<>]{0,500}>/g, " "));
  }
  return plain(textsIn(said, 0).join("; "));
};

/** Texts of an answer, without the addresses of manuals. */
const textsIn = (value: unknown, depth: number): string[] => {
  if (typeof value === "string") return /^https?:\/\//.test(value) ? [] : [value];
  if (typeof value !== "object" || value === null || depth > 4) return [];
  if (Array.isArray(value)) return value.slice(0, 10).flatMap((each) => textsIn(each, depth + 1));
  const { message, error, errors, error_description: more } = value as Record<string, unknown>;
  const named = [message, error, more, errors].flatMap((each) => textsIn(each, depth + 1));
  return named.length > 0
    ? named
    : Object.values(value)
        .slice(0, 10)
        .flatMap((each) => textsIn(each, depth + 1));
};

const plain = (text: string): string => plainText(text, 600) || "no words";

/** The JSON of an answer; throws `ForgeRefused` if it is none. */
export const jsonOf = ({ status, body }: CallResult, host: string): unknown => {
  try {
    return JSON.parse(body.toString("utf8"));
  } catch {
    throw new ForgeRefused(status, `${host} sent an answer that is not JSON`);
  }
};

/** Whether a forge refused because the branch already has an open pull request. */
export const isExisting = (error: unknown): boolean =>
  error instanceof ForgeRefused &&
  (error.status === 409 || error.status === 422) &&
  /already exists/i.test(error.message);

export const isMissing = (error: unknown): boolean => error instanceof ForgeRefused && error.status === 404;
