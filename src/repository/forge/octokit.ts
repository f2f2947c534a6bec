import { request } from "@octokit/request";
import { ForgeRefused, RepositoryAway } from "../repository.ts";
import type { Call } from "./call.ts";

/** GitHub's own client, which sends its requests through `call`. */
export const createRequest =
  (api: string, token: string, call: Call) =>
  (signal: AbortSignal): typeof request => {
    const send = async (input: string | URL | Request, init: RequestInit = {}): Promise<Response> => {
      const { status, headers, body } = await call(
        {
          method: init.method as "GET",
          url: input instanceof Request ? input.url : input.toString(),
          headers: init.headers as Record<string, string>,
          body: init.body as string | undefined,
        },
        signal,
      );
      return new Response(status === 204 ? null : new Uint8Array(body), { status, headers: kept(headers) });
    };
    return request.defaults({
      baseUrl: api,
      headers: { authorization: `Bearer ${token}`, "x-github-api-version": "2022-11-28", "user-agent": "sortie" },
      request: { fetch: send },
    });
  };

/** Unwraps our own errors, which the client wraps in one of its own. */
export const unwrapError = async <T>(answer: Promise<T>): Promise<T> =>
  answer.catch((error: unknown) => {
    const cause = error instanceof Error ? error.cause : undefined;
    throw cause instanceof ForgeRefused || cause instanceof RepositoryAway ? cause : error;
  });

/** The headers without those about the body, which was decoded and counted already. */
const kept = (headers: Record<string, string>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name === "content-type" || name === "date"));
