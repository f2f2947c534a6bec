import { hostname } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { loadOnce } from "../../async/load-once.ts";
import { isMission } from "../../domain/event.ts";
import type { Engine } from "../../engine/engine.ts";
import { messageOf, ServiceError } from "../../error.ts";
import type { Log } from "../../log.ts";
import type { Repositories } from "../../repository/repository.ts";
import {
  differing,
  type KnownDirectory,
  lastSeen,
  type ListedNode,
  type NodeList,
  type Nodes,
  type Offer,
  type Role,
  reasonNotTaken,
} from "../../store/node.ts";
import type { Data } from "../../store/open.ts";
import type { Offering } from "./offer.ts";
import type { Workspaces } from "../../workspace/workspace.ts";

/**
 * What a service does as one of several nodes of a database: reports its state, drains when it is asked to, and removes
 * files of Tasks that other nodes deleted or took over.
 */

type Inspect = Workspaces["inspect"];

/**
 * Inspects a directory for requests: looks up what was begun there on any node first, then this machine. Rejects with
 * `directory_ambiguous` when several nodes have a directory with this path and none is `chosen`.
 */
export const inspectAmong =
  (
    nodes: Nodes | undefined,
    {
      inspect,
      repositories,
      chosen,
      takesOver,
    }: {
      inspect: Inspect;
      repositories: Pick<Repositories, "at" | "local">;
      chosen: () => string | undefined;
      /** Whether this node may take over directories of a node on the same machine that has gone. */
      takesOver: boolean;
    },
  ): Inspect =>
  async (directory) => {
    if (nodes === undefined || repositories.at(directory) !== undefined) return inspect(directory);
    const path = directory.replace(/(?<!\/)\/+$/, "") || "/";
    const known = await nodes.directories(path);
    const repository = known.find((one) => one.repository !== null)?.repository;
    if (repository != null) return inspect(repositories.local(repository).directory);
    const named = chosen();
    const found = named === undefined ? (takesOver ? withoutGone(known) : known) : known.filter(isOf(named));
    if (found.length > 1)
      throw new ServiceError(
        "directory_ambiguous",
        `Expected the header x-service-node with ${path}, which several nodes have: ${found.map(({ node }) => node).join(", ")}.`,
        { details: { nodes: found.map(({ node }) => node) } },
      );
    const [one] = found;
    if (one === undefined && named !== undefined && named !== nodes.name)
      throw new ServiceError(
        "directory_invalid",
        `Expected a directory in which ${named} has started something, got ${path}.`,
      );
    if (one?.node == null || one.node === nodes.name) return inspect(directory);
    if (takesOver && named === undefined && !one.isUp && one.host === hostname()) {
      // A directory of this machine, in which a node that has gone began something.
      const own = await inspect(directory).catch(() => undefined);
      if (own !== undefined) return own;
    }
    return { directory: path, project: one.project, git: undefined, elsewhere: { node: one.node, git: one.git } };
  };

const isOf =
  (named: string) =>
  ({ node }: KnownDirectory): boolean =>
    node === named;

/** Drops nodes that have gone if another node on the same machine is up. */
const withoutGone = (known: readonly KnownDirectory[]): KnownDirectory[] => {
  const alive = new Set(known.flatMap(({ host, isUp }) => (isUp ? [host] : [])));
  return known.filter(({ host, isUp }) => isUp || !alive.has(host));
};

/** Like `inspect`, for callers that need the files: rejects with `node_away` when another node has them. */
export const mustBeOwn =
  (inspect: Inspect): Inspect =>
  async (directory) => {
    const project = await inspect(directory);
    if (project.elsewhere === undefined) return project;
    const { node } = project.elsewhere;
    throw new ServiceError("node_away", `Expected the node ${node}, which has ${project.directory}: ask it for that.`, {
      details: { node },
    });
  };

/**
 * Like `inspect`, for requests that begin something: a node that runs nothing refuses a directory that only it has,
 * because no other node could work there.
 */
export const mustHaveRunner =
  (inspect: Inspect, role: Role, isKept: (directory: string) => boolean): Inspect =>
  async (directory) => {
    const project = await inspect(directory);
    if (role === "api" && project.elsewhere === undefined && !isKept(project.directory))
      throw new ServiceError(
        "directory_invalid",
        `Expected a repository, or a directory in which another node has started something, got ${project.directory}: this node runs nothing (SERVICE_ROLE=api).`,
      );
    return project;
  };

/** At most this many Tasks that no node can take are listed. */
const mostUntaken = 20;

export type NodeWork = AsyncDisposable & {
  /** The nodes, as `GET /nodes` returns them. */
  list(): Promise<NodeList>;
  /** Makes a node drain, this one or another. Rejects with `node_not_found` or `node_away`. */
  drainNode(name: string): Promise<ListedNode>;
  /** Called before a stop: drains if the service was given a name or another node that runs Tasks is up. */
  handOver(): Promise<void>;
};

const everyMs = 5_000;
/** How long to wait for the list of other nodes before a stop. */
const hearMs = 1_000;

const unknown: Offer = { configuration: null, tier: 0, browser: false, hasSpace: true };

type Deps = Pick<Data, "store" | "disk" | "member"> & {
  /** Whether the operator gave this node a name. */
  named: boolean;
  engine: Pick<Engine, "running" | "drain" | "drains">;
  workspaces: Pick<Workspaces, "markForRemoval" | "remove">;
  role: Role;
  maxRunning: number;
  drainSeconds: number;
  /** What this node offers to Tasks that any node may take; undefined: there are no other nodes. */
  offering: Pick<Offering, "now"> | undefined;
  /** The URL at which this node answers other nodes; undefined: none, or not yet. */
  address: () => string | undefined;
  log: Log;
};

export const workAsNode = (deps: Deps): NodeWork => {
  const { store, disk, member, named, engine, workspaces, role, maxRunning, drainSeconds, offering, address, log } =
    deps;
  member?.report(() => {
    const running = engine.running();
    const draining = engine.drains();
    const room = draining || role === "api" ? 0 : Math.max(0, maxRunning - running);
    const url = address() ?? null;
    return { role, running, room, diskFree: disk.free(), draining, url, ...(offering?.now() ?? unknown) };
  });
  if (offering !== undefined) store.nodes?.offer(offering.now);

  const drain = loadOnce(async (): Promise<void> => {
    log.info({ running: engine.running() }, "this node is draining: it starts nothing new");
    await engine.drain(AbortSignal.timeout(drainSeconds * 1000));
    log.info({}, "this node is drained");
  });
  void member?.drained.then(drain);
  const self = member?.name;
  const othersWork = async (): Promise<boolean> => {
    const known = (await member?.nodes()) ?? [];
    return known.some(({ name, state, role: does }) => name !== self && state === "up" && does !== "api");
  };
  const handOver = async (): Promise<void> => {
    if (member === undefined) return;
    // A database that does not answer must not delay the stop.
    const unheard = pause(hearMs, false, { ref: false });
    if (named || (await Promise.race([othersWork().catch(() => false), unheard]))) await drain();
  };

  const { nodes } = store;
  const untaken = async (): Promise<NodeList["untaken"]> => {
    if (nodes === undefined) return [];
    const [takers, waiting] = await Promise.all([nodes.takers(), nodes.untaken()]);
    const found = [...waiting].flatMap(([taskID, terms]) => {
      const reason = isMission(taskID) ? undefined : reasonNotTaken(terms, takers);
      return reason === undefined ? [] : [{ taskID, reason }];
    });
    return found.slice(0, mostUntaken);
  };
  const list = async (): Promise<NodeList> => {
    const { configuration } = offering?.now() ?? unknown;
    const known = (await member?.nodes()) ?? [];
    const listed = known.map((node): ListedNode => {
      const { configuration: theirs, url: _url, ...shown } = node;
      return { ...shown, differs: differing(configuration, theirs) };
    });
    return { self: self ?? null, nodes: listed, untaken: await untaken() };
  };

  const sweep = async (): Promise<void> => {
    for (const stream of (await nodes?.unneeded()) ?? [])
      try {
        // The stream was taken up here again, or has not quite ended yet.
        if (engine.running((one) => one === stream) > 0) continue;
        workspaces.markForRemoval(stream);
        await workspaces.remove(stream);
        await nodes?.removed(stream);
      } catch (error) {
        log.warn(
          { stream, error: messageOf(error) },
          "files of Tasks that another node deleted or took over could not be removed",
        );
      }
  };
  let sweeping = Promise.resolve();
  const begin = (): void => {
    sweeping = sweeping.then(sweep).catch((error: unknown) => {
      log.debug({ error: messageOf(error) }, "could not read what other nodes deleted or took over");
    });
  };
  const timer = nodes === undefined ? undefined : setInterval(begin, everyMs);
  timer?.unref();
  return {
    list,
    handOver,
    async drainNode(name) {
      const known = (await list()).nodes.find((node) => node.name === name);
      if (known === undefined)
        throw new ServiceError(
          "node_not_found",
          self === undefined
            ? "This service has its database alone."
            : `Expected the name of a node of this database, got "${name}".`,
        );
      if (known.state === "stopped" || known.state === "lost")
        throw new ServiceError(
          "node_away",
          `Expected a node that is up, got ${name}, which ${lastSeen(known.seenAt)}.`,
          {
            details: { node: name, seenAt: known.seenAt, up: false },
          },
        );
      if (name === self) void drain();
      else await member?.drain(name);
      return { ...known, state: "draining" };
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await sweeping;
    },
  };
};
