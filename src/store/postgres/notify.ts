import { randomBytes } from "node:crypto";
import type { Client, ClientConfig } from "pg";
import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import type { CommitSignal } from "../feed/follow.ts";
import type { Position, StreamID } from "../../domain/event.ts";
import { commitBounds, openClient } from "./connection.ts";

export type Notify = AsyncDisposable & {
  channel: string;
  /** The payload of our notifications: who sent it, and which streams were erased. */
  tell: (erased: ReadonlySet<StreamID>) => string;
};

/** A notification must be smaller than 8,000 bytes. Followers of an erased stream beyond this number notice later. */
const mostErased = 200;

const pollMs = 1000;

/**
 * Signals commits of other processes: by NOTIFY, and by polling the newest position every second, because a
 * notification is lost with its connection.
 */
export const listen = async (options: {
  config: ClientConfig;
  channel: string;
  commits: CommitSignal;
  position: () => Promise<Position>;
  log: Log;
}): Promise<Notify> => {
  const { config, channel, commits, position, log } = options;
  const self = randomBytes(8).toString("hex");
  let client: Client | undefined;
  let closed = false;
  let connecting: Promise<void> | undefined;

  const connect = async (): Promise<void> => {
    const next = await openClient(config, commitBounds);
    const drop = () => {
      if (client === next) client = undefined;
    };
    next.on("error", (error) => {
      drop();
      if (!closed) log.warn({ error: messageOf(error) }, "notifications stopped; looking every second meanwhile");
    });
    next.on("end", drop);
    next.on("notification", ({ payload }) => {
      const [from, ...erased] = (payload ?? "").split(" ");
      if (from !== self) commits.ring(undefined, new Set(erased));
    });
    try {
      await next.query(`listen "${channel}"`);
      client = next;
    } catch (error) {
      await next.end().catch(() => {});
      throw error;
    }
  };

  let seen: Position = -1;
  const look = async (): Promise<void> => {
    if (client === undefined) await connect();
    if (commits.listeners() === 0) return;
    const newest = await position();
    if (newest === seen) return;
    seen = newest;
    commits.ring();
  };
  await connect();
  const timer = setInterval(() => {
    connecting ??= look()
      .catch(() => {})
      .finally(() => {
        connecting = undefined;
      });
  }, pollMs);

  return {
    channel,
    tell: (erased) => [self, ...[...erased].slice(0, mostErased)].join(" "),
    async [Symbol.asyncDispose]() {
      closed = true;
      clearInterval(timer);
      await connecting;
      await client?.end().catch(() => {});
    },
  };
};
