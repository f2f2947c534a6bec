import type { IncomingMessage } from "node:http";
import type { HttpBindings } from "@hono/node-server";
import type { Context } from "hono";
import { z } from "zod";
import { isID } from "../id.ts";
import { missionID } from "../protocol/mission.ts";
import type { Route } from "../protocol/routes.ts";
import type { Bodies } from "./body.ts";
import type { AnyHandler, Call } from "./call.ts";
import { directoryOf } from "./directory.ts";
import { pathOf } from "./guard.ts";
import { onceKey } from "./idempotency.ts";
import { invalid, parseBody, parseQuery, type QueryPlan, readQuery } from "./parse.ts";
import { type Entry, taskNotFound } from "./reply.ts";

/** From the router's context to a parsed call: body, then schemas, then directory. */
export const createServe = (
  route: Route,
  user: string,
  bodies: Bodies,
  handler: AnyHandler,
  entryOf: (incoming: IncomingMessage) => Entry,
) => {
  const plan: QueryPlan = {
    schema: route.query,
    names: new Set(route.query instanceof z.ZodObject ? Object.keys(route.query.shape) : []),
    prefix: route.queryPrefix,
  };
  const hasMission = route.path.includes("{missionID}");
  const hasTask = route.path.includes("{taskID}");
  return async (context: Context<{ Bindings: HttpBindings }>): Promise<Response> => {
    const { incoming, outgoing } = context.env;
    const target = incoming.url ?? "";
    const path = pathOf(target);
    const head = incoming.method === "HEAD";
    const entry = entryOf(incoming);
    const sentBody = await bodies.read(route, incoming, outgoing);
    const sentQuery = readQuery(target);
    const query = parseQuery(plan, sentQuery);
    const body =
      route.body === undefined ? undefined : parseBody(route.body, sentBody === undefined ? {} : sentBody.value);
    const header = incoming.headers["x-service-directory"] as string | undefined;
    const directory = directoryOf(route, sentQuery.get("directory"), header);
    const params = context.req.param() as Record<string, string>;
    if (hasTask && !isID("task", params["taskID"] ?? "")) throw taskNotFound();
    if (hasMission) checkMissionID(params["missionID"] ?? "");
    const key = incoming.headers["idempotency-key"] as string | undefined;
    const scope = { method: route.method, path, directory, user };
    const call = {
      entry,
      params,
      query: query.value,
      prefixed: query.prefixed,
      body,
      directory,
      once: route.method === "POST" ? onceKey(key, scope, sentBody?.bytes) : undefined,
      head,
      incoming,
      outgoing,
    } as unknown as Call<Route>;
    const response = await handler(call);
    return head ? withoutBody(response) : response;
  };
};

/** An ill-formed Mission id is a 400: it is the caller's own word. */
const checkMissionID = (given: string): void => {
  const parsed = missionID.safeParse(given);
  if (parsed.success) return;
  const message = parsed.error.issues[0]?.message ?? "";
  throw invalid([{ path: "path.missionID", message, code: "invalid_format" }]);
};

/** HEAD: the length is told, the bytes are not sent. */
const withoutBody = async (response: Response): Promise<Response> => {
  if (response.status === 204 || response.status === 304 || response.body === null) return response;
  const headers = new Headers(response.headers);
  headers.set("content-length", String((await response.arrayBuffer()).byteLength));
  return new Response(null, { status: response.status, headers });
};
