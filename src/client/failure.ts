import type { ErrorBody } from "../protocol/error.ts";

/** The error of a failed call: the service's error body, or why the service was not reached. */
export type CallError = ErrorBody | Error;

export type Result<T> =
  | { data: T; error: undefined; response?: Response }
  | { data: undefined; error: CallError; response?: Response };

/** A refusal of the service as an exception. */
export class ServiceCallError extends Error {
  readonly status: number;
  readonly code: ErrorBody["code"];
  /** What to do about it; null when the message says everything. */
  readonly remedy: string | null;
  readonly requestID: string;
  readonly retryable: boolean;
  readonly details: ErrorBody["details"];
  readonly issues: ErrorBody["issues"];

  constructor(body: ErrorBody) {
    super(body.message);
    this.name = "ServiceCallError";
    this.status = body.status;
    this.code = body.code;
    this.remedy = body.remedy ?? null;
    this.requestID = body.requestID;
    this.retryable = body.retryable;
    this.details = body.details;
    this.issues = body.issues;
  }
}

/** An answer that did not come from the service, but from a proxy in between or another program on the port. */
export class StrangeAnswer extends Error {
  readonly status: number;
  constructor(status: number, text: string) {
    super(`Expected an answer of the service, got status ${status}: ${text.slice(0, 200)}`);
    this.name = "StrangeAnswer";
    this.status = status;
  }
}

export const isErrorBody = (value: unknown): value is ErrorBody =>
  typeof value === "object" && value !== null && "message" in value && "code" in value && "status" in value;

/** The error body of a refusal, or a `StrangeAnswer` when something else answered. */
export const errorOf = async (response: Response): Promise<CallError> => {
  const text = await response.text().catch(() => "");
  try {
    const body: unknown = JSON.parse(text);
    if (isErrorBody(body)) return body;
  } catch {}
  return new StrangeAnswer(response.status, text);
};

/** A call's error as an exception. `status`: that of the answer, if there was one. */
export const toThrowable = (error: unknown, status?: number): Error => {
  if (error instanceof Error) return error;
  if (isErrorBody(error)) return new ServiceCallError(error);
  return new StrangeAnswer(status ?? 0, typeof error === "string" ? error : JSON.stringify(error));
};

/** Returns the result, or throws its error if `throws`. */
export const resultOrThrow = <T>(result: Result<T>, throws: boolean): Result<T> => {
  if (throws && result.error !== undefined) throw toThrowable(result.error, result.response?.status);
  return result;
};
