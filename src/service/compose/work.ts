import { availableParallelism } from "node:os";
import { createArchiver } from "../../archive/service.ts";
import { browserForImage } from "../../check/browser/find.ts";
import { isMission, type Recorded } from "../../domain/event.ts";
import { dueNow } from "../../engine/due.ts";
import { createSlots } from "../../engine/slot.ts";
import { createMetrics } from "../../http/metrics.ts";
import { createMissions } from "../../mission/service.ts";
import { createTasks } from "../../task/service.ts";
import { concernsMission } from "../../task/wake-mission.ts";
import { environmentOf } from "../../task/worker/environment.ts";
import { createRetention } from "../../task/workspace/retention.ts";
import { checkCallbackURL } from "../../webhook/service.ts";
import { engineOf } from "../engine.ts";
import { browserOf } from "../machine.ts";
import { offerOf } from "../node/offer.ts";
import type { Experts } from "./expert.ts";
import type { Machine } from "./machine.ts";
import type { Projects } from "./project.ts";

/** Tasks and Missions for callers: what was requested, when it is due, and its results. */

export type Work = Awaited<ReturnType<typeof openWork>>;

/** `recorded`: called with the events that runs commit, right after each commit. */
export const openWork = async (
  { config, allowed, secrets, log, data, store, now, sandbox }: Machine,
  { workspaces, inspect, inspectNew, repositories, surroundings }: Projects,
  { catalog, manager, squads, registry }: Experts,
  recorded: (events: readonly Recorded[]) => void,
  scope: AsyncDisposableStack,
) => {
  const { dataDir, limits } = config;
  const engine = scope.use(await engineOf(config, { ...data, store }, log));
  scope.use(data.disk.onPause((pauses) => engine.pause(pauses)));
  const heardOf = store.nodes?.onDue((stream, due) => engine.nudge(stream, due));
  if (heardOf !== undefined) scope.use(heardOf);
  /** Slots of the processor, for checks of Tasks and everything else that takes one. */
  const slots = createSlots(Math.max(4, 2 * availableParallelism()));
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
  const browser = () =>
    browserForImage(
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
  const archiver = createArchiver({ store, workspaces, repositories, limits, dataDir, secrets });
  const ofBoth = {
    store,
    engine,
    inspectNew,
    repositories,
    resolveModel: (ref: string | undefined) => registry.resolve(ref),
    disk: data.disk,
    callback: (url: string) => checkCallbackURL(url, allowed),
    limits,
    log,
    now,
  };
  const tasks = createTasks({
    ...ofBoth,
    ...(offering === undefined ? {} : { terms: offering.terms }),
    workspaces,
    inspect,
    squads,
    archive: archiver.ofTask,
    captures: {
      browser,
      slots,
      network: sandbox.network,
      tier: sandbox.tier,
      environment: (state) => environmentOf({ ...surroundings, store }, state),
      processes: surroundings.processes,
    },
    defaults: { squad: config.squad, landing: config.landing },
  });
  const missions = createMissions({
    ...ofBoth,
    tasks,
    workspaces: { inspect, branches: (commonDir) => workspaces.branches(commonDir) },
    catalog,
    archive: archiver.ofMission,
    production: config.production,
  });
  /** Removes the worktrees of ended Tasks once their retention time is over. */
  let retainer: ReturnType<typeof createRetention> | undefined;
  /** Starts a Task's Mission, which became due in the same commit. */
  const nudgeMission = async (taskID: string): Promise<void> => {
    const task = await store.state(taskID).catch(() => undefined);
    if (task?.mission != null) engine.nudge(task.mission.sessionID, dueNow(now(), task.priority));
  };
  return {
    engine,
    slots,
    metrics,
    browser,
    offering,
    tasks,
    missions,
    /** Must be called with the events that a run commits. */
    recorded: (events: readonly Recorded[]): void => {
      metrics.recorded(events);
      for (const event of events) {
        if (event.type === "task.settled") retainer?.settled(event.stream);
        if (concernsMission(event)) void nudgeMission(event.stream);
      }
      recorded(events);
    },
    /** Begins to remove what ended Tasks leave behind. */
    retain: (): void => {
      retainer = scope.use(createRetention({ store, workspaces, retentionHours: config.retentionHours, log, now }));
    },
  };
};
