import type { Position, StreamID } from "../domain/event.ts";

/**
 * The port of the webhook queue: webhooks and their pending deliveries, stored next to the log and nowhere else.
 * Implemented by `sql/webhook.ts`; contract suite in `test/store/webhook-queue.test.ts`. All times are milliseconds
 * of the caller's clock.
 */

/**
 * A secret that signs messages. `until`: a newer secret has replaced this one, and both are used until then; null for
 * the current secret.
 */
export type SigningSecret = { secret: string; until: number | null };

export type WebhookState = "enabled" | "paused" | "disabled";

export type Webhook = {
  id: string;
  url: string;
  events: string[];
  /** Identity of the project whose events it gets; null for all projects. */
  project: string | null;
  directory: string | null;
  description: string;
  state: WebhookState;
  /** Why it is disabled; null if it is not. */
  reason: string | null;
  secrets: SigningSecret[];
  since: Position;
  /** Time of the first failed attempt since the last success; null if the last one succeeded. */
  failingSince: number | null;
  created: number;
  updated: number;
};

export type DeliveryState = "pending" | "delivered" | "dead";

/** The `webhook` of a delivery to a Task's own `callbackURL`. */
export const callback = "callback";

export type NewDelivery = {
  id: string;
  webhook: string;
  target: string;
  stream: StreamID;
  /** Id of the message, the same for every webhook that is notified of the event. */
  message: string;
  type: string;
  position: Position;
  body: string;
};

/** The outcome of one attempt. `status`: HTTP status, null without an answer. `duration` in milliseconds. */
export type Attempt = { status: number | null; reason: string | null; duration: number };

export type Delivery = NewDelivery & {
  state: DeliveryState;
  attempts: number;
  dueAt: number;
  last: Attempt | null;
  created: number;
  updated: number;
};

/** `url`: the address of a callback; null for a webhook's delivery, and once the callback is erased. */
export type ClaimedDelivery = Delivery & { url: string | null };

/** The new state after an attempt; `dueAt` is the time of the next one if it is `pending` again. */
export type Verdict = Attempt & { state: DeliveryState; dueAt: number };

export type DeliveryQuery = {
  state?: DeliveryState;
  webhook?: string;
  stream?: StreamID;
  limit: number;
  /** Exclusive: the last id of the previous page. */
  cursor?: string;
};

export interface Webhooks {
  /** The secrets that callbacks are signed with. If there are none yet, stores `first` as the first one. */
  secrets(first?: string): Promise<SigningSecret[]>;
  setSecrets(secrets: readonly SigningSecret[]): Promise<void>;

  list(): Promise<Webhook[]>;
  /** Adds a webhook, which gets events from now on. False: there are `most` webhooks already. */
  add(webhook: Omit<Webhook, "since" | "failingSince">, most: number): Promise<boolean>;
  /** Changes the given fields. False: there is no webhook with this id. */
  change(id: string, fields: Partial<Omit<Webhook, "id" | "since" | "created">>): Promise<boolean>;
  /** Removes a webhook and its deliveries. False: there is no webhook with this id. */
  remove(id: string): Promise<boolean>;

  /** The position up to which the log was searched for events to deliver. */
  position(): Promise<Position>;
  /**
   * Stores deliveries and the position in one transaction. A delivery that exists already stays unchanged, so repeating
   * this after a crash is harmless; a delivery for an erased stream or a removed webhook is left out.
   */
  record(deliveries: readonly NewDelivery[], through: Position, now: number): Promise<void>;

  /**
   * Leases pending deliveries that are due to a worker: at most one per target, and none for a target with one in
   * flight, oldest first. No other worker gets them before the lease ends.
   */
  claim(options: { now: number; worker: string; leaseMs: number; limit: number }): Promise<ClaimedDelivery[]>;
  /** Records an attempt and ends the lease. False: the worker no longer holds the delivery, and nothing is changed. */
  conclude(id: string, worker: string, verdict: Verdict, now: number): Promise<boolean>;
  /**
   * At the start: ends the leases of all workers whose names begin with `workers`, without counting an attempt. A
   * pending delivery that was last changed in the future, because the clock has been set back since, is due now.
   */
  free(workers: string, now: number): Promise<void>;
  /** The earliest time at which a delivery is due or a lease ends; undefined when there is none. */
  nextDue(): Promise<number | undefined>;

  /** One page of deliveries, newest first. */
  deliveries(query: DeliveryQuery): Promise<Delivery[]>;
  /** Makes all pending deliveries of the webhook `dead`, for this reason. */
  bury(webhook: string, reason: string, now: number): Promise<void>;
  /**
   * Restarts the schedule of deliveries, with the first attempt due at once; resolves to their number. With an id: that
   * one, unless it is pending. With `since`: the dead ones created at or after that time.
   */
  redeliver(which: { id: string } | { since: number; webhook?: string }, now: number): Promise<number>;
  counts(): Promise<Record<Exclude<DeliveryState, "delivered">, number> & Record<WebhookState, number>>;
  /**
   * Removes deliveries: `delivered` ones last updated before the time `delivered`, all but the newest `keep` of those,
   * and any last updated and created before the time `rest`.
   */
  purge(options: { delivered: number; keep: number; rest: number }): Promise<void>;
}
