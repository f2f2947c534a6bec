import { noUsage, type ModelFailure } from "./model.ts";
import { OriginError, SilentError } from "./fetch.ts";
import type { Connection } from "./kinds.ts";

/**
 * What went wrong with a call, in words for whoever runs the service. The provider packages throw or stream errors of
 * many shapes; they are read by structure. Codes: `provider_refused` (nothing but another key, model or request helps),
 * `context_too_long`, `provider_limited` and `provider_unavailable` (both retryable).
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
      const key = keySource === null ? "the request, which carried no key" : `the key from ${keySource}`;
      const reason = code === 403 ? quoted : ".";
      return refused(
        `${id} refused ${key}${status}${reason}`,
        keySource === null
          ? `Set providers.${id}.apiKey in config.jsonc.`
          : `Check ${keySource}, then restart the service.`,
      );
    }
    case 402:
      return refused(`${id} wants to be paid first${status}${quoted}`, `Add credit at ${id}, or choose another model.`);
    case 404:
      return refused(
        `${id} does not know the model ${modelID}${status}${quoted}`,
        "Choose another model; GET /models lists the providers.",
      );
    case 429: {
      if (/insufficient_quota|credit balance|billing_hard_limit/i.test(seen.words))
        return refused(
          `${id}: the account's quota is used up${status}${quoted}`,
          `Add credit at ${id}, or choose another model.`,
        );
      return {
        ...fail("provider_limited", `${id} asks to slow down${status}${quoted}`, true, null),
        ...retryAfter(seen.headers, failing.now()),
      };
    }
  }
  if (code >= 400) {
    const passing = code >= 500 || code === 408 || code === 409 || code === 425;
    if (passing)
      return { ...unavailable(`${id} is in trouble${status}${quoted}`), ...retryAfter(seen.headers, failing.now()) };
    return refused(`${id} did not accept the request for ${modelID}${status}${quoted}`, null);
  }
  return networkFault(seen, id, origin) ?? unavailable(`${id} gave an answer that cannot be read${quoted}`);
};

/** The line broke off, or the provider stopped in the middle, without an error of its own. */
export const cutShort = (id: string): ModelFailure => unavailable(`${id} broke off in the middle of its reply.`);

export const refused = (message: string, remedy: string | null): ModelFailure =>
  fail("provider_refused", message, false, remedy);

const unavailable = (message: string): ModelFailure => fail("provider_unavailable", message, true, null);

const fail = (code: string, message: string, retryable: boolean, remedy: string | null): ModelFailure => ({
  ok: false,
  failure: { code, message, retryable, remedy },
  usage: noUsage,
});

const tooLong =
  /context_length_exceeded|context (length|window)|maximum context|prompt is too long|input is too long|too many input tokens|input token count|exceeds? the (maximum|max) (number of )?(input )?tokens/i;

/** Faults that our own `fetch` made or refused. */
const localFault = (
  error: unknown,
  origin: string,
): { message: string; retryable: boolean; remedy?: string } | undefined => {
  for (const cause of causes(error)) {
    if (cause instanceof SilentError)
      return { message: `${origin} fell silent (${cause.message}); the line was cut.`, retryable: true };
    if (cause instanceof OriginError)
      return {
        message: `Expected every request to stay at ${origin}, where the key belongs; ${cause.message}.`,
        retryable: false,
      };
    if (field(cause, "message") === "unexpected redirect")
      return {
        message: `${origin} answered with a redirect, which is not followed: the key goes to its configured origin only.`,
        retryable: false,
        remedy: "Set the provider's baseURL to where the redirect leads.",
      };
  }
  return undefined;
};

const absent = /ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT|bad port/;
const broken = /ECONNRESET|EPIPE|UND_ERR_|terminated|other side closed|without a finish reason|premature/i;

const networkFault = ({ error }: Seen, id: string, origin: string): ModelFailure | undefined => {
  const words = [...causes(error)]
    .flatMap((cause) => [word(field(cause, "code")), word(field(cause, "message"))])
    .join(" ");
  const code = absent.exec(words)?.[0];
  if (code !== undefined) return unavailable(`${id}: nothing answers at ${origin} (${code}).`);
  return broken.test(words) ? cutShort(id) : undefined;
};

/** Statuses of errors that arrive within a stream that began with 200. */
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

/** Providers wrap their error once: `{ error: { message, type, code } }`. */
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

/** The provider's words, on one line, bounded, without our secrets. */
const scrub = (text: string, connection: Connection): string => {
  const secrets = [connection.apiKey, ...Object.values(connection.headers)].filter(
    (value) => (value?.length ?? 0) >= 6,
  );
  let clean = text;
  for (const secret of secrets) clean = clean.replaceAll(secret as string, "[redacted:key]");
  clean = clean.replace(/\s+/g, " ").trim();
  return clean.length > 500 ? `${clean.slice(0, 499)}…` : clean;
};

/** `retry-after-ms`, or `Retry-After` as seconds or as an HTTP date. */
const retryAfter = (headers: Record<string, string>, now: number): { retryAfterMs?: number } => {
  const exact = Number(headers["retry-after-ms"] ?? Number.NaN);
  if (exact >= 0) return { retryAfterMs: exact };
  const text = headers["retry-after"];
  if (text === undefined || text.trim() === "") return {};
  const seconds = Number(text);
  const wait = Number.isNaN(seconds) ? Date.parse(text) - now : seconds * 1000;
  return Number.isNaN(wait) ? {} : { retryAfterMs: Math.max(0, wait) };
};
