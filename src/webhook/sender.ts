import { messageOf } from "../error.ts";
import type { Log } from "../log.ts";
import type { ClaimedDelivery, SigningSecret, Webhook, Webhooks } from "../store/webhook-queue.ts";
import { attempt, type AttemptDeps, type Attempted } from "./attempt.ts";
import { afterFailure, longestFailing } from "./retry.ts";
import { shownURL } from "./target.ts";

/**
 * Sends deliveries that are due. The queue is in the store; this process holds only the requests under way, one per
 * target and at most `most`, each leased before it is sent. A failing target delays only its own deliveries.
 */

export type SenderDeps = AttemptDeps & {
  store: Webhooks;
  /** Reads the webhooks. */
  webhooks: () => Promise<readonly Webhook[]>;
  callbackSecrets: () => Promise<readonly SigningSecret[]>;
  worker: string;
  log: Log;
  now: () => number;
  random?: () => number;
};

/** Most requests under way. */
const most = 16;
/** Longer than an attempt and the recording of its outcome, in milliseconds. */
const leaseMs = 60_000;
/**
 * Longer than one request to a webhook or a forge takes, in milliseconds. No request begins with less left of its
 * lease.
 */
const requestMs = 31_000;
/** Longest delay of a delivery whose nudge was lost, in milliseconds. */
const longestWaitMs = 30_000;
const stopMs = 2_000;

export const createSender = (deps: SenderDeps) => {
  const { store, worker, log, now, random = Math.random } = deps;
  const flying = new Set<Promise<void>>();
  const stop = new AbortController();
  let stopped = false;
  let asked = false;
  let pumping: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;
  const wanted = () => asked && !stopped;

  const askIn = (ms: number): void => {
    clearTimeout(timer);
    if (stopped) return;
    timer = setTimeout(ask, Math.min(ms, longestWaitMs));
    timer.unref();
  };

  const pump = async (): Promise<void> => {
    while (wanted()) {
      asked = false;
      const room = most - flying.size;
      if (room <= 0) return;
      try {
        const since = now();
        const claimed = await store.claim({ now: since, worker, leaseMs, limit: room });
        if (claimed.length > 0) await begin(claimed, since + leaseMs);
        // The end of each request under way looks again; this is for deliveries that fall due in the meantime.
        const next = claimed.length > 0 ? now() : await store.nextDue();
        // A delivery that is due but was not claimed waits for another one to its target.
        if (next !== undefined) askIn(Math.max(1000, next - now()));
      } catch (error) {
        if (stopped) return;
        log.warn({ error: messageOf(error) }, "pending webhook deliveries could not be read");
        askIn(1000);
      }
    }
  };

  const begin = async (claimed: readonly ClaimedDelivery[], leased: number): Promise<void> => {
    const isHeld = () => leased - now() > requestMs;
    const webhooks = new Map((await deps.webhooks()).map((webhook) => [webhook.id, webhook]));
    const callbackSecrets = claimed.some(({ url }) => url !== null) ? await deps.callbackSecrets() : [];
    for (const delivery of claimed) {
      const webhook = webhooks.get(delivery.webhook);
      const to =
        webhook === undefined
          ? { url: delivery.url, secrets: callbackSecrets }
          : { url: webhook.url, secrets: webhook.secrets };
      const flight = deliver(delivery, webhook, { ...to, isHeld })
        .catch((error: unknown) => {
          // The lease expires, and the delivery is sent again.
          if (!stopped) log.warn({ delivery: delivery.id, error: messageOf(error) }, "a delivery was not recorded");
        })
        .finally(() => {
          flying.delete(flight);
          ask();
        });
      flying.add(flight);
    }
  };

  const deliver = async (
    delivery: ClaimedDelivery,
    webhook: Webhook | undefined,
    { url, secrets, isHeld }: { url: string | null; secrets: readonly SigningSecret[]; isHeld: () => boolean },
  ): Promise<void> => {
    // The webhook or Task was removed since the delivery was claimed, or this process was suspended for so long that
    // others may send it.
    if (url === null || !isHeld()) return;
    const { message, body } = delivery;
    const tried = await attempt({ url, message, body, secrets, isHeld }, deps, stop.signal);
    const at = now();
    const verdict = tried.delivered
      ? { state: "delivered" as const, dueAt: at }
      : afterFailure(delivery.attempts + 1, tried.answer, at, random);
    const { status, reason, duration } = tried;
    await store.conclude(delivery.id, worker, { ...verdict, status, reason, duration }, at);
    if (!tried.delivered && verdict.state === "dead")
      log.warn({ delivery: delivery.id, reason }, "a webhook delivery failed; `sortie webhook redeliver` resends it");
    if (webhook !== undefined) await judge(webhook, tried, at);
  };

  /** Updates the webhook after an attempt, and disables it when its target is gone or has failed for too long. */
  const judge = async (webhook: Webhook, { delivered, status, reason }: Attempted, at: number): Promise<void> => {
    const { id, url, failingSince } = webhook;
    if (delivered) {
      if (failingSince !== null) await store.change(id, { failingSince: null });
      return;
    }
    const since = failingSince ?? at;
    if (failingSince === null) await store.change(id, { failingSince: since });
    const why =
      status === 410
        ? "The target answered 410: it is permanently gone."
        : at - since >= longestFailing
          ? `No attempt has succeeded since ${new Date(since).toISOString()}. The last one: ${reason}`
          : undefined;
    if (why === undefined) return;
    await store.change(id, { state: "disabled", reason: why, updated: at });
    await store.bury(id, "The webhook was disabled.", at);
    log.warn(
      { webhook: id, url: shownURL(url), reason: why },
      `a webhook is disabled; fix its target, then \`sortie webhook resume ${id}\` and \`sortie webhook redeliver --since\``,
    );
  };

  function ask(): void {
    asked = true;
    if (stopped) return;
    pumping ??= pump().finally(() => {
      pumping = undefined;
      if (asked && flying.size < most) ask();
    });
  }

  return {
    /** Looks for deliveries that are due. */
    ask,
    flying: () => flying.size,
    /** Gives requests under way a moment to end; the others are due again for the next process. */
    async stop(): Promise<void> {
      stopped = true;
      clearTimeout(timer);
      await pumping;
      const over = setTimeout(() => stop.abort(new Error("The service is stopping")), stopMs);
      await Promise.allSettled(flying);
      clearTimeout(over);
      await store.free(worker, now());
    },
  };
};
