import { type Clock, createClock } from "../clock.ts";
import type { Config } from "../config/config.ts";
import type { Recorded } from "../domain/event.ts";
import type { StartError } from "../error.ts";
import type { Log } from "../log.ts";
import type { Missions } from "../mission/missions.ts";
import { version } from "../package-root.ts";
import type { Sandbox } from "../process/sandbox/sandbox.ts";
import { createMirrorSweep } from "../repository/sweep.ts";
import { createExpirySweep } from "../task/operation/ended/expire.ts";
import { createRequestSweep } from "../task/operation/ended/see-pull-request.ts";
import type { Tasks } from "../task/tasks.ts";
import { openExperts } from "./compose/expert.ts";
import { openFront } from "./compose/front.ts";
import { type Machine, openMachine } from "./compose/machine.ts";
import { openProjects, type Projects } from "./compose/project.ts";
import { createRunner } from "./compose/run.ts";
import { openWork, type Work } from "./compose/work.ts";
import { sandboxOf } from "./machine.ts";

/**
 * A running service. Only `createService` composes the rooms; resources are closed in the reverse order of their
 * creation, also when the start fails.
 */

export type Service = {
  url: string;
  port: number;
  /** The port that receives events of forges; undefined: it does not listen for any. */
  forgePort: number | undefined;
  /** The URL at which other nodes reach this one; undefined: they cannot. */
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
  /** Reports a rejected promise that nobody handled: it is logged and counted, and makes the service unhealthy. */
  unhandled(error: unknown): void;
  /**
   * Stops taking up work; resolves when no run is left, after `limits.drainSeconds` at the latest. Resolves at once,
   * without draining, when no other node would continue the work.
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
  log: Log,
  recorded: (events: readonly Recorded[]) => void = () => {},
  clock: Clock = createClock(),
  findSandbox: (config: Config) => Promise<Sandbox> = sandboxOf,
): Promise<Service> => {
  const scope = new AsyncDisposableStack();
  try {
    const machine = await openMachine(config, log, clock, findSandbox, scope);
    const projects = await openProjects(machine, scope);
    const experts = await openExperts(machine, projects);
    const work = await openWork(machine, projects, experts, recorded, scope);
    const runner = await createRunner(machine, projects, experts, work);
    const front = await openFront(machine, projects, experts, work, scope);
    work.engine.start(runner);
    sweep(machine, projects, work, scope);
    return {
      url: front.url,
      port: front.port,
      forgePort: front.forgePort,
      peerURL: front.peerURL,
      version,
      model: experts.registry.active(),
      sandbox: machine.sandbox,
      dataDir: config.dataDir,
      store: machine.store.kind,
      tasks: work.tasks,
      missions: work.missions,
      failure: machine.data.failure(),
      unhandled: front.unhandled,
      handOver: front.handOver,
      async close() {
        front.drain();
        await scope.disposeAsync();
      },
    };
  } catch (error) {
    await scope.disposeAsync();
    throw error;
  }
};

/** Starts the periodic removal of data that is no longer needed. */
const sweep = (
  { config, store, log, now }: Machine,
  { workspaces, repositories }: Projects,
  { tasks, retain }: Work,
  scope: AsyncDisposableStack,
): void => {
  const about = { store, log, now };
  scope.use(createRequestSweep({ ...about, tasks, workspaces }));
  const { mirrorDays: days } = config.repositories;
  scope.use(createMirrorSweep({ ...about, dataDir: config.dataDir, repositories, days }));
  scope.use(createExpirySweep({ ...about, tasks, keepDays: config.limits.keepDays }));
  retain();
};
