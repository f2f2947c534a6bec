import type { Engine } from "../engine/engine.ts";
import { messageOf } from "../error.ts";
import type { Log } from "../log.ts";
import type { Data } from "../store/open.ts";
import type { Workspaces } from "../workspace/workspace.ts";

/** What a service does as one of several of a database: it says how it is, and removes files of what others deleted. */

const everyMs = 5_000;

type Deps = Pick<Data, "store" | "disk" | "member"> & {
  engine: Pick<Engine, "running">;
  workspaces: Pick<Workspaces, "markForRemoval" | "remove">;
  maxRunning: number;
  tier: number;
  log: Log;
};

export const workAsNode = ({
  store,
  disk,
  member,
  engine,
  workspaces,
  maxRunning,
  tier,
  log,
}: Deps): AsyncDisposable => {
  member?.report(() => {
    const running = engine.running();
    return { running, room: Math.max(0, maxRunning - running), diskFree: disk.free(), tier };
  });
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
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await sweeping;
    },
  };
};
