import { join } from "node:path";
import { isLoopback } from "../../config/config.ts";
import { createApp } from "../../http/app.ts";
import { listen } from "../../http/listen.ts";
import { listenToPeers } from "../../http/peer/listen.ts";
import { createModelTests } from "../../model/test-call.ts";
import { version } from "../../package-root.ts";
import { createRoutes } from "../../protocol/route/table.ts";
import { fetchedOnce } from "../../repository/fetched.ts";
import { openForgeListener } from "../forge.ts";
import { createHealth } from "../health.ts";
import { mcpServersOn } from "../machine.ts";
import { createKeys } from "../model-key.ts";
import { workAsNode } from "../node/nodes.ts";
import { peersOf } from "../node/peers.ts";
import { createProjects } from "../project.ts";
import { requestsOf } from "../trust.ts";
import type { Experts } from "./expert.ts";
import type { Machine } from "./machine.ts";
import type { Projects } from "./project.ts";
import type { Work } from "./work.ts";

/** The listeners: HTTP for callers, forges and other nodes. */

/** The paths that a node that only runs Tasks answers: those about itself, for operators and load balancers. */
const ofNode = /^\/(?:health|metrics|nodes|node\/.*)$/;

export const openFront = async (
  { config, secrets, log, data, store, now, sandbox }: Machine,
  { workspaces, inspect, own, repositories, vault, webhooks, forgeEvents, surroundings }: Projects,
  { catalog, manager, registry }: Experts,
  { engine, metrics, offering, tasks, missions }: Work,
  scope: AsyncDisposableStack,
) => {
  const { limits, role } = config;
  let peerURL: string | undefined;
  const nodes = scope.use(
    workAsNode({
      ...data,
      named: config.node !== undefined,
      engine,
      workspaces,
      role,
      maxRunning: config.maxRunning,
      drainSeconds: limits.drainSeconds,
      offering,
      address: () => peerURL,
      log,
    }),
  );
  const health = createHealth({
    store,
    registry,
    sandbox,
    secrets,
    mcpServers: () => mcpServersOn(config, sandbox.container?.image.programs),
    log,
  });
  let draining = false;
  const app = createApp({
    tasks,
    missions,
    webhooks,
    squads: {
      catalog,
      manager,
      async admit(given) {
        const { directory } = await own(given);
        return { directory, lacks: await fetchedOnce(repositories, repositories.at(directory)) };
      },
    },
    store,
    limits,
    routes: createRoutes(limits),
    auth: { username: config.username, password: config.password },
    endedSessions: join(config.dataDir, "ended-sessions"),
    allowedHosts: config.allowedHosts,
    allowedOrigins: config.allowedOrigins,
    loopback: isLoopback(config.host),
    health: health.read,
    nodes,
    models: () => ({ active: registry.active(), failover: [...config.failover], providers: registry.list() }),
    setKey: createKeys({ config, registry, secrets, log, changed: () => offering?.keyed() }),
    testModel: createModelTests({ registry, replySeconds: limits.modelReplySeconds, redact: secrets.known }),
    ...createProjects({
      inspect,
      own,
      repositories,
      startedIn: config.startedIn,
      landing: config.landing,
      squad: config.squad,
      machine: surroundings,
      asked: (directory) => requestsOf(config, directory),
      overrides: (directory) => vault.of(directory) !== undefined,
      checkSeconds: limits.projectCheckSeconds,
    }),
    metrics: metrics.text,
    draining: () => draining,
    peers: peersOf(data, log),
    ...(role === "worker" ? { serves: (path: string) => ofNode.test(path) } : {}),
    version,
    log,
  });
  const forges = scope.use(
    await openForgeListener(config, forgeEvents, { tasks, store, repositories, limits, log, now }),
  );
  const server = await listen(app, {
    host: config.host,
    port: config.port,
    socket: config.socket,
    sameUser: config.sameUser,
  });
  scope.defer(() => server.close());
  if (config.peer !== undefined && data.member !== undefined) {
    const { key, name, now: shared } = data.member;
    const about = { key: await key(), name, now: shared, log };
    peerURL = scope.use(await listenToPeers((...asked) => app.peer(...asked), config.peer, about)).url;
  }
  return {
    url: server.url,
    port: server.port,
    forgePort: forges?.port,
    peerURL,
    unhandled: health.unhandled,
    handOver: () => nodes.handOver(),
    /** Refuses new requests; those under way are still answered. */
    drain() {
      draining = true;
      tasks.stop();
    },
  };
};
