import type { IncomingMessage, ServerResponse } from "node:http";
import { getRequestListener, type HttpBindings } from "@hono/node-server";
import { Hono } from "hono";
import { ServiceError } from "../errors.ts";
import type { Log } from "../log.ts";
import type { Limits } from "../protocol/limits.ts";
import type { OperationID, Route, Routes } from "../protocol/routes.ts";
import type { Store } from "../store/store.ts";
import type { Missions } from "../mission/missions.ts";
import type { Tasks } from "../task/tasks.ts";
import { type Auth, createAuth, unauthorized } from "./auth.ts";
import { createBodies } from "./body.ts";
import type { Handler } from "./call.ts";
import type { Timing } from "./channel.ts";
import { guard, type GuardPolicy, pathOf } from "./guard.ts";
import { createRunOnce } from "./idempotency.ts";
import { createDocument } from "./openapi.ts";
import { createRates } from "./rate.ts";
import { answer, drain, empty, type Entry, failed, failureOf, json, openEntry, send } from "./reply.ts";
import { createServe } from "./serve.ts";
import { createSquadHandlers, type SquadDeps } from "./squads.ts";
import { createStreams, type Streams } from "./sse.ts";
import {
  asset,
  assetPath,
  isScreen,
  page,
  referencePage,
  referencePath,
  referenceScript,
  screenPaths,
} from "./static.ts";
import { createMissionHandlers } from "./missions.ts";
import { createTaskHandlers } from "./tasks.ts";

/**
 * The HTTP face: guards, then the router, then one handler for each route of the table. The guards run before the
 * router and before any byte of a body, in the order of design/security.md S2: duplicate headers, Host, origin,
 * target, authentication, rate; then method and type, length, body, schema, directory.
 */

export type AppDeps = {
  tasks: Tasks;
  missions: Missions;
  squads: SquadDeps;
  store: Store;
  limits: Limits;
  routes: Routes;
  auth: Auth;
  allowedHosts: readonly string[];
  allowedOrigins: readonly string[];
  /** Listens on this machine only: no rate limits. */
  loopback: boolean;
  health(): Health | Promise<Health>;
  models(): Models | Promise<Models>;
  metrics(): Promise<string>;
  /** Shutting down: everything but /health is refused with 503. */
  draining(): boolean;
  /** The identity of a caller's project, as `Filter.project` of the store wants it; refuses with directory_*. */
  project(directory: string): Promise<string>;
  log: Log;
  version: string;
  /** Milliseconds, for the token buckets. */
  now?: () => number;
  timing?: Timing;
};

export type App = {
  /** For node:http. */
  listener(incoming: IncomingMessage, outgoing: ServerResponse): void;
  /** Ends every event stream; the readers come back by themselves. */
  closeStreams(): void;
  openStreams(): number;
  log: Log;
};

export type Health = {
  healthy: boolean;
  version: string;
  sandbox: { tier: number; name: string; network: boolean };
  model: { ref: string; source: string };
  store: { kind: "sqlite" | "postgres"; ok: boolean };
};

export type Models = {
  active: { ref: string; source: string };
  failover: string[];
  providers: {
    id: string;
    kind: string;
    name: string;
    configured: boolean;
    keySource: string | null;
    baseURL: string | null;
    models: string[];
    breaker: { state: "closed" | "open" | "half-open"; failures: number; retryAt: string | null };
  }[];
};

export const createApp = (deps: AppDeps): App => {
  const { limits, routes, log } = deps;
  const streams = createStreams(deps);
  const bodies = createBodies(limits);
  const handlers = createHandlers(deps, streams);

  /** What the guards found, for the router's handlers. */
  const entries = new WeakMap<IncomingMessage, Entry>();
  const entryOf = (incoming: IncomingMessage): Entry => entries.get(incoming) ?? openEntry("");

  const hono = new Hono<{ Bindings: HttpBindings }>();
  const methods = new Map<string, string[]>();

  for (const [operationID, route] of Object.entries(routes) as [OperationID, Route][]) {
    const path = route.path.replaceAll(/\{(\w+)\}/g, ":$1");
    methods.set(path, [...(methods.get(path) ?? []), route.method, ...(route.method === "GET" ? ["HEAD"] : [])]);
    const serve = createServe(route, deps.auth.username, bodies, handlers[operationID], entryOf);
    hono.on(route.method, path, serve);
  }
  methods.set(referencePath, ["GET", "HEAD"]);
  hono.get(referencePath, (context) => referenceScript(entryOf(context.env.incoming)));
  for (const path of [...screenPaths, assetPath]) methods.set(path, ["GET", "HEAD"]);
  for (const path of screenPaths)
    hono.get(path, ({ env: { incoming } }) => page(entryOf(incoming), incoming.headers["if-none-match"]));
  hono.get(assetPath, (context) => asset(entryOf(context.env.incoming), context.req.param("name")));

  const known = [...methods].map(([path, allowed]) => ({
    form: new RegExp(`^${path.replaceAll(".", "\\.").replaceAll("*", ".*").replaceAll(/:\w+/g, "[^/]+")}$`),
    allow: allowed.join(", "),
  }));
  hono.notFound((context) => {
    const { incoming } = context.env;
    const path = pathOf(incoming.url ?? "");
    const allow = known.find(({ form }) => form.test(path))?.allow;
    throw allow === undefined
      ? new ServiceError(
          "route_not_found",
          `Expected a route of this service (see /openapi.json), got ${incoming.method} ${path}.`,
        )
      : new ServiceError("method_not_allowed", `Expected ${allow} on this path, got ${incoming.method}.`, {
          headers: { allow },
        });
  });

  hono.onError((error, context) => {
    const { incoming, outgoing } = context.env;
    const entry = entryOf(incoming);
    drain(incoming);
    // A caller that left, e.g. while its archive was built, gets nothing and is no fault.
    if (outgoing.destroyed) return empty(entry, 499);
    return failed(entry, failureOf(error, entry.requestID, log));
  });

  const route = getRequestListener((request, env) => hono.fetch(request, env), {
    errorHandler: (error) => {
      const entry = openEntry("");
      return failed(entry, failureOf(error, entry.requestID, log));
    },
  });

  const documents = new Set<string>(
    (Object.values(routes) as Route[])
      .filter(({ answers }) => answers[0]?.type === "text/html")
      .map(({ path }) => path),
  );
  const policy: GuardPolicy = {
    allowedHosts: deps.allowedHosts,
    allowedOrigins: deps.allowedOrigins,
    password: deps.auth.password !== undefined,
    isPage: (path) => isScreen(path) || documents.has(path),
  };
  const authenticated = createAuth(deps.auth);
  const rates = deps.loopback ? undefined : createRates(limits, deps.now ?? Date.now);

  const enter = (incoming: IncomingMessage, entry: Entry): "preflight" | undefined => {
    const { cors, preflight } = guard(incoming, policy);
    if (cors !== undefined) Object.assign(entry.headers, cors);
    if (preflight) return "preflight";
    if (authenticated !== undefined) {
      const header = incoming.headers.authorization;
      rates?.authenticate(entry.address);
      if (!authenticated(header)) {
        rates?.failed(entry.address);
        throw unauthorized(header);
      }
    }
    rates?.request(entry.address);
    if (incoming.method === "POST" && incoming.url !== undefined && pathOf(incoming.url) === "/task")
      rates?.create(entry.address);
    if (deps.draining() && pathOf(incoming.url ?? "") !== "/health")
      throw new ServiceError("draining", "Expected a running service, got one that is stopping. Try again.", {
        headers: { "retry-after": "2", connection: "close" },
      });
    return undefined;
  };

  return {
    listener(incoming, outgoing) {
      const entry = openEntry(incoming.socket.remoteAddress ?? "socket");
      try {
        if (enter(incoming, entry) === "preflight") {
          outgoing.writeHead(204, entry.headers).end();
          return;
        }
      } catch (error) {
        send(outgoing, entry, failureOf(error, entry.requestID, log));
        drain(incoming);
        return;
      }
      entries.set(incoming, entry);
      void route(incoming, outgoing);
    },
    closeStreams: () => streams.close(),
    openStreams: () => streams.open,
    log,
  };
};

/** One handler for each route. */
const createHandlers = (deps: AppDeps, streams: Streams): { [ID in OperationID]: Handler<Routes[ID]> } => {
  const { tasks, store, limits, log } = deps;
  const runOnce = createRunOnce(store);
  let document: Promise<string> | undefined;
  return {
    ...createTaskHandlers({ tasks, store, runOnce, streams, limits, log }),
    ...createMissionHandlers({ missions: deps.missions, runOnce, streams, limits, log }),
    ...createSquadHandlers({ ...deps.squads, store, runOnce }),
    "project.list": async ({ entry, query }) => json(entry, 200, await store.projects(query.limit ?? 50)),
    "event.stream": (call) => streams.ofAll(call),
    "service.health": async ({ entry }) => json(entry, 200, await deps.health()),
    "service.models": async ({ entry }) => json(entry, 200, await deps.models()),
    "service.metrics": async ({ entry }) =>
      answer(entry, 200, await deps.metrics(), "text/plain; version=0.0.4; charset=utf-8"),
    "service.openapi": async ({ entry }) => {
      document ??= createDocument(deps.routes, deps.version).then((made) => JSON.stringify(made));
      return answer(entry, 200, await document, "application/json; charset=utf-8");
    },
    "service.doc": ({ entry }) => referencePage(entry),
  };
};
