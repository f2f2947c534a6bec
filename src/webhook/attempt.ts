import { messageOf } from "../error.ts";
import { storableText } from "../store/sql/row.ts";
import type { Attempt, SigningSecret } from "../store/webhook-queue.ts";
import { OutboundRefused } from "../outbound/address.ts";
import { type PostResult, postOutbound } from "../outbound/request.ts";
import { headersFor } from "./signature.ts";
import { type AllowedTargets, optionsFor, type TargetOptions } from "./target.ts";

/**
 * One delivery attempt: signs and sends a message, and describes the outcome. Rejects only when the caller's signal
 * aborts.
 */

/** `isHeld`: whether this process may still send it; checked before anything that could otherwise be done twice. */
export type Post = {
  url: string;
  message: string;
  body: string;
  secrets: readonly SigningSecret[];
  isHeld: () => boolean;
};
export type Attempted = Attempt & { delivered: boolean; answer: PostResult | undefined };

export type AttemptDeps = {
  allowed: AllowedTargets;
  way?: TargetOptions;
  redact: (text: string) => string;
  /** Takes messages for the service's own addresses. */
  own?: ((post: Omit<Post, "secrets">, signal: AbortSignal) => Promise<OwnAnswer>) | undefined;
  /** The machine's clock; receivers compare theirs with it. */
  wall: () => number;
};

export type OwnAnswer = {
  delivered: boolean;
  status: number | null;
  reason: string | null;
  retryAfter: string | undefined;
};

/** The service's own addresses. No caller can name one, because webhooks go only to http and https. */
const isForge = (url: string): boolean => url.startsWith("forge:");

const longestReason = 1024;

export const attempt = async (
  { url, message, body, secrets, isHeld }: Post,
  { allowed, way, redact, own, wall }: AttemptDeps,
  signal: AbortSignal,
): Promise<Attempted> => {
  const begun = performance.now();
  const after = (): number => Math.round(performance.now() - begun);
  if (isForge(url)) {
    const said = await (own?.({ url, message, body, isHeld }, signal) ?? nobody);
    const answer = { status: said.status ?? 0, retryAfter: said.retryAfter, body: Buffer.alloc(0) };
    const reason = said.reason === null ? null : bounded(redact(said.reason));
    return { delivered: said.delivered, status: said.status, reason, duration: after(), answer };
  }
  const options = optionsFor(url, allowed, way);
  try {
    const answer = await postOutbound(url, headersFor(message, body, secrets, wall()), body, options, signal);
    const delivered = answer.status >= 200 && answer.status < 300;
    const reason = delivered ? null : bounded(redact(wordsFor(answer)));
    return { delivered, status: answer.status, reason, duration: after(), answer };
  } catch (error) {
    signal.throwIfAborted();
    const reason = bounded(redact(whyNot(error, options.timeoutMs)));
    return { delivered: false, status: null, reason, duration: after(), answer: undefined };
  }
};

const nobody: OwnAnswer = {
  delivered: false,
  status: null,
  reason: "This service does not listen for events of forges (SERVICE_FORGE_PORT)",
  retryAfter: undefined,
};

const wordsFor = ({ status, body }: PostResult): string => {
  const said = body.toString("utf8").trim();
  if (status >= 300 && status < 400)
    return `Redirected (${status}), which is not followed: set the address it leads to`;
  return said === "" ? `Answered ${status}` : `Answered ${status}: ${said}`;
};

const whyNot = (error: unknown, timeoutMs: number | undefined): string => {
  if (error instanceof OutboundRefused) return `${error.message}; webhooks.allow lists further permitted targets`;
  if (error instanceof Error && error.name === "TimeoutError") return `No answer within ${(timeoutMs ?? 0) / 1000} s`;
  const code = error instanceof Error && "code" in error ? ` (${String(error.code)})` : "";
  return `No connection: ${messageOf(error)}${code}`;
};

const bounded = (text: string): string => {
  const clean = storableText(text);
  return clean.length <= longestReason ? clean : `${clean.slice(0, longestReason - 1).toWellFormed()}…`;
};
