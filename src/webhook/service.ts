import { messageOf, ServiceError } from "../error.ts";
import { newID } from "../id.ts";
import type { Log } from "../log.ts";
import type { Recorded } from "../domain/event.ts";
import {
  messageTypes,
  mostWebhooks,
  type WebhookCreate,
  type WebhookMessage,
  type WebhookPatch,
  type WebhookSecret,
  type WebhookTested,
} from "../protocol/webhook.ts";
import type { Nodes } from "../store/node.ts";
import type { Store } from "../store/store.ts";
import {
  callback,
  type Delivery,
  type DeliveryQuery,
  type SigningSecret,
  type Webhook,
} from "../store/webhook-queue.ts";
import { attempt } from "./attempt.ts";
import { createFollower } from "./follower.ts";
import { createSender, type SenderDeps } from "./sender.ts";
import { validSecrets, keyOf, newSecret, rotateSecrets } from "./signature.ts";
import { type AllowedTargets, checkTarget, shownURL, type TargetOptions } from "./target.ts";

/**
 * Webhooks: their records and secrets, and the two workers behind them. `follower.ts` reads the log, `sender.ts` sends.
 */

export type WebhooksDeps = {
  store: Store;
  /** The other nodes of this database, which are told of each change. */
  others?: Pick<Nodes, "tell" | "onTold"> | undefined;
  /** Targets that the operator allows besides public https. */
  allowed: AllowedTargets;
  way?: TargetOptions;
  /** The project of a directory; rejects with `directory_invalid` or `directory_not_allowed`. */
  project: (directory: string) => Promise<{ directory: string; project: string }>;
  /** Called with the current signing keys, so that they are redacted from everything that is written. */
  learn: (secrets: readonly string[]) => void;
  redact: (text: string) => string;
  own?: SenderDeps["own"];
  /** The prefix of `worker` that this process shares with the earlier processes of its data folder. */
  instance: string;
  worker: string;
  log: Log;
  now: () => Date;
  wall: () => number;
  random?: () => number;
};

export type Webhooks = Awaited<ReturnType<typeof createWebhooks>>;

/**
 * How often the log is looked at without a nudge, in milliseconds: for events of other processes, and after the store
 * was unavailable.
 */
const lookMs = 30_000;
/** The topic under which nodes tell each other that webhooks or secrets have changed. */
const topic = "webhooks";
const hour = 3_600_000;
const day = 24 * hour;

export const createWebhooks = async (deps: WebhooksDeps) => {
  const { store, allowed, log, project } = deps;
  const rows = store.webhooks;
  const now = () => deps.now().getTime();
  let known: readonly Webhook[] = [];
  let callbackSecrets: readonly SigningSecret[] = [];

  const learn = () =>
    deps.learn([...callbackSecrets, ...known.flatMap(({ secrets }) => secrets)].map(({ secret }) => keyOf(secret)));
  const read = async (): Promise<readonly Webhook[]> => {
    known = await rows.list();
    learn();
    return known;
  };
  const readCallbackSecrets = async (first?: string): Promise<readonly SigningSecret[]> => {
    callbackSecrets = await rows.secrets(first);
    learn();
    return callbackSecrets;
  };
  const one = async (id: string): Promise<Webhook> => {
    const found = (await read()).find((webhook) => webhook.id === id);
    if (found === undefined) throw notFound(id);
    return found;
  };
  const targetOf = (text: string): string => {
    const url = checkTarget(text, allowed);
    if (typeof url === "string") throw refusedTarget("body.url", url);
    return url.href;
  };

  const sender = createSender({
    ...deps,
    store: rows,
    webhooks: read,
    // The first process that signs creates the secret.
    callbackSecrets: () => readCallbackSecrets(newSecret()),
    now,
  });
  const follower = createFollower({
    store,
    webhooks: read,
    subscribed: () => known.some(({ state }) => state === "enabled"),
    told: sender.ask,
    log,
    now,
  });

  const tell = () => deps.others?.tell(topic, []);
  const told = async (): Promise<void> => {
    try {
      await read();
      await readCallbackSecrets();
    } catch (error) {
      log.debug({ error: messageOf(error) }, "webhooks that another node changed could not be read");
    }
    // Also for events that were committed here before this was heard.
    follower.ask();
    sender.ask();
  };

  const purge = () =>
    rows
      .purge({ delivered: now() - 7 * day, keep: 10_000, rest: now() - 30 * day })
      .catch((error: unknown) => log.warn({ error: String(error) }, "old deliveries could not be removed"));

  const timers = [setInterval(follower.ask, lookMs), setInterval(() => void purge(), hour)];
  for (const timer of timers) timer.unref();
  await rows.free(deps.instance, now());
  for (const { id, project: before, directory } of await read()) {
    // From an earlier version, which knew a repository by the path of its mirror.
    if (before === null || directory === null || !before.endsWith("/mirror.git")) continue;
    const place = await project(directory).catch(() => undefined);
    if (place !== undefined && place.project !== before) await rows.change(id, { project: place.project });
  }
  await read();
  await readCallbackSecrets();
  const listener = deps.others?.onTold(topic, () => void told());
  follower.ask();
  sender.ask();
  void purge();

  return {
    /** Called with the events of every commit of this process. */
    heard: (events: readonly Recorded[]): void => follower.heard(events),
    /** Looks for new events and due deliveries now; for tests, whose clock starts no timers. */
    wake: (): void => {
      follower.ask();
      sender.ask();
    },

    list: async (): Promise<Webhook[]> => [...(await read())],
    get: one,

    async create(body: WebhookCreate, directory: string | undefined): Promise<{ webhook: Webhook; secret: string }> {
      const url = targetOf(body.url);
      const place = directory === undefined ? undefined : await project(directory);
      const secret = newSecret();
      const at = now();
      const id = newID("hook");
      const made = {
        id,
        url,
        events: body.events === undefined ? [...messageTypes] : [...new Set(body.events)],
        project: place?.project ?? null,
        directory: place?.directory ?? null,
        description: body.description ?? "",
        state: "enabled" as const,
        reason: null,
        secrets: [{ secret, until: null }],
        created: at,
        updated: at,
      };
      if (!(await rows.add(made, mostWebhooks)))
        throw new ServiceError(
          "webhook_limit",
          `Expected fewer than ${mostWebhooks} webhooks, got ${mostWebhooks}. Delete one that is not needed.`,
        );
      const webhook = await one(id);
      tell();
      return { webhook, secret };
    },

    async update(id: string, { url, ...patch }: WebhookPatch): Promise<Webhook> {
      const { events, description, state } = patch;
      const found = await rows.change(id, {
        ...(url === undefined ? {} : { url: targetOf(url) }),
        ...(events === undefined ? {} : { events: [...new Set(events)] }),
        ...(description === undefined ? {} : { description }),
        ...(state === undefined ? {} : { state, reason: null, failingSince: null }),
        updated: now(),
      });
      if (!found) throw notFound(id);
      const changed = await one(id);
      tell();
      sender.ask();
      return changed;
    },

    async remove(id: string): Promise<void> {
      if (!(await rows.remove(id))) throw notFound(id);
      await read();
      tell();
    },

    async rotate(id: string, keepHours: number | undefined): Promise<WebhookSecret> {
      const secret = newSecret();
      const secrets = rotateSecrets((await one(id)).secrets, secret, { now: now(), keepHours });
      if (!(await rows.change(id, { secrets, updated: now() }))) throw notFound(id);
      await read();
      tell();
      return { webhookID: id, secret, until: iso(secrets[1]?.until) };
    },

    /** The secret that `callbackURL` messages are signed with; created when first needed. */
    async callbackSecret(rotate: boolean, keepHours: number | undefined): Promise<WebhookSecret> {
      const before = await readCallbackSecrets(newSecret());
      if (rotate) {
        await rows.setSecrets(rotateSecrets(before, newSecret(), { now: now(), keepHours }));
        await readCallbackSecrets();
        tell();
      }
      const [newest, older] = validSecrets(callbackSecrets, now());
      return { webhookID: callback, secret: newest?.secret ?? "", until: iso(older?.until) };
    },

    /** Sends one test message now, whatever the webhook's state, and resolves to the outcome. */
    async test(id: string, signal: AbortSignal): Promise<WebhookTested> {
      const { url, secrets } = await one(id);
      const message: WebhookMessage = {
        type: "webhook.test",
        timestamp: deps.now().toISOString(),
        data: { webhookID: id },
      };
      const post = { url, message: newID("evt"), body: JSON.stringify(message), secrets, isHeld: () => true };
      const { delivered, status, duration, reason } = await attempt(post, deps, signal);
      return { webhookID: id, delivered, status, durationMs: duration, reason };
    },

    deliveries: (query: DeliveryQuery): Promise<Delivery[]> => rows.deliveries(query),

    async redeliver(id: string): Promise<void> {
      if ((await rows.redeliver({ id }, now())) === 1) return sender.ask();
      throw new ServiceError(
        "delivery_not_found",
        `Expected a delivery that is delivered or dead, got none named ${id}.`,
      );
    },
    async redeliverSince(since: Date, webhook: string | undefined): Promise<number> {
      const count = await rows.redeliver(
        { since: since.getTime(), ...(webhook === undefined ? {} : { webhook }) },
        now(),
      );
      sender.ask();
      return count;
    },

    counts: () => rows.counts(),

    async [Symbol.asyncDispose](): Promise<void> {
      listener?.[Symbol.dispose]();
      for (const timer of timers) clearInterval(timer);
      await follower.stop();
      await sender.stop();
    },
  };
};

/**
 * Checks a Task's `callbackURL`. Returns the URL to which messages are sent, and the part that may be shown. Throws
 * `invalid_request`.
 */
export const checkCallbackURL = (text: string, allowed: AllowedTargets): { url: string; shown: string } => {
  const url = checkTarget(text, allowed);
  if (typeof url === "string") throw refusedTarget("body.callbackURL", url);
  return { url: url.href, shown: shownURL(url.href) };
};

/** A store that calls `heard` with the events of each commit. */
export const onCommit = <S extends Store>(store: S, heard: (events: readonly Recorded[]) => void): S => ({
  ...store,
  async commit(write) {
    const done = await store.commit(write);
    if (done.ok && done.recorded.length > 0) heard(done.recorded);
    return done;
  },
});

const refusedTarget = (path: string, message: string): ServiceError =>
  new ServiceError("invalid_request", `${path}: ${message}.`, { issues: [{ path, message, code: "custom" }] });

const iso = (at: number | null | undefined): string | null => (at == null ? null : new Date(at).toISOString());

const notFound = (id: string): ServiceError =>
  new ServiceError("webhook_not_found", `Expected the id of a webhook, got ${JSON.stringify(id.slice(0, 100))}.`);
