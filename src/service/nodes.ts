import { loadOnce } from "../async/load-once.ts";
import type { Engine } from "../engine/engine.ts";
import { messageOf, ServiceError } from "../error.ts";
import type { Log } from "../log.ts";
import { lastSeen, type Node } from "../store/node.ts";
import type { Data } from "../store/open.ts";
import type { Workspaces } from "../workspace/workspace.ts";

/**
 * What a service does as one of several of a database: it says how it is, takes up nothing more when it is asked to, and
 * removes files of what others deleted.
 */

export type NodeWork = AsyncDisposable & {
  /** The nodes, as `GET /nodes` has them. */
  list(): Promise<{ self: string | null; nodes: Node[] }>;
  /** Has a node drain, this one or another. Rejects with `node_not_found` or `node_away`. */
  drainNode(name: string): Promise<Node>;
  /** Begins nothing more; resolves when no run is left, after `drainSeconds` at the latest. */
  drain(): Promise<void>;
};

const everyMs = 5_000;

type Deps = Pick<Data, "store" | "disk" | "member"> & {
  /** The name of this one. */
  name: string | undefined;
  engine: Pick<Engine, "running" | "drain" | "drains">;
  workspaces: Pick<Workspaces, "markForRemoval" | "remove">;
  maxRunning: number;
  drainSeconds: number;
  tier: number;
  log: Log;
};

export const workAsNode = (deps: Deps): NodeWork => {
  const { store, disk, member, name: self, engine, workspaces, maxRunning, drainSeconds, tier, log } = deps;
  member?.report(() => {
    const running = engine.running();
    const draining = engine.drains();
    return { running, room: draining ? 0 : Math.max(0, maxRunning - running), diskFree: disk.free(), tier, draining };
  });

  const drain = loadOnce(async (): Promise<void> => {
    log.info({ running: engine.running() }, "this node drains: it takes up nothing more");
    await engine.drain(AbortSignal.timeout(drainSeconds * 1000));
    log.info({}, "this node is drained");
  });
  void member?.drained.then(drain);

  const list = async () => ({ self: self ?? null, nodes: (await member?.nodes()) ?? [] });

  const { nodes } = store;
  const sweep = async (): Promise<void> => {
    for (const stream of (await nodes?.erased()) ?? [])
      try {
        workspaces.markForRemoval(stream);
        await workspaces.remove(stream);
        await nodes?.removed(stream);
      } catch (error) {
        log.warn({ stream, error: messageOf(error) }, "the files of what another node deleted could not be removed");
      }
  };
  let sweeping = Promise.resolve();
  const begin = (): void => {
    sweeping = sweeping.then(sweep).catch((error: unknown) => {
      log.debug({ error: messageOf(error) }, "what other nodes deleted is not known");
    });
  };
  const timer = nodes === undefined ? undefined : setInterval(begin, everyMs);
  timer?.unref();
  return {
    list,
    drain,
    async drainNode(name) {
      const known = (await list()).nodes.find((node) => node.name === name);
      if (known === undefined)
        throw new ServiceError(
          "node_not_found",
          self === undefined
            ? "This service has its database alone: it has no SERVICE_NODE."
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
