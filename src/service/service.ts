import { randomUUID } from "node:crypto";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { createArchiver } from "../archive/service.ts";
import { type Clock, createClock } from "../clock.ts";
import { createRoom } from "../check/diagnostic/diagnostics.ts";
import { type Config, isLoopback } from "../config/config.ts";
import { isMission, type Recorded } from "../domain/event.ts";
import { protectedBy } from "../domain/permission/rule.ts";
import { dueNow } from "../engine/due.ts";
import { createSlots } from "../engine/slot.ts";
import type { StartError } from "../error.ts";
import { createApp } from "../http/app.ts";
import { listenToPeers } from "../http/peer/listen.ts";
import { chosenNode } from "../http/request/chosen-node.ts";
import { createMetrics } from "../http/metrics.ts";
import { listen } from "../http/listen.ts";
import { guardLog, type Log } from "../log.ts";
import { createMissions } from "../mission/service.ts";
import { browserBeside } from "../check/browser/find.ts";
import type { Missions } from "../mission/missions.ts";
import { concernsMission } from "../task/wake-mission.ts";
import { createRunMission } from "../mission/worker/run.ts";
import { createRecorder } from "../model/replay/cassette.ts";
import { createRegistry } from "../model/registry.ts";
import { createTrials } from "../model/test-call.ts";
import { createProcesses } from "../process/service.ts";
import type { Sandbox } from "../process/sandbox/sandbox.ts";
import { createRoutes } from "../protocol/route/table.ts";
import { createSecrets } from "../redact.ts";
import { fetchedOnce } from "../repository/fetched.ts";
import { createRepositories } from "../repository/service.ts";
import { createMirrorSweep } from "../repository/sweep.ts";
import { createManager } from "../squad/install/manager.ts";
import { followed } from "../squad/install/share.ts";
import { createSquads } from "../squad/revision.ts";
import { createCheckResults } from "../store/check-result.ts";
import { openData } from "../store/open.ts";
import { redactStore } from "../store/redacted-store.ts";
import { createExpirySweep } from "../task/operation/ended/expire.ts";
import { createRequestSweep } from "../task/operation/ended/see-pull-request.ts";
import { createRetention } from "../task/workspace/retention.ts";
import { environmentNow, environmentOf } from "../task/worker/environment.ts";
import { createRunTask } from "../task/worker/run.ts";
import { findSuspects } from "../task/worker/suspects.ts";
import { createTasks } from "../task/service.ts";
import type { Tasks } from "../task/tasks.ts";
import { createReplies } from "../forge/reply.ts";
import { callbackTo, createWebhooks, onCommit, type Webhooks } from "../webhook/service.ts";
import { version } from "../package-root.ts";
import { removeTree } from "../workspace/file/remove-tree.ts";
import { createWorkspaces } from "../workspace/service.ts";
import { checkConfig } from "./config-check.ts";
import { engineOf } from "./engine.ts";
import { eventsOf, hearForges, pageOf } from "./forge.ts";
import { createHealth } from "./health.ts";
import { inspectAmong, mustBeOwn, mustHaveRunner, workAsNode } from "./node/nodes.ts";
import { peersOf } from "./node/peers.ts";
import { browserOf, catalogOf, mcpServersOn, sandboxOf } from "./machine.ts";
import { createKeys } from "./model-key.ts";
import { offerOf } from "./node/offer.ts";
import { isGranted, requestsOf } from "./trust.ts";
import { createProjects } from "./project.ts";
import { secretsOf, secretsOfServer } from "./secret.ts";
import { createVault, readableSecrets } from "./vault.ts";

/** Programs that stay with Tasks to look at their edits: each has its project in memory. */
const mostStaying = 8;

/** What a node that only works answers on: what operators and load balancers ask it. */
const ofNode = /^\/(?:health|metrics|nodes|node\/.*)$/;

/**
 * A running service. `createService` is the one place that composes the rooms; resources are closed in the reverse
 * order of their creation, also when the start fails.
 */

export type Service = {
  url: string;
  port: number;
  /** Where events of forges are heard. */
  forgePort: number | undefined;
  /** Where other nodes reach it. */
  peerURL: string | undefined;
  version: string;
  model: { ref: string; source: string };
  sandbox: Sandbox;
  dataDir: string;
  store: "sqlite" | "postgres";
  tasks: Tasks;
  missions: Missions;
  /** Resolves when the service finds that its data cannot be trusted and has to end. */
  failure: Promise<StartError>;
  /**
   * A promise was rejected and nobody handled it: logged, counted, and from now on the service says it is unhealthy.
   */
  unhandled(error: unknown): void;
  /**
   * Takes up nothing more; resolves when no run is left, after `limits.drainSeconds` at the latest. At once where nobody
   * else would go on meanwhile.
   */
  handOver(): Promise<void>;
  /** Stops in order: refuses requests, ends event streams, stops runs and their processes, closes the store. */
  close(): Promise<void>;
};

/**
 * Starts a service. `recorded` is called with the events that its runs commit, right after each commit. Throws a
 * `StartError`.
 */
export const createService = async (
  config: Config,
  openLog: Log,
  recorded: (events: readonly Recorded[]) => void = () => {},
  clock: Clock = createClock(),
  findSandbox: (config: Config) => Promise<Sandbox> = sandboxOf,
): Promise<Service> => {
  const { dataDir, limits, permissions } = config;
  const allowed = checkConfig(config);
  const secrets = createSecrets(secretsOf(config));
  const log = guardLog(openLog, secrets);

  const scope = new AsyncDisposableStack();
  try {
    // Most of what a sandbox is tried with are other processes, beside which the data is opened.
    let trying: Promise<Sandbox> | undefined;
    const data = scope.use(
      await openData({ ...config, version, removeTree }, log, clock, () => {
        trying = findSandbox(config);
        trying.catch(() => {});
      }),
    );
    const { now } = data;
    const worker = `${data.instance}/${randomUUID()}`;
    /** Set once projects can be inspected; nothing is committed before. */
    let webhooks: Webhooks | undefined;
    const store = onCommit(redactStore(data.store, secrets), (events) => webhooks?.heard(events));
    const sandbox = await (trying ?? findSandbox(config));
    const processes = createProcesses({
      folder: join(dataDir, "processes"),
      runID: dataDir,
      keepEnv: config.env,
      sandbox,
      envNames: config.sandbox.env,
      images: config.sandbox.containers ? { removeTree } : undefined,
      limits,
      full: (error) => data.disk.report(error),
      log,
    });
    scope.defer(() => processes.stop());
    scope.use(data.disk.onPause((pauses) => processes.hold(pauses)));
    const reaped = await processes.endLeftovers();
    for (const [task, pids] of reaped) log.warn({ task, pids }, "ended processes that an earlier run left");

    const events = eventsOf(config, sandbox);
    secrets.learn(
      "forge-secret",
      events.map(({ secret }) => secret()),
    );
    for (const [name, server] of Object.entries(config.mcpServers))
      secrets.learn(`mcp-${name}`, secretsOfServer(server));
    const repositories = createRepositories({
      dataDir,
      settings: config.repositories,
      env: config.env,
      tracker: processes.track("service"),
      learn: (tokens) => secrets.learn("repository-token", tokens),
      ...(config.author === undefined ? {} : { author: config.author }),
      ...(config.env["PATH"] === undefined ? {} : { path: config.env["PATH"] }),
      log,
    });
    const vault = createVault({
      config,
      tracker: processes.track("service"),
      addressOf: (directory) => repositories.at(directory)?.url,
      learn: (kind, values) => secrets.learn(kind, values),
    });
    // One that cannot be had is told where it is needed.
    for (const name of readableSecrets(config)) await vault.secrets([name]).catch(() => {});
    const granting = {
      granted: (project: string, digest: string, file: string) => isGranted(dataDir, project, digest, file),
      environments: vault,
    };
    const setup = config.setup && { run: config.setup.run, network: config.setup.network ? true : undefined };
    const workspaces = createWorkspaces({
      repositoryAt: (directory) => repositories.at(directory),
      dataDir,
      projectRoots: config.projectRoots,
      isProtected: protectedBy(permissions),
      processes,
      // An engine mounts no merged views, so dependency folders are copied.
      dependencies: { names: config.dependencies, tier: sandbox.container === undefined ? sandbox.tier : 2 },
      ...(config.author === undefined ? {} : { author: config.author }),
      limits,
      log,
      ...(config.env["PATH"] === undefined ? {} : { path: config.env["PATH"] }),
    });
    // For requests; a run works with what is here.
    const inspect = inspectAmong(store.nodes, {
      inspect: (directory) => workspaces.inspect(directory),
      repositories,
      chosen: () => chosenNode.getStore(),
      // Whoever named it has said that it is one of several, which may stand for other machines.
      takesOver: config.node === undefined && config.role !== "api",
    });
    const own = mustBeOwn(inspect);
    const inspectNew = mustHaveRunner(inspect, config.role, (directory) => repositories.at(directory) !== undefined);
    webhooks = scope.use(
      await createWebhooks({
        store,
        others: store.nodes,
        allowed,
        project: inspect,
        learn: (values) => secrets.learn("webhook-secret", values),
        redact: secrets.all,
        own: createReplies({ repositories, page: (url) => pageOf(events, url) ?? repositories.page }),
        instance: `${data.instance}/`,
        worker,
        log,
        now,
        wall: Date.now,
      }),
    );
    const installed = catalogOf(config, dataDir);
    const manager = createManager({
      catalog: installed,
      dataDir,
      external: Object.keys(config.agents),
      servers: Object.keys(config.mcpServers),
      inspect: (directory) => workspaces.inspect(directory),
      path: config.env["PATH"],
      shared: data.member && { squads: data.member.squads, log },
    });
    await manager.tidy();
    const catalog = followed(installed, manager.sharing);
    const squads = createSquads(store.blobs, catalog);
    const registry = createRegistry({
      others: store.nodes,
      model: config.model,
      providers: config.providers,
      env: config.env,
      failover: config.failover,
      effort: config.effort,
      limits,
      cassettes: config.cassettes,
      recorder: config.record === undefined ? undefined : createRecorder(config.record, secrets.known),
      rules: async () => (await import("../model/builtin/builtin.ts")).createBuiltinModel(config.codemods),
      log,
    });
    const slots = createSlots(Math.max(4, 2 * availableParallelism()));
    const besides = createSlots(Math.max(1, Math.floor(availableParallelism() / 2)));
    const checkResults = createCheckResults(join(dataDir, "checks"), now, log);
    const engine = scope.use(await engineOf(config, { ...data, store }, log));
    scope.use(data.disk.onPause((pauses) => engine.pause(pauses)));
    const heardOf = store.nodes?.onDue((stream, due) => engine.nudge(stream, due));
    if (heardOf !== undefined) scope.use(heardOf);
    const metrics = createMetrics({
      tasksRunning: () => engine.running((stream) => !isMission(stream)),
      missionsRunning: () => engine.running(isMission),
      waiting: () => store.waiting(),
      slotsFree: () => slots.free(),
      diskFree: data.disk.free,
      diskPause: () => (data.disk.shortage() === undefined ? 0 : 1),
      breakers: () => registry.breakers(),
      nodes: async () => (await data.member?.nodes()) ?? [],
      webhooks: () => store.webhooks.counts(),
      connections: () => ({
        ...data.connections(),
        ...(engine.connections === undefined ? {} : { engine: engine.connections() }),
      }),
    });
    const archiver = createArchiver({ store, workspaces, repositories, limits, dataDir, secrets });
    const browser = () =>
      browserBeside(
        { program: browserOf(config), bare: sandbox.tier === 1 || process.getuid?.() === 0 },
        sandbox.container,
      );
    const offering =
      data.member === undefined
        ? undefined
        : scope.use(
            await offerOf(config, {
              registry,
              catalog,
              apart: manager.sharing?.apart ?? (() => new Set()),
              tier: sandbox.tier,
              browser: () => browser().program !== undefined,
              hasSpace: data.disk.hasSpace,
            }),
          );
    const tasks = createTasks({
      ...(offering === undefined ? {} : { terms: offering.terms }),
      store,
      engine,
      workspaces,
      inspect,
      inspectNew,
      repositories,
      squads,
      resolveModel: (ref) => registry.resolve(ref),
      archive: archiver.ofTask,
      disk: data.disk,
      callback: (url) => callbackTo(url, allowed),
      captures: {
        browser,
        slots,
        network: sandbox.network,
        tier: sandbox.tier,
        environment: (state) => environmentOf({ ...granting, store, setup, processes }, state),
        processes,
      },
      defaults: { squad: config.squad, landing: config.landing },
      limits,
      log,
      now,
    });
    let retainer: ReturnType<typeof createRetention> | undefined;
    const missions = createMissions({
      store,
      engine,
      tasks,
      workspaces: { inspect, branches: (commonDir) => workspaces.branches(commonDir) },
      inspectNew,
      repositories,
      catalog,
      resolveModel: (ref) => registry.resolve(ref),
      disk: data.disk,
      callback: (url) => callbackTo(url, allowed),
      archive: archiver.ofMission,
      limits,
      production: config.production,
      log,
      now,
    });
    const heard = (events: readonly Recorded[]) => {
      metrics.recorded(events);
      for (const event of events) {
        if (event.type === "task.settled") retainer?.settled(event.stream);
        if (concernsMission(event)) void nudgeMission(event.stream);
      }
      recorded(events);
    };
    /** The Task's Mission is due since the same commit. */
    const nudgeMission = async (taskID: string): Promise<void> => {
      const task = await store.state(taskID).catch(() => undefined);
      if (task?.mission != null) engine.nudge(task.mission.sessionID, dueNow(now(), task.priority));
    };
    const suspects = await findSuspects({ store, engine, now });
    const run = {
      store,
      workspaces,
      repositories,
      models: registry,
      slots,
      engine,
      disk: data.disk,
      limits,
      permissions,
      sandbox: { tier: sandbox.tier, name: sandbox.name, network: sandbox.network },
      worker,
      recorded: heard,
      log,
      now,
    };
    const runTask = createRunTask({
      ...run,
      suspects,
      processes,
      squads,
      manager,
      externals: Object.fromEntries(Object.entries(config.agents).map(([name, agent]) => [name, { name, ...agent }])),
      besides,
      checkResults,
      mcpServers: config.mcpServers,
      diagnostics: { enabled: config.diagnostics, room: createRoom(mostStaying) },
      ...granting,
      variable(name) {
        const value = config.env[name];
        if (value !== undefined && value !== "") secrets.learn(`variable-${name}`, [value]);
        return value;
      },
      setup,
      browser,
      web: config.web.fetch ? { http: config.web.http } : undefined,
    });
    const runMission = createRunMission({
      ...run,
      tasks,
      catalog,
      setup,
      environment: (of) => environmentNow({ ...granting, setup, processes }, of),
      processes,
      browser,
      squad: config.squad,
      production: config.production,
    });

    let peerURL: string | undefined;
    const nodes = scope.use(
      workAsNode({
        ...data,
        named: config.node !== undefined,
        engine,
        workspaces,
        role: config.role,
        maxRunning: config.maxRunning,
        drainSeconds: limits.drainSeconds,
        offering,
        address: () => peerURL,
        log,
      }),
    );
    let draining = false;
    const health = createHealth({
      store,
      registry,
      sandbox,
      secrets,
      mcpServers: () => mcpServersOn(config, sandbox.container?.image.programs),
      log,
    });
    const admit = async (given: string) => {
      const { directory } = await own(given);
      return { directory, lacks: await fetchedOnce(repositories, repositories.at(directory)) };
    };
    const app = createApp({
      tasks,
      missions,
      webhooks,
      squads: { catalog, manager, admit },
      store,
      limits,
      routes: createRoutes(limits),
      auth: { username: config.username, password: config.password },
      endedSessions: join(dataDir, "ended-sessions"),
      allowedHosts: config.allowedHosts,
      allowedOrigins: config.allowedOrigins,
      loopback: isLoopback(config.host),
      health: health.read,
      nodes,
      models: () => ({ active: registry.active(), failover: [...config.failover], providers: registry.list() }),
      setKey: createKeys({ config, registry, secrets, log, changed: () => offering?.keyed() }),
      testModel: createTrials({ registry, replySeconds: limits.modelReplySeconds, redact: secrets.known }),
      ...createProjects({
        inspect,
        own,
        repositories,
        startedIn: config.startedIn,
        landing: config.landing,
        squad: config.squad,
        machine: { setup, processes },
        asked: (directory) => requestsOf(config, directory),
        overrides: (directory) => vault.of(directory) !== undefined,
        checkSeconds: limits.projectCheckSeconds,
      }),
      metrics: metrics.text,
      draining: () => draining,
      peers: peersOf(data, log),
      ...(config.role === "worker" ? { serves: (path: string) => ofNode.test(path) } : {}),
      version,
      log,
    });
    const forges = scope.use(await hearForges(config, events, { tasks, store, repositories, limits, log, now }));
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
    engine.start(async (stream, signal) => {
      using _pass = await suspects.pass(stream, signal);
      await (isMission(stream) ? runMission : runTask)(stream, signal);
    });
    scope.use(createRequestSweep({ tasks, store, workspaces, log, now }));
    const { mirrorDays: days } = config.repositories;
    scope.use(createMirrorSweep({ dataDir, repositories, store, days, log, now }));
    scope.use(createExpirySweep({ tasks, store, keepDays: limits.keepDays, log, now }));
    retainer = scope.use(createRetention({ store, workspaces, retentionHours: config.retentionHours, log, now }));
    return {
      url: server.url,
      port: server.port,
      forgePort: forges?.port,
      peerURL,
      version,
      model: registry.active(),
      sandbox,
      dataDir,
      store: store.kind,
      tasks,
      missions,
      failure: data.failure(),
      unhandled: health.unhandled,
      handOver: () => nodes.handOver(),
      async close() {
        draining = true;
        tasks.stop();
        await scope.disposeAsync();
      },
    };
  } catch (error) {
    await scope.disposeAsync();
    throw error;
  }
};
