import { readFileSync, writeFileSync } from "node:fs";
import { startPostgresProxy } from "../../harness/double/postgres-proxy.ts";
import { freshDatabase, postgresURL } from "../../harness/postgres.ts";
import { startReceiver } from "../../harness/receiver.ts";
import { makeRemoteLab } from "../../harness/remote-lab.ts";
import { mountSmall } from "../../harness/small-disk.ts";
import { reply } from "./agent.ts";
import { startOwnPostgres } from "../../harness/own-postgres.ts";
import { type FaultNode, makeNode } from "./node.ts";

/**
 * Three nodes as processes, each with a data folder of its own and its own way to one PostgreSQL; repositories that git
 * serves over HTTP, a receiver of webhooks, and a model. Nothing on the disk is shared.
 */

export type Cluster = Awaited<ReturnType<typeof openCluster>>;

/** Bytes of a node's disk, where it is one that can be filled. */
const diskMiB = 128;

/** `smallDisks`: data folders on disks of their own. `fenced`: false for the control, see `no-fence.ts`. */
export const openCluster = async ({ smallDisks = false, fenced = true } = {}) => {
  const scope = new AsyncDisposableStack();
  try {
    const own = await startOwnPostgres();
    if (own !== undefined) scope.use(own);
    const url = own?.url ?? scope.use(await freshDatabase(postgresURL ?? "", {})).url;
    const receiver = scope.use(await startReceiver());
    const lab = scope.use(await makeRemoteLab("sortie-matrix-", reply));
    const nodes: FaultNode[] = [];
    for (const name of ["a", "b", "c"]) {
      const { folder, env } = lab.prepare(name);
      const disk = smallDisks ? mountSmall(folder, "tmpfs", diskMiB) : undefined;
      if (disk !== undefined) scope.use(disk);
      const config = JSON.parse(readFileSync(env.SERVICE_CONFIG, "utf8")) as object;
      const limits = { drainSeconds: 6, diskFreeBytes: 4 * 1024 ** 2, diskFreePercent: 0 };
      writeFileSync(env.SERVICE_CONFIG, JSON.stringify({ ...config, webhooks: { allow: ["127.0.0.1"] }, limits }));
      const proxy = scope.use(await startPostgresProxy(url));
      nodes.push(
        scope.use(
          makeNode({
            name,
            dataDir: folder,
            proxy,
            disk,
            fenced,
            env: {
              ...env,
              SERVICE_NODE: name,
              SERVICE_NODE_URL: "http://127.0.0.1:0",
              SERVICE_PORT: "0",
              SERVICE_DATABASE_URL: proxy.url,
              SERVICE_MAX_RUNNING: "6",
              SERVICE_LOG_LEVEL: process.env["TEST_LOG"] === undefined ? "fatal" : "debug",
            },
          }),
        ),
      );
    }
    // The first one makes the tables.
    const [first, ...others] = nodes;
    await first?.start();
    await Promise.all(others.map((node) => node.start()));
    return {
      url,
      nodes,
      host: lab.host,
      receiver,
      root: lab.root,
      /** Stops PostgreSQL, and starts it; where it is not ours, all ways to it are cut. */
      database: {
        async stop(mode: "fast" | "immediate") {
          if (own !== undefined) return own.stop(mode);
          for (const { proxy } of nodes) proxy.down();
        },
        async start() {
          if (own !== undefined) return own.start();
          for (const { proxy } of nodes) proxy.open();
        },
      },
      [Symbol.asyncDispose]: () => scope.disposeAsync(),
    };
  } catch (error) {
    await scope.disposeAsync();
    throw error;
  }
};
