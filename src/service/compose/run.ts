import { availableParallelism } from "node:os";
import { join } from "node:path";
import { createCheckerSlots } from "../../check/diagnostic/diagnostics.ts";
import { isMission } from "../../domain/event.ts";
import type { Engine } from "../../engine/engine.ts";
import { createSlots } from "../../engine/slot.ts";
import { createRunMission } from "../../mission/worker/run.ts";
import { createCheckResults } from "../../store/check-result.ts";
import { environmentNow } from "../../task/worker/environment.ts";
import { createRunTask } from "../../task/worker/run.ts";
import { findSuspects } from "../../task/worker/suspects.ts";
import type { Experts } from "./expert.ts";
import type { Machine } from "./machine.ts";
import type { Projects } from "./project.ts";
import type { Work } from "./work.ts";

/** The runner that carries out a Task or Mission that is due. */

/** How many of the projects' own checkers may stay running to look at edits: each holds its project in memory. */
const mostStaying = 8;

export const createRunner = async (
  { config, secrets, log, data, store, now, worker, sandbox, processes }: Machine,
  { workspaces, repositories, surroundings }: Projects,
  { catalog, manager, squads, registry }: Experts,
  { engine, slots, browser, tasks, recorded }: Work,
): Promise<Parameters<Engine["start"]>[0]> => {
  const suspects = await findSuspects({ store, engine, now });
  const ofBoth = {
    store,
    workspaces,
    repositories,
    models: registry,
    slots,
    engine,
    disk: data.disk,
    limits: config.limits,
    permissions: config.permissions,
    sandbox: { tier: sandbox.tier, name: sandbox.name, network: sandbox.network },
    processes,
    setup: surroundings.setup,
    browser,
    worker,
    recorded,
    log,
    now,
  };
  const runTask = createRunTask({
    ...ofBoth,
    suspects,
    squads,
    manager,
    externals: Object.fromEntries(Object.entries(config.agents).map(([name, agent]) => [name, { name, ...agent }])),
    backgroundSlots: createSlots(Math.max(1, Math.floor(availableParallelism() / 2))),
    checkResults: createCheckResults(join(config.dataDir, "checks"), now, log),
    mcpServers: config.mcpServers,
    diagnostics: { enabled: config.diagnostics, room: createCheckerSlots(mostStaying) },
    granted: surroundings.granted,
    environments: surroundings.environments,
    variable(name) {
      const value = config.env[name];
      if (value !== undefined && value !== "") secrets.learn(`variable-${name}`, [value]);
      return value;
    },
    web: config.web.fetch ? { http: config.web.http } : undefined,
  });
  const runMission = createRunMission({
    ...ofBoth,
    tasks,
    catalog,
    environment: (of) => environmentNow(surroundings, of),
    squad: config.squad,
    production: config.production,
  });
  return async (stream, signal) => {
    using _pass = await suspects.pass(stream, signal);
    await (isMission(stream) ? runMission : runTask)(stream, signal);
  };
};
