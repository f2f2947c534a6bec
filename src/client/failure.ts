import type { ErrorBody } from "../protocol/error.ts";

/** The error of a failed call: the service's error body, or why the service was not reached. */
export type CallError = ErrorBody | Error;

export type Result<T> =
  | { data: T; error: undefined; response?: Response }
  | { data: undefined; error: CallError; response?: Response };

/** A refusal of the service, as it is thrown. */
export class ServiceCallError extends Error {
  readonly status: number;
  readonly code: ErrorBody["code"];
  /** What to do about it; null where the message says it all. */
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

/** What a proxy in between answered, or another program on the port. */
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

/** The error body of a refusal, also when a proxy answered with something else. */
export const errorOf = async (response: Response): Promise<CallError> => {
  const text = await response.text().catch(() => "");
  try {
    const body: unknown = JSON.parse(text);
    if (isErrorBody(body)) return body;
  } catch {}
  return new StrangeAnswer(response.status, text);
};

/** As it is thrown. `status`: of the answer, where there was one. */
export const asError = (error: unknown, status?: number): Error => {
  if (error instanceof Error) return error;
  if (isErrorBody(error)) return new ServiceCallError(error);
  return new StrangeAnswer(status ?? 0, typeof error === "string" ? error : JSON.stringify(error));
};

/** The result, or its error thrown. */
export const settled = <T>(result: Result<T>, throws: boolean): Result<T> => {
  if (throws && result.error !== undefined) throw asError(result.error, result.response?.status);
  return result;
};
