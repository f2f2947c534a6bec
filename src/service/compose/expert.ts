import { createRecorder } from "../../model/replay/cassette.ts";
import { createRegistry } from "../../model/registry.ts";
import { createManager } from "../../squad/install/manager.ts";
import { syncedCatalog } from "../../squad/install/share.ts";
import { createSquads } from "../../squad/revision.ts";
import { catalogOf } from "../machine.ts";
import type { Machine } from "./machine.ts";
import type { Projects } from "./project.ts";

/** Who does the work: the squads, and the models that their agents use. */

export type Experts = Awaited<ReturnType<typeof openExperts>>;

export const openExperts = async (
  { config, secrets, log, data, store }: Machine,
  { workspaces }: Pick<Projects, "workspaces">,
) => {
  const { dataDir } = config;
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
  const catalog = syncedCatalog(installed, manager.sharing);
  const registry = createRegistry({
    others: store.nodes,
    model: config.model,
    providers: config.providers,
    env: config.env,
    failover: config.failover,
    effort: config.effort,
    limits: config.limits,
    cassettes: config.cassettes,
    recorder: config.record === undefined ? undefined : createRecorder(config.record, secrets.known),
    rules: async () => (await import("../../model/builtin/builtin.ts")).createBuiltinModel(config.codemods),
    log,
  });
  return { catalog, manager, squads: createSquads(store.blobs, catalog), registry };
};
