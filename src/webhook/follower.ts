import { isMission, type Position, type Recorded } from "../domain/event.ts";
import { evolve } from "../domain/task/evolve.ts";
import { evolveMission } from "../domain/mission/evolve.ts";
import type { MissionState } from "../domain/state/mission.ts";
import type { TaskState } from "../domain/state/task.ts";
import { messageOf, ServiceError } from "../error.ts";
import { newID } from "../id.ts";
import type { Log } from "../log.ts";
import { callbackTypes, type MessageType, type WebhookMessage } from "../protocol/webhook.ts";
import type { Store } from "../store/store.ts";
import { callback, type NewDelivery, type Webhook } from "../store/webhook-queue.ts";
import {
  isNotified,
  messageID,
  missionMessage,
  taskMessage,
  notifiedTypes,
  typeOf,
  type NotifiedEvent,
} from "./message.ts";

/**
 * Turns events of the log into deliveries. It looks at the log when an event of a notified type was committed; other
 * events cost nothing. The deliveries and the position up to which the log was read are written in one transaction, so
 * that no delivery is missed or made twice.
 */

export type FollowerDeps = {
  store: Pick<Store, "webhooks" | "position" | "since" | "state" | "mission" | "read">;
  /** Reads the webhooks. */
  webhooks: () => Promise<readonly Webhook[]>;
  /** Whether any webhook was enabled when they were last read. */
  subscribed: () => boolean;
  /** Called when there is something to send. */
  told: () => void;
  log: Log;
  now: () => number;
};

const pageSize = 200;
/**
 * After this many events without a delivery, the position is written anyway; up to this many are read again after a
 * crash.
 */
const unwritten = 1000;
/** The wait after the first failed look, in milliseconds; it doubles with each further failure. */
const firstRestMs = 500;
const longestRestMs = 30_000;

export const createFollower = (deps: FollowerDeps) => {
  const { store, log, now } = deps;
  let seen: Position = 0;
  let asked = false;
  let looking: Promise<void> | undefined;
  let stopped = false;
  let failures = 0;
  let timer: NodeJS.Timeout | undefined;
  const goesOn = () => !stopped;

  const look = async (): Promise<void> => {
    const written = await store.webhooks.position();
    seen = Math.max(seen, written);
    for (let unsaved = seen - written; goesOn(); ) {
      const head = await store.position();
      if (head <= seen) return;
      const page = await store.since(seen, pageSize, { types: notifiedTypes });
      const through = page.at(-1)?.position ?? head;
      // Read after the page, so that a webhook created before an event gets it.
      const deliveries = page.length === 0 ? [] : await deliveriesOf(page.filter(isNotified), await deps.webhooks());
      unsaved += through - seen;
      if (deliveries.length > 0 || unsaved >= unwritten) {
        await store.webhooks.record(deliveries, through, now());
        unsaved = 0;
      }
      seen = through;
      if (deliveries.length > 0) deps.told();
    }
  };

  const deliveriesOf = async (
    events: readonly NotifiedEvent[],
    webhooks: readonly Webhook[],
  ): Promise<NewDelivery[]> => {
    const enabled = webhooks.filter(({ state }) => state === "enabled");
    const all: NewDelivery[] = [];
    for (const event of events)
      try {
        all.push(...(await deliveriesFor(event, enabled)));
      } catch (error) {
        // The store may be able to answer later: the page is read again.
        if (error instanceof ServiceError && error.retryable) throw error;
        // An event for which no delivery can be made must not hold back the others.
        log.error(
          { stream: event.stream, position: event.position, error: messageOf(error) },
          "an event was not sent to webhooks",
        );
      }
    return all;
  };

  const deliveriesFor = async (event: NotifiedEvent, enabled: readonly Webhook[]): Promise<NewDelivery[]> => {
    const type = typeOf(event);
    if (type === undefined) return [];
    const wanting = enabled.filter(({ events, since }) => events.includes(type) && since < event.position);
    const mission = isMission(event.stream);
    const own = callbackTypes.includes(type);
    if (wanting.length === 0 && !own) return [];
    const newest = mission ? await store.mission(event.stream) : await store.state(event.stream);
    if (newest === undefined) return [];
    const address = own ? newest.callbackURL : null;
    const hooks = wanting.filter(({ project }) => project === null || project === newest.project);
    if (hooks.length === 0 && address === null) return [];
    if (await isAnsweredAtOnce(event)) return [];
    const made = mission
      ? missionMessage(event, await missionAt(event, newest as MissionState))
      : taskMessage(event, await taskAt(event, newest as TaskState));
    return made === undefined ? [] : addressed(event, type, made, hooks, address);
  };

  /**
   * Whether the ask was answered as it was opened, as for a person who changed a plan and approved it at once: nobody
   * is asked anything any more.
   */
  const isAnsweredAtOnce = async ({ type, data, stream, version, at }: NotifiedEvent): Promise<boolean> => {
    if (type !== "ask.opened" || data.kind !== "approval") return false;
    const [next] = await store.read(stream, { after: version, limit: 1 });
    return next?.type === "ask.answered" && next.data.askID === data.askID && next.at === at;
  };

  /** The fold as of the event; later events may have been committed since. */
  const taskAt = async ({ stream, version }: NotifiedEvent, newest: TaskState): Promise<TaskState> => {
    if (newest.version === version) return newest;
    const events = await store.read(stream, { limit: version });
    return events.reduce<TaskState | undefined>(evolve, undefined) ?? newest;
  };
  const missionAt = async ({ stream, version }: NotifiedEvent, newest: MissionState): Promise<MissionState> => {
    if (newest.version === version) return newest;
    const events = await store.read(stream, { limit: version });
    return events.reduce<MissionState | undefined>(evolveMission, undefined) ?? newest;
  };

  const run = async (): Promise<void> => {
    while (asked && goesOn()) {
      asked = false;
      try {
        await look();
        failures = 0;
      } catch (error) {
        if (stopped) return;
        log.warn({ error: messageOf(error) }, "the log could not be read for webhooks");
        // The position was not written, so the next look finds the events again.
        clearTimeout(timer);
        timer = setTimeout(ask, Math.min(longestRestMs, firstRestMs * 2 ** failures));
        timer.unref();
        failures += 1;
      }
    }
  };

  const ask = (): void => {
    asked = true;
    if (stopped) return;
    looking ??= run().finally(() => {
      looking = undefined;
      if (asked) ask();
    });
  };

  const hasCallback = async ({ stream }: Recorded): Promise<boolean> =>
    (await (isMission(stream) ? store.mission(stream) : store.state(stream)))?.callbackURL != null;

  return {
    ask,
    /** Called with the events that this process committed. */
    heard(events: readonly Recorded[]): void {
      const found = events.filter(isNotified);
      if (found.length === 0 || stopped) return;
      if (deps.subscribed()) return ask();
      for (const event of found) {
        const type = typeOf(event);
        if (type !== undefined && callbackTypes.includes(type))
          void hasCallback(event).then(
            (has) => has && ask(),
            () => ask(),
          );
      }
    },
    async stop(): Promise<void> {
      stopped = true;
      clearTimeout(timer);
      await looking;
    },
  };
};

const addressed = (
  event: NotifiedEvent,
  type: MessageType,
  message: WebhookMessage,
  hooks: readonly Webhook[],
  address: string | null,
): NewDelivery[] => {
  const body = JSON.stringify(message);
  const { stream, position } = event;
  const common = { stream, message: messageID(event), type, position, body };
  return [
    ...hooks.map(({ id }) => ({ ...common, id: newID("dlv"), webhook: id, target: id })),
    ...(address === null
      ? []
      : [{ ...common, id: newID("dlv"), webhook: callback, target: `${callback} ${new URL(address).origin}` }]),
  ];
};
