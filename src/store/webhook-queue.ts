import type { Position, StreamID } from "../domain/event.ts";

/**
 * Webhooks and what is to be told to them, beside the log: the queue of the sender is here and nowhere else. Written by
 * `sql/webhook.ts`, contract suite in `test/contract/store-webhooks.test.ts`. Times are milliseconds by the caller's clock.
 */

/** What a message is signed with; `until`: replaced by a newer one, and still good for a while. */
export type SigningSecret = { secret: string; until: number | null };

export type WebhookState = "enabled" | "paused" | "disabled";

export type Webhook = {
  id: string;
  url: string;
  events: string[];
  /** Only facts of this project: its identity. */
  project: string | null;
  directory: string | null;
  description: string;
  state: WebhookState;
  /** Why it is disabled. */
  reason: string | null;
  secrets: SigningSecret[];
  since: Position;
  /** Since when no attempt succeeded. */
  failingSince: number | null;
  created: number;
  updated: number;
};

export type DeliveryState = "pending" | "delivered" | "dead";

/** The webhook of a Task's own `callbackURL`. */
export const callback = "callback";

export type NewDelivery = {
  id: string;
  webhook: string;
  target: string;
  stream: StreamID;
  /** The id of the message, the same for whoever is told of the fact. */
  message: string;
  type: string;
  position: Position;
  body: string;
};

/** What one attempt came to. `status`: null when no answer came. */
export type Attempt = { status: number | null; reason: string | null; duration: number };

export type Delivery = NewDelivery & {
  state: DeliveryState;
  attempts: number;
  dueAt: number;
  last: Attempt | null;
  created: number;
  updated: number;
};

/** `url`: where a callback goes. */
export type ClaimedDelivery = Delivery & { url: string | null };

/** `delivered`, `dead`, or pending again at a time. */
export type Verdict = Attempt & { state: DeliveryState; dueAt: number };

export type DeliveryQuery = {
  state?: DeliveryState;
  webhook?: string;
  stream?: StreamID;
  limit: number;
  /** Exclusive: the last id of the page before. */
  cursor?: string;
};

export interface Webhooks {
  /** The callbacks' secrets; `first` becomes theirs when there are none yet. */
  secrets(first?: string): Promise<SigningSecret[]>;
  setSecrets(secrets: readonly SigningSecret[]): Promise<void>;

  list(): Promise<Webhook[]>;
  /** Facts from now on are its own. False: there are `most` already. */
  add(webhook: Omit<Webhook, "since" | "failingSince">, most: number): Promise<boolean>;
  /** False: there is none of this id. */
  change(id: string, fields: Partial<Omit<Webhook, "id" | "since" | "created">>): Promise<boolean>;
  /** With everything that was to be told to it. */
  remove(id: string): Promise<boolean>;

  /** How far the log was looked through. */
  position(): Promise<Position>;
  /** All of them and the position, or nothing. What stands already stays as it is; what was erased is not told of. */
  record(deliveries: readonly NewDelivery[], through: Position, now: number): Promise<void>;

  /** At most one for each target that has none in flight, oldest first. Nobody else gets them before the lease ends. */
  claim(options: { now: number; worker: string; leaseMs: number; limit: number }): Promise<ClaimedDelivery[]>;
  /** False: it is not this worker's any more. */
  conclude(id: string, worker: string, verdict: Verdict, now: number): Promise<boolean>;
  /** Gives back what workers whose names begin so hold, with no attempt counted. */
  free(workers: string): Promise<void>;
  /** When something is due next that nobody has in hand. */
  nextDue(): Promise<number | undefined>;

  /** Newest first. */
  deliveries(query: DeliveryQuery): Promise<Delivery[]>;
  /** All that is pending for the webhook is dead, for this reason. */
  bury(webhook: string, reason: string, now: number): Promise<void>;
  /** From the beginning of the schedule, at once; the number of them. Nothing that is pending. */
  redeliver(which: { id: string } | { since: number; webhook?: string }, now: number): Promise<number>;
  counts(): Promise<Record<Exclude<DeliveryState, "delivered">, number> & Record<WebhookState, number>>;
  /** Removes delivered ones before a time and all but the newest `keep`, and what else is older than `rest`. */
  purge(options: { delivered: number; keep: number; rest: number }): Promise<void>;
}
