import { chosenNode } from "../../http/request/chosen-node.ts";
import { protectedBy } from "../../domain/permission/rule.ts";
import { createReplies } from "../../forge/reply.ts";
import { createRepositories } from "../../repository/service.ts";
import { createWebhooks } from "../../webhook/service.ts";
import { createWorkspaces } from "../../workspace/service.ts";
import { eventsOf, pageOf } from "../forge.ts";
import { inspectAmong, mustBeOwn, mustHaveRunner } from "../node/nodes.ts";
import { isGranted } from "../trust.ts";
import { createVault, readableSecrets } from "../vault.ts";
import type { Machine } from "./machine.ts";

/** The projects that Tasks work in, what may be used in each, and the webhooks that report outside. */

export type Projects = Awaited<ReturnType<typeof openProjects>>;

export const openProjects = async (
  { config, allowed, secrets, log, data, store, now, worker, sandbox, processes, onCommit }: Machine,
  scope: AsyncDisposableStack,
) => {
  const { dataDir, env, limits } = config;
  const path = env["PATH"] === undefined ? {} : { path: env["PATH"] };
  const author = config.author === undefined ? {} : { author: config.author };
  const tracker = processes.track("service");
  const forgeEvents = eventsOf(config, sandbox);
  secrets.learn(
    "forge-secret",
    forgeEvents.map(({ secret }) => secret()),
  );
  const repositories = createRepositories({
    dataDir,
    settings: config.repositories,
    env,
    tracker,
    learn: (tokens) => secrets.learn("repository-token", tokens),
    ...author,
    ...path,
    log,
  });
  const vault = createVault({
    config,
    tracker,
    addressOf: (directory) => repositories.at(directory)?.url,
    learn: (kind, values) => secrets.learn(kind, values),
  });
  // A secret that cannot be read now is reported when a Task needs it.
  for (const name of readableSecrets(config)) await vault.secrets([name]).catch(() => {});
  const workspaces = createWorkspaces({
    repositoryAt: (directory) => repositories.at(directory),
    dataDir,
    projectRoots: config.projectRoots,
    isProtected: protectedBy(config.permissions),
    processes,
    // A container engine mounts no merged views, so dependency folders are copied there (tier 2).
    dependencies: { names: config.dependencies, tier: sandbox.container === undefined ? sandbox.tier : 2 },
    ...author,
    limits,
    log,
    ...path,
  });
  // Inspects directories for requests, on all nodes; a run inspects only this machine.
  const inspect = inspectAmong(store.nodes, {
    inspect: (directory) => workspaces.inspect(directory),
    repositories,
    chosen: () => chosenNode.getStore(),
    // A configured name says that this service is one of several, which may run on other machines.
    takesOver: config.node === undefined && config.role !== "api",
  });
  const webhooks = scope.use(
    await createWebhooks({
      store,
      others: store.nodes,
      allowed,
      project: inspect,
      learn: (values) => secrets.learn("webhook-secret", values),
      redact: secrets.all,
      own: createReplies({ repositories, page: (url) => pageOf(forgeEvents, url) ?? repositories.page }),
      instance: `${data.instance}/`,
      worker,
      log,
      now,
      wall: Date.now,
    }),
  );
  onCommit((events) => webhooks.heard(events));
  return {
    forgeEvents,
    repositories,
    vault,
    workspaces,
    inspect,
    /** Like `inspect`, but refuses a directory of another node. */
    own: mustBeOwn(inspect),
    inspectNew: mustHaveRunner(inspect, config.role, (directory) => repositories.at(directory) !== undefined),
    webhooks,
    /** What a project's commands get in addition to their files. */
    surroundings: {
      granted: (project: string, digest: string, file: string) => isGranted(dataDir, project, digest, file),
      environments: vault,
      setup: config.setup && { run: config.setup.run, network: config.setup.network ? true : undefined },
      processes,
    },
  };
};
