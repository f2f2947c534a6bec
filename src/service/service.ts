import { randomUUID } from "node:crypto";
import { realpath } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";
import { createArchiver } from "../archive/service.ts";
import { type Clock, createClock } from "../clock.ts";
import { type Config, isLoopback } from "../config/config.ts";
import { isMission, type Recorded } from "../domain/event.ts";
import { protectedBy } from "../domain/permission/rule.ts";
import { dueNow } from "../engine/due.ts";
import { createLocalEngine } from "../engine/in-process.ts";
import { createSlots } from "../engine/slot.ts";
import { messageOf, StartError } from "../error.ts";
import { createApp } from "../http/app.ts";
import { createMetrics } from "../http/metrics.ts";
import { listen } from "../http/listen.ts";
import { guardLog, type Log } from "../log.ts";
import { createMissions } from "../mission/service.ts";
import type { Missions } from "../mission/missions.ts";
import { createRunMission } from "../mission/worker/run.ts";
import { createRecorder } from "../model/replay/cassette.ts";
import { createRegistry } from "../model/registry.ts";
import { secretsOf } from "./secret.ts";
import { createTrials } from "../model/test-call.ts";
import { createProcesses } from "../process/service.ts";
import type { Sandbox } from "../process/sandbox/sandbox.ts";
import type { ProjectPlace } from "../protocol/task/board.ts";
import { createRoutes } from "../protocol/route/table.ts";
import { createSecrets } from "../redact.ts";
import { browserOf, catalogOf, sandboxOf } from "./machine.ts";
import { createRepositories, problemOf } from "../repository/service.ts";
import { createManager } from "../squad/install/manager.ts";
import { createSquads } from "../squad/revision.ts";
import { createCheckResults } from "../store/check-result.ts";
import { openData } from "../store/open.ts";
import { redactStore } from "../store/redacted-store.ts";
import { createRequestSweep } from "../task/operation/ended/see-request.ts";
import { createRetention } from "../task/workspace/retention.ts";
import { problemIn } from "../task/worker/project-rules.ts";
import { createRunTask } from "../task/worker/run.ts";
import { findSuspects } from "../task/worker/suspects.ts";
import { createTasks } from "../task/service.ts";
import type { Tasks } from "../task/tasks.ts";
import { parseAllowed } from "../webhook/target.ts";
import { createIntake } from "../forge/intake.ts";
import { listenForForges } from "../forge/listen.ts";
import { createReplies } from "../forge/reply.ts";
import { eventsOf, pageOf } from "./forge.ts";
import { callbackTo, createWebhooks, onCommit, type Webhooks } from "../webhook/service.ts";
import { createWorkspaces } from "../workspace/service.ts";
import type { Project } from "../workspace/workspace.ts";

/**
 * A running service. `createService` is the one place that composes the rooms; resources are closed in the reverse
 * order of their creation, also when the start fails.
 */

export type Service = {
  url: string;
  port: number;
  version: string;
  model: { ref: string; source: string };
  sandbox: Sandbox;
  dataDir: string;
  store: "sqlite" | "postgres";
  tasks: Tasks;
  missions: Missions;
  /** Resolves when the service finds that its data cannot be trusted and has to end. */
  failure: Promise<StartError>;
  /** A promise was rejected and nobody handled it: logged, counted, and from now on the service says it is unhealthy. */
  unhandled(error: unknown): void;
  /** Stops in order: refuses requests, ends event streams, stops runs and their processes, closes the store. */
  close(): Promise<void>;
};

export const version = "0.1.0";

/**
 * Starts a service. `recorded` is called with the events that its runs commit, right after each commit. Throws a
 * `StartError`.
 */
export const createService = async (
  config: Config,
  openLog: Log,
  recorded: (events: readonly Recorded[]) => void = () => {},
  now: Clock = createClock(),
): Promise<Service> => {
  const { dataDir, limits, permissions } = config;
  for (const list of ["deny", "ask", "allow"] as const) {
    const problem = problemIn(list, permissions[list]);
    if (problem !== undefined) throw new StartError(78, `${config.configPath}: permissions.${problem}.`);
  }
  const allowed = parseAllowed(config.webhooks.allow);
  if (typeof allowed === "string") throw new StartError(78, `${config.configPath}: webhooks.allow: ${allowed}.`);
  const wrong = problemOf(config.repositories, config.env);
  if (wrong !== undefined) throw new StartError(78, `${config.configPath}: repositories.${wrong}.`);
  const secrets = createSecrets(secretsOf(config));
  const log = guardLog(openLog, secrets);

  const scope = new AsyncDisposableStack();
  try {
    const data = scope.use(await openData(config, log, now));
    const worker = `${data.instance}/${randomUUID()}`;
    /** Set once projects can be inspected; nothing is committed before. */
    let webhooks: Webhooks | undefined;
    const store = onCommit(redactStore(data.store, secrets), (events) => webhooks?.heard(events));
    const sandbox = await sandboxOf(config);
    const processes = createProcesses({
      folder: join(dataDir, "processes"),
      runID: dataDir,
      keepEnv: config.env,
      sandbox,
      envNames: config.sandbox.env,
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
    const repositories = createRepositories({
      dataDir,
      settings: config.repositories,
      env: config.env,
      tracker: processes.track("service"),
      learn: (value) => secrets.learn("repository-token", [value]),
      ...(config.author === undefined ? {} : { author: config.author }),
      ...(config.env["PATH"] === undefined ? {} : { path: config.env["PATH"] }),
      log,
    });
    const workspaces = createWorkspaces({
      repositoryAt: (directory) => repositories.at(directory),
      dataDir,
      projectRoots: config.projectRoots,
      isProtected: protectedBy(permissions),
      processes,
      dependencies: { names: config.dependencies, tier: sandbox.tier },
      ...(config.author === undefined ? {} : { author: config.author }),
      limits,
      log,
      ...(config.env["PATH"] === undefined ? {} : { path: config.env["PATH"] }),
    });
    webhooks = scope.use(
      await createWebhooks({
        store,
        allowed,
        project: (directory) => workspaces.inspect(directory),
        learn: (values) => secrets.learn("webhook-secret", values),
        redact: secrets.all,
        own: createReplies({ repositories, page: (url) => pageOf(events, url) }),
        instance: `${data.instance}/`,
        worker,
        log,
        now,
        wall: Date.now,
      }),
    );
    const catalog = catalogOf(config, dataDir);
    const squads = createSquads(store.blobs, catalog);
    const manager = createManager({
      catalog,
      dataDir,
      external: Object.keys(config.agents),
      inspect: (directory) => workspaces.inspect(directory),
      path: config.env["PATH"],
    });
    await manager.tidy();
    const registry = createRegistry({
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
    const engine = scope.use(createLocalEngine({ store, maxRunning: config.maxRunning, log, now }));
    scope.use(data.disk.onPause((pauses) => engine.pause(pauses)));
    const metrics = createMetrics({
      tasksRunning: () => engine.running((stream) => !isMission(stream)),
      missionsRunning: () => engine.running(isMission),
      waiting: () => store.waiting(),
      slotsFree: () => slots.free(),
      diskFree: data.disk.free,
      diskPause: () => (data.disk.shortage() === undefined ? 0 : 1),
      breakers: () => registry.breakers(),
      webhooks: () => store.webhooks.counts(),
    });
    const archiver = createArchiver({ store, workspaces, limits, dataDir, secrets });
    const browser = () => ({
      program: browserOf(config),
      bare: sandbox.tier === 1 || process.getuid?.() === 0,
    });
    const tasks = createTasks({
      store,
      engine,
      workspaces,
      repositories,
      squads,
      resolveModel: (ref) => registry.resolve(ref),
      archive: archiver.ofTask,
      disk: data.disk,
      callback: (url) => callbackTo(url, allowed),
      captures: { browser, slots, network: sandbox.network, tier: sandbox.tier },
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
      workspaces,
      repositories,
      catalog,
      resolveModel: (ref) => registry.resolve(ref),
      disk: data.disk,
      archive: archiver.ofMission,
      production: config.production,
      log,
      now,
    });
    const running = { tier: sandbox.tier, name: sandbox.name, network: sandbox.network };
    const heard = (events: readonly Recorded[]) => {
      metrics.recorded(events);
      for (const event of events) if (event.type === "task.settled") void settled(event.stream);
      recorded(events);
    };
    /** Applies the worktree retention, and nudges the Task's Mission, which is due since the same commit. */
    const settled = async (taskID: string): Promise<void> => {
      retainer?.settled(taskID);
      const mission = (await store.state(taskID).catch(() => undefined))?.mission;
      if (mission != null) engine.nudge(mission.sessionID, dueNow(now(), "normal"));
    };
    const suspects = await findSuspects({ store, engine, now });
    const runTask = createRunTask({
      suspects,
      store,
      workspaces,
      repositories,
      processes,
      squads,
      manager,
      models: registry,
      externals: Object.fromEntries(Object.entries(config.agents).map(([name, agent]) => [name, { name, ...agent }])),
      slots,
      besides,
      checkResults,
      engine,
      disk: data.disk,
      setup: config.setup,
      browser,
      web: config.web.fetch ? { http: config.web.http } : undefined,
      limits,
      permissions,
      sandbox: running,
      worker,
      recorded: heard,
      log,
      now,
    });
    const runMission = createRunMission({
      store,
      tasks,
      workspaces,
      repositories,
      catalog,
      models: registry,
      slots,
      engine,
      disk: data.disk,
      limits,
      permissions,
      sandbox: running,
      squad: config.squad,
      production: config.production,
      worker,
      recorded: heard,
      log,
      now,
    });

    let draining = false;
    let faults = 0;
    const app = createApp({
      tasks,
      missions,
      webhooks,
      squads: { catalog, manager, admit: async (directory) => (await workspaces.inspect(directory)).directory },
      store,
      limits,
      routes: createRoutes(limits),
      auth: { username: config.username, password: config.password },
      allowedHosts: config.allowedHosts,
      allowedOrigins: config.allowedOrigins,
      loopback: isLoopback(config.host),
      health: async () => {
        const reason = await store.check().then(
          () => null,
          (error: unknown) => secrets.all(messageOf(error)),
        );
        const { tier, name, network } = sandbox;
        return {
          healthy: reason === null && faults === 0,
          version,
          sandbox: { tier, name, network },
          model: registry.active(),
          store: { kind: store.kind, ok: reason === null, reason },
          providers: registry
            .breakers()
            .flatMap(([id, { state, ...held }]) => (state === "closed" ? [] : [{ id, ...held }])),
          faults,
        };
      },
      models: () => ({ active: registry.active(), failover: [...config.failover], providers: registry.list() }),
      testModel: createTrials({ registry, replySeconds: limits.modelReplySeconds, redact: secrets.known }),
      startedIn: async () => {
        if (config.startedIn === undefined) return undefined;
        // A start folder that is no project is not an error.
        const found = await workspaces.inspect(config.startedIn).catch(() => undefined);
        return found?.git === undefined ? undefined : found.directory;
      },
      metrics: metrics.text,
      draining: () => draining,
      project: async (directory) => (await workspaces.inspect(directory)).project,
      place: async (directory) => placeOf(await workspaces.inspect(directory)),
      repository: (url, ref) => repositories.place(url, ref).directory,
      realPath: (directory) => realpath(directory).catch(() => resolve(directory)),
      version,
      log,
    });
    if (config.forgePort !== undefined) {
      const take = createIntake({ tasks, store, repositories, log, now });
      const forges = await listenForForges(
        { entries: events, take, log },
        { host: config.host, port: config.forgePort },
      );
      scope.defer(() => forges.close());
      log.info({ port: forges.port }, "events of forges are heard");
    }
    const server = await listen(app, {
      host: config.host,
      port: config.port,
      socket: config.socket,
      sameUser: config.sameUser,
    });
    scope.defer(() => server.close());
    engine.start(async (stream, signal) => {
      using _pass = await suspects.pass(stream, signal);
      await (isMission(stream) ? runMission : runTask)(stream, signal);
    });
    scope.use(createRequestSweep({ tasks, store, repositories, log, now }));
    retainer = scope.use(createRetention({ store, workspaces, retentionHours: config.retentionHours, log, now }));
    return {
      url: server.url,
      port: server.port,
      version,
      model: registry.active(),
      sandbox,
      dataDir,
      store: store.kind,
      tasks,
      missions,
      failure: data.failure(),
      unhandled(error) {
        faults += 1;
        const stack = error instanceof Error ? error.stack : undefined;
        log.error({ error: messageOf(error), stack, faults }, "an error that nobody handled; the service goes on");
      },
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

/** Where a Task works whose request does not say it. */
const placeOf = ({ directory, git }: Project): ProjectPlace => {
  const because = git === undefined ? "no_git" : git.head === null ? "no_commit" : null;
  const branch = git?.branch?.replace(/^refs\/heads\//, "") ?? null;
  return { directory, isolation: because === null ? "worktree" : "directory", because, branch };
};
