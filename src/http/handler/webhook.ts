import { isMission } from "../../domain/event.ts";
import { ServiceError } from "../../error.ts";
import { isID } from "../../id.ts";
import { quote } from "../../protocol/issue.ts";
import type { OperationID, Routes } from "../../protocol/route/table.ts";
import type { DeliveryRecord, MessageType, WebhookRecord } from "../../protocol/webhook.ts";
import type { Delivery, Webhook } from "../../store/webhook-queue.ts";
import { shownURL } from "../../webhook/target.ts";
import type { Webhooks } from "../../webhook/service.ts";
import type { Handler } from "../request/call.ts";
import type { AnswerOnce } from "../request/idempotency.ts";
import { nextLink } from "../response/link.ts";
import { json, whenGone } from "../response/response.ts";

/** The webhook routes: webhooks, their secrets and their deliveries. */

type WebhookRoute = Extract<OperationID, `webhook.${string}`>;
type Deps = { webhooks: Webhooks; answered: AnswerOnce };

const pageSize = 50;

export const createWebhookHandlers = ({ webhooks, answered }: Deps): { [ID in WebhookRoute]: Handler<Routes[ID]> } => {
  return {
    "webhook.create": ({ entry, body, directory, once }) =>
      answered(entry, once, async () => {
        const { webhook, secret } = await webhooks.create(body, directory);
        return { ...recordOf(webhook), secret };
      }),
    "webhook.list": async ({ entry }) => json(entry, 200, (await webhooks.list()).map(recordOf)),
    "webhook.get": async ({ entry, params }) => json(entry, 200, recordOf(await webhooks.get(params.webhookID))),
    "webhook.update": async ({ entry, params, body }) =>
      json(entry, 200, recordOf(await webhooks.update(params.webhookID, body))),
    "webhook.delete": async ({ entry, params }) => {
      await webhooks.remove(params.webhookID);
      return json(entry, 200, { webhookID: params.webhookID, deleted: true });
    },
    "webhook.test": ({ entry, params, once, outgoing }) => {
      const gone = whenGone(outgoing);
      return answered(entry, once, () => webhooks.test(params.webhookID, gone));
    },
    "webhook.rotate": ({ entry, params, body, once }) =>
      answered(entry, once, () => webhooks.rotate(params.webhookID, body.keepHours)),
    "webhook.callbackSecret": ({ entry, body, once }) =>
      answered(entry, once, () => webhooks.callbackSecret(body.rotate === true, body.keepHours)),

    "webhook.deliveries": async ({ entry, query, incoming }) => {
      const { limit = pageSize, state, webhookID, taskID, cursor } = query;
      if (cursor !== undefined && !isID("dlv", cursor))
        throw new ServiceError("invalid_cursor", `Expected nextCursor of the previous page, got ${quote(cursor)}.`);
      const found = await webhooks.deliveries({
        ...(state === undefined ? {} : { state }),
        ...(webhookID === undefined ? {} : { webhook: webhookID }),
        ...(taskID === undefined ? {} : { stream: taskID }),
        ...(cursor === undefined ? {} : { cursor }),
        limit: limit + 1,
      });
      const deliveries = found.slice(0, limit).map(deliveryOf);
      const nextCursor = found.length > limit ? (deliveries.at(-1)?.deliveryID ?? null) : null;
      const link = nextCursor === null ? undefined : nextLink(incoming.url ?? "", { cursor: nextCursor });
      return json(entry, 200, { deliveries, nextCursor }, link);
    },
    "webhook.redeliver": ({ entry, params, once }) =>
      answered(entry, once, async () => {
        await webhooks.redeliver(params.deliveryID);
        return { redelivered: 1 };
      }),
    "webhook.redeliverDead": ({ entry, body, once }) =>
      answered(entry, once, async () => ({
        redelivered: await webhooks.redeliverSince(new Date(body.since), body.webhookID),
      })),
  };
};

const at = (time: number): string => new Date(time).toISOString();

const recordOf = (webhook: Webhook): WebhookRecord => ({
  webhookID: webhook.id,
  url: shownURL(webhook.url),
  events: webhook.events as MessageType[],
  directory: webhook.directory,
  description: webhook.description,
  state: webhook.state,
  reason: webhook.reason,
  secrets: webhook.secrets.map(({ secret, until }) => ({
    hint: `…${secret.slice(-4)}`,
    until: until === null ? null : at(until),
  })),
  failingSince: webhook.failingSince === null ? null : at(webhook.failingSince),
  createdAt: at(webhook.created),
  updatedAt: at(webhook.updated),
});

const deliveryOf = (delivery: Delivery): DeliveryRecord => {
  const { stream, state, last } = delivery;
  return {
    deliveryID: delivery.id,
    webhookID: delivery.webhook,
    messageID: delivery.message,
    type: delivery.type as MessageType,
    taskID: isMission(stream) ? null : stream,
    sessionID: isMission(stream) ? stream : null,
    eventID: delivery.position,
    state,
    attempts: delivery.attempts,
    nextAt: state === "pending" ? at(delivery.dueAt) : null,
    last: last === null ? null : { status: last.status, reason: last.reason, durationMs: last.duration },
    createdAt: at(delivery.created),
    updatedAt: at(delivery.updated),
  };
};
