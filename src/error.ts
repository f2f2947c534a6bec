/**
 * Errors that are answers. A `ServiceError` is thrown only for what a caller asked for and cannot have; a failing
 * provider, tool, check or Task is a value or an event, never an exception. The table is the one place that maps a code
 * to its HTTP status. Source: shared/spec/completion.md, "Errors".
 */

export const statusOf = {
  invalid_json: 400,
  invalid_request: 400,
  directory_required: 400,
  directory_invalid: 400,
  directory_ambiguous: 400,
  invalid_cursor: 400,
  invalid_event_id: 400,
  unauthorized: 401,
  origin_not_allowed: 403,
  host_not_allowed: 403,
  directory_not_allowed: 403,
  key_not_allowed: 403,
  task_not_found: 404,
  mission_not_found: 404,
  squad_not_found: 404,
  session_not_found: 404,
  webhook_not_found: 404,
  delivery_not_found: 404,
  check_not_found: 404,
  artifact_not_found: 404,
  ask_not_found: 404,
  commit_not_found: 404,
  call_not_found: 404,
  node_not_found: 404,
  route_not_found: 404,
  method_not_allowed: 405,
  task_settled: 409,
  task_active: 409,
  task_busy: 409,
  not_revertible: 409,
  not_mergeable: 409,
  budget_reached: 409,
  ask_closed: 409,
  session_ended: 409,
  idempotency_key_reused: 409,
  idempotency_in_progress: 409,
  directory_mismatch: 409,
  squad_changed: 409,
  plan_changed: 409,
  webhook_limit: 409,
  provider_not_fixed: 409,
  config_not_writable: 409,
  events_expired: 410,
  body_too_large: 413,
  attachment_too_large: 413,
  unsupported_media_type: 415,
  not_a_git_worktree: 422,
  repository_not_allowed: 422,
  repository_unsupported: 422,
  repository_unavailable: 422,
  model_not_configured: 422,
  model_not_found: 422,
  squad_not_available: 422,
  preview_not_available: 422,
  preview_failed: 422,
  squad_invalid: 422,
  output_schema_invalid: 422,
  rate_limited: 429,
  queue_full: 429,
  internal: 500,
  draining: 503,
  store_unavailable: 503,
  disk_low: 503,
  node_away: 503,
} as const;

export type ErrorCode = keyof typeof statusOf;
export const errorCodes = Object.keys(statusOf) as [ErrorCode, ...ErrorCode[]];

/**
 * One wrong field: its path (`body.checks[0].run`), what was expected and what came, and a short machine-readable code.
 */
export type Issue = { path: string; message: string; code: string };

type Extra = {
  details?: Record<string, unknown>;
  issues?: Issue[];
  /** Extra response headers, e.g. `Retry-After` in seconds or `Allow`. */
  headers?: Record<string, string>;
  cause?: unknown;
};

export class ServiceError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  /** Whether the same request may succeed later without change. */
  readonly retryable: boolean;
  readonly details: Record<string, unknown> | undefined;
  readonly issues: Issue[] | undefined;
  readonly headers: Record<string, string>;

  constructor(code: ErrorCode, message: string, extra: Extra = {}) {
    super(message, extra.cause === undefined ? undefined : { cause: extra.cause });
    this.name = "ServiceError";
    this.code = code;
    this.status = statusOf[code];
    this.retryable = this.status === 429 || this.status === 503 || code === "idempotency_in_progress";
    this.details = extra.details;
    this.issues = extra.issues;
    this.headers = extra.headers ?? (this.retryable ? { "retry-after": "2" } : {});
  }
}

/** The service cannot start: one line with the remedy, and an exit code of sysexits.h. */
export class StartError extends Error {
  readonly exitCode: number;
  constructor(exitCode: 69 | 70 | 75 | 78, message: string) {
    super(message);
    this.name = "StartError";
    this.exitCode = exitCode;
  }
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** The system's code of an error, such as "ENOENT"; undefined: the error has none. */
export const errorCode = (error: unknown): string | undefined =>
  typeof error === "object" && error !== null && "code" in error && typeof error.code === "string"
    ? error.code
    : undefined;
