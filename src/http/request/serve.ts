import type { IncomingMessage, ServerResponse } from "node:http";
import { z } from "zod";
import { ServiceError } from "../../error.ts";
import { isID } from "../../id.ts";
import { missionID } from "../../protocol/mission/status.ts";
import type { Route } from "../../protocol/route/route.ts";
import type { Auth } from "../guard/auth.ts";
import type { Bodies } from "./body.ts";
import type { AnyHandler, Call } from "./call.ts";
import { atChosen, chosenNode } from "./chosen-node.ts";
import { directoryOf, type PlaceOf, repositoryOf } from "./directory.ts";
import { onceKey, type RealPath } from "./idempotency.ts";
import { invalid, parseBody, parseQuery, type QueryPlan, readQuery } from "./parse.ts";
import { type HttpAnswer, type RequestContext, taskNotFound } from "../response/response.ts";

/** A request that passed the guards and has a route. */
export type Arrived = {
  entry: RequestContext;
  params: Record<string, string>;
  incoming: IncomingMessage;
  outgoing: ServerResponse;
};
export type Serve = (arrived: Arrived) => HttpAnswer | Promise<HttpAnswer>;

/** Turns a request into a parsed call: body, then schemas, then directory. */
export const createServe = (
  route: Route,
  { username: user, password }: Auth,
  bodies: Bodies,
  realPath: RealPath,
  placeOf: PlaceOf,
  handler: AnyHandler,
): Serve => {
  const plan: QueryPlan = {
    schema: route.query,
    names: new Set(route.query instanceof z.ZodObject ? Object.keys(route.query.shape) : []),
    inProject: route.directory !== "accepted",
    prefix: route.queryPrefix,
  };
  const projectOf = (of: Route, body: unknown, query: ReadonlyMap<string, string>, header: string | undefined) => {
    const named = repositoryOf(of, body, query.get("repository"));
    if (named === undefined) return directoryOf(of, query.get("directory"), header);
    if (query.get("directory") !== undefined || header !== undefined)
      throw new ServiceError("directory_ambiguous", "Expected a directory or a repository, got both.");
    return placeOf(named.url, named.ref);
  };
  const hasMission = route.path.includes("{missionID}");
  const hasTask = route.path.includes("{taskID}");
  return onChosen(async ({ entry, params, incoming, outgoing }) => {
    const target = incoming.url ?? "";
    const head = incoming.method === "HEAD";
    const sentBody = await bodies.read(route, incoming, outgoing);
    const sentQuery = readQuery(target);
    const query = parseQuery(plan, sentQuery);
    const body =
      route.body === undefined ? undefined : parseBody(route.body, sentBody === undefined ? {} : sentBody.value);
    const header = incoming.headers["x-service-directory"] as string | undefined;
    const directory = projectOf(route, body, sentQuery, header);
    if (hasTask && !isID("task", params["taskID"] ?? "")) throw taskNotFound();
    if (hasMission) checkMissionID(params["missionID"] ?? "");
    const key = incoming.headers["idempotency-key"] as string | undefined;
    // Decoded parameters, so that two spellings of one path share a key.
    const path = () => route.path.replace(/\{(\w+)\}/g, (_whole, name: string) => params[name] ?? "");
    const once = async () => {
      if (key === undefined) return undefined;
      const scope = { method: route.method, path: atChosen(path()), directory, user };
      return onceKey(key, scope, () => sentBody?.bytes, realPath);
    };
    const call = {
      entry,
      params,
      query: query.value,
      prefixed: query.prefixed,
      body,
      directory,
      once: route.method === "POST" ? await once() : undefined,
      caller: { user: password === undefined ? null : user, address: entry.address },
      head,
      incoming,
      outgoing,
    } as unknown as Call<Route>;
    return handler(call);
  });
};

/** Serves the request with `chosenNode` set to the node that its header `x-service-node` names, if any. */
export const onChosen =
  (serve: Serve): Serve =>
  (arrived) => {
    const node = arrived.incoming.headers["x-service-node"];
    return typeof node === "string" ? chosenNode.run(node, () => serve(arrived)) : serve(arrived);
  };

/** A malformed Mission id is a 400 and not a 404, because callers choose these ids themselves. */
const checkMissionID = (given: string): void => {
  const parsed = missionID.safeParse(given);
  if (parsed.success) return;
  const message = parsed.error.issues[0]?.message ?? "";
  throw invalid([{ path: "path.missionID", message, code: "invalid_format" }]);
};
