import { CassetteMiss } from "../replay/cassette.ts";
import { noUsage, type ModelFailure } from "../model.ts";
import { OriginError, RedirectError, SilentError } from "./fetch.ts";
import type { Connection } from "../provider-kind.ts";

/**
 * Explains a failed call in words for the operator. Provider packages throw or stream errors of many shapes, which are
 * read by structure. Codes: `provider_refused` (only another key, model or request helps), `context_too_long`,
 * `provider_limited` and `provider_unavailable` (the last two are retryable).
 */

type Seen = {
  /** HTTP status, or the one that an error within a stream stands for. */
  status: number | undefined;
  message: string;
  /** Codes and types that the provider named. */
  words: string;
  headers: Record<string, string>;
  error: unknown;
};

type Failing = { connection: Connection; modelID: string; now(): number };

export const failureOf = (error: unknown, failing: Failing): ModelFailure => {
  const { connection, modelID } = failing;
  const { id, keySource } = connection;
  const { origin } = new URL(connection.baseURL);
  const seen = look(error);
  const said = scrub(seen.message, connection);
  const quoted = said === "" ? "." : `: ${/[.!?]$/.test(said) ? said : `${said}.`}`;
  const status = seen.status === undefined ? "" : ` (${seen.status})`;

  const local = localFault(seen.error, origin);
  if (local !== undefined)
    return local.retryable ? unavailable(`${id}: ${local.message}`) : refused(local.message, local.remedy ?? null);

  if (tooLong.test(`${seen.words} ${seen.message}`) && (seen.status ?? 400) < 429)
    return fail(
      "context_too_long",
      `The conversation is longer than ${id}/${modelID} can read${status}${quoted}`,
      false,
      "Choose a model with a larger context, or split the Task.",
    );
  const code = seen.status ?? 0;
  switch (code) {
    case 401:
    case 403: {
      const key = keySource === null ? "the request, which had no key" : `the key from ${keySource}`;
      const reason = code === 403 ? quoted : ".";
      return refused(
        `${id} refused ${key}${status}${reason}`,
        keySource === null
          ? `Set providers.${id}.apiKey in config.jsonc.`
          : `Check ${keySource}, then restart the service.`,
      );
    }
    case 402:
      return quota(`${id} requires payment${status}${quoted}`, id);
    case 404:
      return refused(
        `${id} does not know the model ${modelID}${status}${quoted}`,
        "Choose another model; GET /models lists the providers.",
      );
    case 429: {
      if (/insufficient_quota|credit balance|billing_hard_limit/i.test(seen.words))
        return quota(`${id}: the account's quota is used up${status}${quoted}`, id);
      return {
        ...fail("provider_limited", `${id} limits the rate of requests${status}${quoted}`, true, null),
        elsewhere: true,
        ...retryAfter(seen, failing.now()),
      };
    }
  }
  if (code >= 400) {
    const passing = code >= 500 || code === 408 || code === 409 || code === 425;
    if (passing) return { ...unavailable(`${id} is in trouble${status}${quoted}`), ...retryAfter(seen, failing.now()) };
    return refused(`${id} did not accept the request for ${modelID}${status}${quoted}`, null);
  }
  return networkFault(seen, id, origin) ?? unavailable(`${id} gave an answer that cannot be read${quoted}`);
};

/** The connection broke, or the provider stopped in the middle, without an error of its own. */
export const cutShort = (id: string): ModelFailure => unavailable(`${id} broke off in the middle of its reply.`);

export const refused = (message: string, remedy: string | null): ModelFailure =>
  fail("provider_refused", message, false, remedy);

const quota = (message: string, id: string): ModelFailure => ({
  ...refused(message, `Add credit at ${id}, or choose another model.`),
  elsewhere: true,
});

const unavailable = (message: string): ModelFailure => ({
  ...fail("provider_unavailable", message, true, null),
  elsewhere: true,
});

const fail = (code: string, message: string, retryable: boolean, remedy: string | null): ModelFailure => ({
  ok: false,
  failure: { code, message, retryable, remedy },
  usage: noUsage,
});

const tooLong =
  /context_length_exceeded|context (length|window)|maximum context|prompt is too long|input is too long|too many input tokens|input token count|exceeds? the (maximum|max) (number of )?(input )?tokens/i;

/** Errors that our own `fetch` caused. */
const localFault = (
  error: unknown,
  origin: string,
): { message: string; retryable: boolean; remedy?: string } | undefined => {
  for (const cause of causes(error)) {
    if (cause instanceof CassetteMiss)
      return {
        message: cause.message,
        retryable: false,
        remedy: "Record the cassette again (SERVICE_RECORD), or use a model.",
      };
    if (cause instanceof SilentError)
      return {
        message: `${origin} stopped responding (${cause.message}); the connection was closed.`,
        retryable: true,
      };
    if (cause instanceof OriginError)
      return {
        message: `Expected every request to stay at ${origin}, where the key belongs; ${cause.message}.`,
        retryable: false,
      };
    if (cause instanceof RedirectError)
      return {
        message: `${origin} answered with a redirect, which is not followed: the key goes to its configured origin only.`,
        retryable: false,
        remedy: "Set the provider's baseURL to where the redirect leads.",
      };
  }
  return undefined;
};

const absent = /ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT/;
const broken = /ECONNRESET|EPIPE|without a finish reason|premature/i;

const networkFault = ({ error }: Seen, id: string, origin: string): ModelFailure | undefined => {
  const words = [...causes(error)]
    .flatMap((cause) => [word(field(cause, "code")), word(field(cause, "message"))])
    .join(" ");
  const code = absent.exec(words)?.[0];
  if (code !== undefined) return unavailable(`${id}: nothing answers at ${origin} (${code}).`);
  return broken.test(words) ? cutShort(id) : undefined;
};

/** Statuses for errors inside a stream that began with 200. */
const statusOf: Record<string, number> = {
  invalid_request_error: 400,
  authentication_error: 401,
  permission_error: 403,
  not_found_error: 404,
  rate_limit_error: 429,
  rate_limit_exceeded: 429,
  insufficient_quota: 429,
  api_error: 500,
  server_error: 500,
  timeout_error: 504,
  overloaded_error: 529,
};

const look = (error: unknown): Seen => {
  const data = inner(field(error, "data"));
  const body = field(error, "responseBody");
  const message = [field(data, "message"), field(error, "message"), typeof error === "string" ? error : undefined].find(
    (text): text is string => typeof text === "string" && text !== "",
  );
  const words = [error, data].flatMap((value) => [word(field(value, "type")), word(field(value, "code"))]);
  const number = [word(field(error, "statusCode")), ...words].map(Number).find((code) => code >= 400 && code < 600);
  const named = words.map((name) => statusOf[name]).find((status) => status !== undefined);
  const known = typeof message === "string" ? message : typeof body === "string" ? body : "";
  return {
    status: number ?? named,
    message: known,
    words: `${words.join(" ")} ${typeof body === "string" ? body.slice(0, 2_000) : ""}`,
    headers: (field(error, "responseHeaders") ?? {}) as Record<string, string>,
    error,
  };
};

/** Unwraps the usual `{ error: { message, type, code } }`. */
const inner = (data: unknown): unknown => field(data, "error") ?? data;

const field = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;

const word = (value: unknown): string => (typeof value === "string" || typeof value === "number" ? String(value) : "");

function* causes(error: unknown): Generator<unknown> {
  let cause = error;
  for (let depth = 0; cause != null && depth < 8; depth += 1) {
    yield cause;
    const several = field(cause, "errors");
    if (Array.isArray(several)) yield* several;
    cause = field(cause, "cause");
  }
}

/** The provider's words on one line, truncated, without our secrets. */
const scrub = (text: string, connection: Connection): string => {
  const secrets = [connection.apiKey, ...Object.values(connection.headers)].filter(
    (value) => (value?.length ?? 0) >= 6,
  );
  let clean = text;
  for (const secret of secrets) clean = clean.replaceAll(secret as string, "[redacted:key]");
  clean = clean.replace(/\s+/g, " ").trim();
  return clean.length > 500 ? `${clean.slice(0, 499)}…` : clean;
};

/** When to retry according to the provider: `Retry-After`, its rate limit headers, or Google's RetryInfo. */
const retryAfter = ({ headers, error }: Seen, now: number): { retryAfterMs?: number } => {
  const exact = Number(headers["retry-after-ms"] ?? Number.NaN);
  if (exact >= 0) return { retryAfterMs: exact };
  const text = headers["retry-after"]?.trim() ?? "";
  const wait = text === "" ? (resetIn(headers, now) ?? retryInfo(error)) : waitOf(text, now);
  return wait === undefined ? {} : { retryAfterMs: Math.max(0, wait) };
};

/** Parses seconds, a span such as `6m0s`, or a date; returns milliseconds from now. */
const waitOf = (text: string, now: number): number | undefined => {
  const seconds = Number(text);
  if (!Number.isNaN(seconds)) return seconds * 1000;
  const span =
    /^(?:(\d{1,4})d)?(?:(\d{1,5})h)?(?:(\d{1,6})m)?(?:(\d{1,8}(?:\.\d{1,9})?)s)?(?:(\d{1,9}(?:\.\d{1,9})?)ms)?$/.exec(
      text,
    );
  if (span !== null) {
    const [days = 0, hours = 0, minutes = 0, secs = 0, millis = 0] = span.slice(1).map((part) => Number(part ?? 0));
    return (((days * 24 + hours) * 60 + minutes) * 60 + secs) * 1000 + millis;
  }
  const date = Date.parse(text);
  return Number.isNaN(date) ? undefined : date - now;
};

/**
 * The latest reset among the exhausted limits: `anthropic-ratelimit-<what>-remaining` and `-reset` (dates),
 * `x-ratelimit-remaining-<what>` and `x-ratelimit-reset-<what>` (spans), `x-ratelimit-reset` (milliseconds since 1970).
 */
const resetIn = (headers: Record<string, string>, now: number): number | undefined => {
  const waits = Object.entries(headers).flatMap(([name, left]) => {
    if (!name.includes("ratelimit") || !name.includes("remaining") || Number(left) !== 0 || left.trim() === "")
      return [];
    const reset = headers[name.replace("remaining", "reset")]?.trim() ?? "";
    if (reset === "") return [];
    const clock = Number(reset);
    const wait = clock > 1e12 ? clock - now : clock > 1e9 ? clock * 1000 - now : waitOf(reset, now);
    return wait === undefined ? [] : [wait];
  });
  return waits.length === 0 ? undefined : Math.max(...waits);
};

const retryInfo = (error: unknown): number | undefined => {
  const delay = /"retryDelay"\s{0,9}:\s{0,9}"(\d{1,9}(?:\.\d{1,9})?s)"/.exec(
    word(field(error, "responseBody")).slice(0, 20_000),
  );
  return delay?.[1] === undefined ? undefined : waitOf(delay[1], 0);
};
