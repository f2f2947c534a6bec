import type { IncomingMessage, ServerResponse } from "node:http";
import { ServiceError } from "../error.ts";
import type { Log } from "../log.ts";
import type { Limits } from "../protocol/limit.ts";
import type { ListedNode, NodeList } from "../store/node.ts";
import type { Route } from "../protocol/route/route.ts";
import type { OperationID, Routes } from "../protocol/route/table.ts";
import type { ProjectGrant } from "../protocol/task/grant.ts";
import type { SavedRequest } from "../protocol/task/saved-request.ts";
import type { ProjectPlace } from "../protocol/task/board.ts";
import type { BlobsMoved, ModelKey, ModelKeySet, ModelTrial } from "../protocol/service.ts";

import type { BlobMove, Store } from "../store/store.ts";
import type { Missions } from "../mission/missions.ts";
import type { Tasks } from "../task/tasks.ts";
import type { Webhooks } from "../webhook/service.ts";
import type { Auth } from "./guard/auth.ts";
import { bytesOf, createBodies } from "./request/body.ts";
import type { Handler } from "./request/call.ts";
import type { Timing } from "./stream/subscriber.ts";
import { refuseSecretFromOthers } from "./guard/own-page.ts";
import { guard, type GuardPolicy, pathOf } from "./guard/request.ts";
import type { PlaceOf } from "./request/directory.ts";
import { createRunOnce, type RealPath, type RunOnce, createAnswerOnce } from "./request/idempotency.ts";
import { createDocument } from "./openapi.ts";
import { createLogins, createRates } from "./guard/rate-limit.ts";
import {
  type HttpAnswer,
  answer,
  drain,
  type RequestContext,
  failureOf,
  json,
  jsonType,
  openEntry,
  send,
  answeredOnSocket,
  writeLong,
} from "./response/response.ts";
import { tagged, tagOf, unchanged } from "./response/etag.ts";
import { forward, type Peers } from "./peer/forward.ts";
import { createRouter } from "./router.ts";
import { createServe, onChosen, type Serve } from "./request/serve.ts";
import { createSquadHandlers, type SquadDeps } from "./handler/squad.ts";
import { createStreams, type Streams } from "./stream/event-stream.ts";
import { createDoor, type Stopped } from "./page/door.ts";
import { asset, assetPath, isScreen, page, screenPaths } from "./page/page.ts";
import { referencePage, referencePath, referenceScript } from "./page/reference.ts";
import { createMcpEndpoint, mcpPath } from "./mcp/endpoint.ts";
import { createMissionHandlers } from "./handler/mission.ts";
import { createProjectHandlers } from "./handler/project.ts";
import { createTaskHandlers } from "./handler/task.ts";
import { createWebhookHandlers } from "./handler/webhook.ts";
import { loadOnce } from "../async/load-once.ts";

/**
 * The HTTP interface: guards, then the router, then one handler for each route of the table. The guards run before the
 * router and before any byte of a body: duplicate headers, Host, origin, target, authentication, rate. Then follow
 * method and type, length, body, schema, directory.
 */

export type AppDeps = {
  tasks: Tasks;
  missions: Missions;
  squads: SquadDeps;
  webhooks: Webhooks;
  store: Store;
  limits: Limits;
  routes: Routes;
  auth: Auth;
  /** The file that keeps ended sessions; undefined: they are kept in memory. */
  endedSessions?: string | undefined;
  allowedHosts: readonly string[];
  allowedOrigins: readonly string[];
  /** The service listens on this machine only: no rate limits except for failed log-ins. */
  loopback: boolean;
  health(): Health | Promise<Health>;
  /** The nodes that share the database: all of them, and draining one. */
  nodes: {
    list(): Promise<NodeList>;
    /** Rejects with `node_not_found` or `node_away`. */
    drainNode(name: string): Promise<ListedNode>;
  };
  models(): Models | Promise<Models>;
  testModel(ref: string | undefined): Promise<ModelTrial>;
  setKey(given: ModelKey): ModelKeySet;
  /** The folder that the service was started in, if it is a project. */
  startedIn(): Promise<string | undefined>;
  /** The repository whose files the service keeps in this directory; null: the directory belongs to no repository. */
  repositoryOf(directory: string): { url: string; ref: string | null } | null;
  metrics(): Promise<string>;
  /**
   * Other nodes, to which requests for files on them are forwarded; undefined: there are none, or this node has none
   * configured.
   */
  peers?: Peers | undefined;
  /**
   * Whether this node answers on a path: a node that only runs Tasks refuses the others with 503. undefined: it answers
   * on all.
   */
  serves?: (path: string) => boolean;
  /** The service is stopping: everything but /health is refused with 503. */
  draining(): boolean;
  /**
   * The identity of a directory's project, as `Filter.project` of the store; rejects with `directory_invalid` or
   * `directory_not_allowed`.
   */
  project(directory: string): Promise<string>;
  /** Where a Task in this directory would work; rejects with the same codes as `project`. */
  place(directory: string): Promise<ProjectPlace>;
  requests(directory: string): Promise<SavedRequest[]>;
  grants(directory: string): Promise<ProjectGrant[]>;
  realPath: RealPath;
  /** The directory that holds the files of a repository; throws `repository_not_allowed`. */
  repository: PlaceOf;
  log: Log;
  version: string;
  /** Milliseconds, for the token buckets. */
  now?: () => number;
  timing?: Timing;
};

export type App = {
  /**
   * The listener for node:http. Returns whether the request passed the guards; otherwise it has been answered already.
   */
  listener(incoming: IncomingMessage, outgoing: ServerResponse): boolean;
  /** The listener for requests of other nodes, whose signature has been verified. */
  peer(incoming: IncomingMessage, outgoing: ServerResponse): void;
  /** Ends every event stream; readers reconnect by themselves. */
  closeStreams(): void;
  openStreams(): number;
  log: Log;
};

export type Health = {
  healthy: boolean;
  version: string;
  sandbox: { tier: number; name: string; network: boolean };
  model: { ref: string; source: string };
  store: { kind: "sqlite" | "postgres"; ok: boolean; reason: string | null };
  mcpServers: readonly { name: string; kind: "stdio" | "http"; problem: string | null }[];
  /** Providers whose circuit breaker is not closed: their calls are held back. */
  providers: { id: string; failures: number; since: string | null; retryAt: string | null }[];
  /** Rejections since the start that nobody handled. */
  faults: number;
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
    breaker: { state: "closed" | "open" | "half-open"; failures: number; since: string | null; retryAt: string | null };
  }[];
};

type Answering<T> = (incoming: IncomingMessage, outgoing: ServerResponse, entry: RequestContext) => T;

/** Paths that start work; they have a lower rate limit than other requests. */
const begins: ReadonlySet<string> = new Set(["/task", "/mission/wake"]);

export const createApp = (deps: AppDeps): App => {
  const { limits, routes, log } = deps;
  const streams = createStreams(deps);
  const bodies = createBodies(limits);
  const runOnce = createRunOnce(deps.store);
  const handlers = createHandlers(deps, streams, runOnce);
  const now = deps.now ?? Date.now;
  const rates = deps.loopback ? undefined : createRates(limits, now);
  const logins = createLogins(now, deps.store.nodes);
  const mcp = createMcpEndpoint({
    repositoryAt: deps.repository,
    ...deps,
    user: deps.auth.username,
    bodies,
    runOnce,
    countCreate: (address) => rates?.create(address),
  });

  const files: { path: string; value: Serve }[] = [
    { path: referencePath, value: ({ entry }) => referenceScript(entry) },
    ...screenPaths.map((path) => ({
      path,
      value: (({ entry, incoming }) => page(entry, incoming.headers["if-none-match"])) satisfies Serve,
    })),
    { path: assetPath, value: ({ entry, params }) => asset(entry, params["name"] ?? "") },
  ];
  const find = createRouter<Serve>([
    ...(Object.entries(routes) as [OperationID, Route][]).map(([operationID, route]) => ({
      method: route.method,
      path: route.path,
      value: createServe(route, deps.auth, bodies, deps.realPath, deps.repository, handlers[operationID]),
    })),
    ...files.map((file) => ({ method: "GET", ...file })),
    { method: "POST", path: mcpPath, value: onChosen(mcp.serve) },
  ]);

  const answerTo: Answering<Promise<HttpAnswer>> = async (incoming, outgoing, entry) => {
    const path = pathOf(incoming.url ?? "");
    const found = find(incoming.method ?? "", path);
    switch (found.kind) {
      case "route":
        return found.value({ entry, params: found.params, incoming, outgoing });
      case "method":
        throw new ServiceError("method_not_allowed", `Expected ${found.allow} on this path, got ${incoming.method}.`, {
          headers: { allow: found.allow },
        });
      case "none":
        throw new ServiceError(
          "route_not_found",
          `Expected a route of this service (see /openapi.json), got ${incoming.method} ${path}.`,
        );
    }
  };

  /** Requests that came from other nodes: answered here, never forwarded again. */
  const ofPeers = new WeakSet<IncomingMessage>();
  /**
   * Forwards a request that failed with `node_away` to the node that has its files; resolves to whether that node
   * answered.
   */
  const passedOn = async (
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    entry: RequestContext,
    error: unknown,
  ): Promise<boolean> => {
    const { peers } = deps;
    if (peers === undefined || outgoing.headersSent || ofPeers.has(incoming)) return false;
    const node = error instanceof ServiceError && error.code === "node_away" ? error.details?.["node"] : undefined;
    const body = typeof node === "string" ? bytesOf(incoming) : undefined;
    return body !== undefined && forward(peers, String(node), { incoming, outgoing, entry, body });
  };

  const serve = async (
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    entry: RequestContext,
    answering: Stopped = () => answerTo(incoming, outgoing, entry),
  ): Promise<void> => {
    try {
      const answered = await answering();
      if (answered !== answeredOnSocket) await writeLong(outgoing, answered);
    } catch (error) {
      if (await passedOn(incoming, outgoing, entry, error)) return;
      drain(incoming);
      // A caller that disconnected, for example while its archive was built, is no error.
      if (outgoing.destroyed) return;
      const refusal = failureOf(error, entry.requestID, log);
      if (outgoing.headersSent) outgoing.destroy();
      else send(outgoing, entry, refusal);
    }
  };

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
  const door = createDoor({
    auth: deps.auth,
    logins,
    now,
    endedSessions: deps.endedSessions,
    nodes: deps.store.nodes,
    isPage: (path) => policy.isPage(path),
  });

  const enter = (incoming: IncomingMessage, entry: RequestContext): "preflight" | Stopped | undefined => {
    const { cors, preflight } = guard(incoming, policy);
    if (cors !== undefined) Object.assign(entry.headers, cors);
    if (preflight) return "preflight";
    const stopped = door?.(incoming, entry);
    if (stopped !== undefined) return stopped;
    rates?.request(entry.address);
    if (incoming.method === "POST" && begins.has(pathOf(incoming.url ?? ""))) rates?.create(entry.address);
    if (deps.serves?.(pathOf(incoming.url ?? "")) === false)
      throw new ServiceError(
        "node_away",
        "Expected a request about this node, which only runs Tasks (SERVICE_ROLE=worker). Send it to another node.",
      );
    if (deps.draining() && pathOf(incoming.url ?? "") !== "/health") throw stopping();
    return undefined;
  };

  return {
    listener(incoming, outgoing) {
      const entry = openEntry(incoming.socket.remoteAddress ?? "socket");
      try {
        const stopped = enter(incoming, entry);
        if (stopped === "preflight") {
          outgoing.writeHead(204, entry.headers).end();
          return false;
        }
        if (stopped !== undefined) {
          void serve(incoming, outgoing, entry, stopped);
          return false;
        }
      } catch (error) {
        send(outgoing, entry, failureOf(error, entry.requestID, log));
        drain(incoming);
        return false;
      }
      void serve(incoming, outgoing, entry);
      return true;
    },
    peer(incoming, outgoing) {
      ofPeers.add(incoming);
      const entry = openEntry(incoming.socket.remoteAddress ?? "socket");
      const stops = (): Promise<HttpAnswer> => Promise.reject(stopping());
      void serve(incoming, outgoing, entry, deps.draining() ? stops : undefined);
    },
    closeStreams() {
      mcp.close();
      streams.close();
    },
    openStreams: () => streams.open,
    log,
  };
};

const stopping = (): ServiceError =>
  new ServiceError("draining", "Expected a running service, got one that is stopping. Try again.", {
    headers: { "retry-after": "2", connection: "close" },
  });

/** One handler for each route. */
const createHandlers = (
  deps: AppDeps,
  streams: Streams,
  runOnce: RunOnce,
): { [ID in OperationID]: Handler<Routes[ID]> } => {
  const { tasks, store, limits, log } = deps;
  const answered = createAnswerOnce(store, runOnce);
  const document = loadOnce(async () => {
    const text = JSON.stringify(await createDocument(deps.routes, deps.version));
    return { text, etag: tagOf(text) };
  });
  return {
    ...createTaskHandlers({ tasks, store, runOnce, streams, limits, log }),
    ...createMissionHandlers({ missions: deps.missions, runOnce, streams, limits, log }),
    ...createWebhookHandlers({ webhooks: deps.webhooks, answered }),
    ...createSquadHandlers({ ...deps.squads, store, runOnce }),
    ...createProjectHandlers(deps),
    "event.stream": (call) => streams.ofAll(call),
    "service.nodes": async ({ entry }) => json(entry, 200, await deps.nodes.list()),
    "service.moveBlobs": async ({ entry }) => json(entry, 200, await moveBlobs(store.blobMove)),
    "service.drainNode": async ({ entry, params }) => json(entry, 202, await deps.nodes.drainNode(params.name)),
    "service.health": async ({ entry }) => json(entry, 200, await deps.health()),
    "service.models": async ({ entry }) => json(entry, 200, await deps.models()),
    "service.testModel": ({ entry, body, once }) => answered(entry, once, () => deps.testModel(body.model)),
    "service.setKey": ({ entry, body, once, incoming }) => {
      refuseSecretFromOthers(incoming, deps.auth.password !== undefined);
      return answered(entry, once, () => Promise.resolve(deps.setKey(body)));
    },
    "service.metrics": async ({ entry }) =>
      answer(entry, 200, await deps.metrics(), "text/plain; version=0.0.4; charset=utf-8"),
    "service.openapi": async ({ entry, incoming }) => {
      const { text, etag } = await document();
      return (
        unchanged(entry, incoming.headers["if-none-match"], etag) ?? answer(entry, 200, text, jsonType, tagged(etag))
      );
    },
    "service.doc": ({ entry }) => referencePage(entry),
  };
};

const moveBlobs = async (move: BlobMove | undefined): Promise<BlobsMoved> => {
  if (move === undefined) return { place: "folder", state: "kept", moved: 0 };
  await move.begin();
  const { moved, isOver } = move.state();
  return { place: move.place, state: isOver ? "moved" : "moving", moved };
};
