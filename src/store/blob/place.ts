import type { Log } from "../../log.ts";
import type { BlobMove, Blobs } from "../store.ts";
import { type Moving, movingFrom, type Source } from "./move.ts";
import { blobThatMayMove } from "./piece.ts";

/**
 * The blobs of a data folder. On request, and while the service runs, they move to a place where other services find
 * them.
 */

type Options = {
  folder: Blobs;
  /** The same folder, as the source of the move. */
  source: Source;
  /** Opens the place to move to; called once, when the move begins. */
  target: () => Promise<Blobs>;
  to: BlobMove["place"];
  /** The move began in an earlier run of the service, or begins with this one. */
  isBegun: boolean;
  log: Log;
};

export const placeBlobs = async (options: Options): Promise<{ blobs: Blobs; move: BlobMove } & AsyncDisposable> => {
  const { folder, source, target, to, isBegun, log } = options;
  /**
   * Writes into the folder that are under way. A move that did not wait for them would take their files for the remains
   * of a crash.
   */
  const underWay = new Set<Promise<unknown>>();
  let moving: Moving | undefined;
  let isOver = false;
  let tellOver: () => void = () => {};
  const over = new Promise<void>((resolve) => {
    tellOver = resolve;
  });
  const watch = (begun: Moving): void => {
    moving = begun;
    void begun.moved.then((whole) => {
      isOver = whole;
      if (whole) tellOver();
    });
  };
  if (isBegun) watch(await movingFrom(source, await target(), log));
  let beginning: Promise<void> | undefined;
  const begin = async (): Promise<void> => {
    let open: () => void = () => {};
    const switched = new Promise<void>((resolve) => {
      open = resolve;
    });
    const settled = switched.then(() => Promise.allSettled(underWay));
    watch(await movingFrom(source, await target(), log, settled));
    open();
  };
  const at = (): Blobs => moving?.blobs ?? folder;
  const keep = async <T>(store: (blobs: Blobs) => Promise<T>): Promise<T> => {
    if (moving !== undefined) return store(moving.blobs);
    const kept = store(folder);
    underWay.add(kept);
    try {
      return await kept;
    } finally {
      underWay.delete(kept);
    }
  };
  return {
    blobs: {
      put: (bytes, exact) => keep((blobs) => blobs.put(bytes, exact)),
      write: (pieces, exact) => keep((blobs) => blobs.write(pieces, exact)),
      async get(sha256) {
        const asked = at();
        // The move may have begun in between.
        return (await asked.get(sha256)) ?? (asked === at() ? undefined : at().get(sha256));
      },
      async read(sha256) {
        const asked = at();
        const now = async () => (asked === at() ? undefined : at().read(sha256));
        const found = await asked.read(sha256);
        return found === undefined ? now() : blobThatMayMove(found, now);
      },
      async drop(sha256) {
        const asked = at();
        const end = await asked.drop(sha256);
        return asked === at() ? end : "young";
      },
    },
    move: {
      place: to,
      async begin() {
        if (moving !== undefined) return;
        beginning ??= begin().finally(() => {
          beginning = undefined;
        });
        await beginning;
      },
      state: () => ({ moved: moving?.count() ?? 0, isOver }),
      over,
    },
    async [Symbol.asyncDispose]() {
      await beginning?.catch(() => {});
      await moving?.[Symbol.asyncDispose]();
    },
  };
};
