import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import type { Nodes } from "../node.ts";
import type { Store } from "../store.ts";

/**
 * Drops blobs that no stream names any more. Recently stored ones are kept and checked again next time. Resolves to the
 * number of dropped blobs. `goesOn`: stops the removal early when it returns false.
 */
export const removeOrphanBlobs = async (
  { orphans, blobs }: Pick<Store, "orphans" | "blobs">,
  goesOn: () => boolean = () => true,
): Promise<number> => {
  const gone: string[] = [];
  let dropped = 0;
  for (const sha256 of await orphans.find()) {
    if (!goesOn()) break;
    const end = await blobs.drop(sha256);
    if (end === "dropped") dropped += 1;
    if (end !== "young") gone.push(sha256);
  }
  await orphans.forget(gone);
  return dropped;
};

type Swept = Pick<Store, "orphans" | "blobs"> & { nodes?: Pick<Nodes, "turn"> };

/** Drops orphaned blobs now and every hour, until disposed. One node at a time does this. */
export const sweepOrphanBlobs = (store: Swept, log: Log): AsyncDisposable => {
  const stop = new AbortController();
  const sweep = async (): Promise<void> => {
    try {
      await using turn = await store.nodes?.turn("blobs");
      if (store.nodes !== undefined && turn === undefined) return;
      await store.orphans.nameBlobs(stop.signal);
      const blobs = await removeOrphanBlobs(store, () => !stop.signal.aborted && turn?.isHeld() !== false);
      if (blobs > 0) log.info({ blobs }, "removed blobs that only deleted Tasks and Missions used");
    } catch (error) {
      if (stop.signal.aborted) return;
      log.warn({ error: messageOf(error) }, "blobs that only deleted Tasks and Missions used could not be removed");
    }
  };
  let sweeping = sweep();
  const timer = setInterval(() => {
    sweeping = sweeping.then(sweep);
  }, hour);
  timer.unref();
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      clearInterval(timer);
      await sweeping;
    },
  };
};

const hour = 3_600_000;
