import { randomBytes } from "node:crypto";
import type { Client, ClientConfig } from "pg";
import type { Position } from "../../domain/event.ts";
import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import type { CommitSignal } from "../feed/follow.ts";
import { createHintQueue, type Hint, type HintQueue, unpack } from "../feed/hint.ts";
import { type Bounds, openClient, shareOf } from "./connection.ts";

/** What a process does with the hints of others, besides waking its followers. */
export type Heard = (hint: Exclude<Hint, readonly ["grown" | "erased", ...unknown[]]>) => void;

export type Hints = Pick<HintQueue, "tell" | "frame"> & { isOpen(): boolean } & AsyncDisposable;

const pollMs = 1000;

const bounds: Bounds = { statement: 5_000, lock: 5_000 };

/**
 * Hints to and from other processes of the database, by NOTIFY on a connection of its own. Within commits, NOTIFY would
 * make them wait for each other, and a listener that is stopped would hold them up for good once its queue is full.
 * Hints are lost while there is no connection, so the newest position is also read every second.
 */
export const listen = async (options: {
  /** undefined: no other process uses the database. */
  config: ClientConfig | undefined;
  channel: string;
  commits: CommitSignal;
  position: () => Promise<Position>;
  heard: Heard;
  log: Log;
}): Promise<Hints> => {
  const { config, channel, commits, position, heard, log } = options;
  const self = randomBytes(8).toString("hex");
  let client: Client | undefined;
  let closed = false;
  let connecting: Promise<void> | undefined;

  const hear = (hints: readonly Hint[]): void => {
    const grown = new Set<string>();
    const erased = new Set<string>();
    let any = false;
    for (const hint of hints) {
      if (hint[0] === "erased") erased.add(hint[1]);
      else if (hint[0] !== "grown") heard(hint);
      else if (hint[1] === null) any = true;
      else grown.add(hint[1]);
    }
    if (any || grown.size + erased.size > 0) commits.ring(any ? undefined : grown, erased);
  };

  const connect = async (to: ClientConfig): Promise<void> => {
    const next = await openClient({ ...to, ...shareOf("hints") }, bounds);
    const drop = () => {
      if (client === next) client = undefined;
    };
    next.on("error", (error) => {
      drop();
      if (!closed)
        log.warn({ error: messageOf(error) }, "notifications stopped; polling every second until they resume");
    });
    next.on("end", drop);
    next.on("notification", ({ payload }) => hear(unpack(payload ?? "", self) ?? []));
    try {
      await next.query(`listen "${channel}"`);
      client = next;
    } catch (error) {
      await next.end().catch(() => {});
      throw error;
    }
    // Hints that were sent meanwhile are lost.
    commits.ring();
  };

  const queue = createHintQueue(self, async (payloads) => {
    if (client === undefined || payloads.length === 0) return;
    const text = "select pg_notify($1, payload) from unnest($2::text[]) as payload";
    await client
      .query(text, [channel, payloads])
      .catch((error: unknown) => log.debug({ error: messageOf(error) }, "other nodes could not be notified"));
  });

  let seen: Position = -1;
  const look = async (): Promise<void> => {
    if (client === undefined && config !== undefined) await connect(config).catch(() => {});
    if (commits.listeners() === 0) return;
    const newest = await position();
    if (newest === seen) return;
    seen = newest;
    commits.ring();
  };
  if (config !== undefined) await connect(config);
  const timer = setInterval(() => {
    connecting ??= look()
      .catch(() => {})
      .finally(() => {
        connecting = undefined;
      });
  }, pollMs);

  return {
    isOpen: () => client !== undefined,
    tell(hints) {
      if (client !== undefined) queue.tell(hints);
    },
    frame(frame, after) {
      if (client !== undefined) queue.frame(frame, after);
    },
    async [Symbol.asyncDispose]() {
      closed = true;
      queue.close();
      clearInterval(timer);
      await connecting;
      await client?.end().catch(() => {});
    },
  };
};
