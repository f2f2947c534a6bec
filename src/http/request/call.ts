import type { IncomingMessage, ServerResponse } from "node:http";
import type { z } from "zod";
import type { Route } from "../../protocol/route/route.ts";
import type { IdempotencyKey } from "../../task/tasks.ts";
import type { HttpAnswer, RequestContext } from "../response/response.ts";

type Parsed<R, Key extends string> = R extends { [K in Key]: infer S extends z.ZodType } ? z.output<S> : undefined;

/** A request that passed all guards and the schemas of its route, as its handler gets it. */
export type Call<R> = {
  entry: RequestContext;
  params: Parsed<R, "params">;
  query: Parsed<R, "query">;
  /** Query parameters with the route's `queryPrefix`, by the rest of their name. */
  prefixed: Record<string, string>;
  body: Parsed<R, "body">;
  directory: R extends { directory: "required" } ? string : string | undefined;
  once: IdempotencyKey | undefined;
  /** The user whose credentials the request carried (null: the service has no password), and the client's address. */
  caller: { user: string | null; address: string };
  /** HEAD: the same answer without its body. */
  head: boolean;
  incoming: IncomingMessage;
  outgoing: ServerResponse;
};

export type Handler<R> = (call: Call<R>) => HttpAnswer | Promise<HttpAnswer>;

/** A handler whose route is not known by type; the route's schemas have checked the call. */
export type AnyHandler = Handler<Route>;
