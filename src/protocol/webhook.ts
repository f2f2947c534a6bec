import { z } from "zod";
import { errorInfo, pendingAsk } from "./task/status.ts";
import { activity, lifecycleStatus, time } from "./field.ts";

/** Signed messages to other services (Standard Webhooks), and the routes that manage their receivers. Decision 0060. */

/** The message types that a webhook can subscribe to; each event is sent once. */
export const messageTypes = [
  "task.started",
  "task.asked",
  "task.reminded",
  "task.completed",
  "task.failed",
  "task.cancelled",
  "mission.asked",
  "mission.reminded",
  "mission.finished",
  "mission.paused",
  "mission.stalled",
  "mission.waiting",
  "mission.aborted",
] as const;

export const messageType = z.enum(messageTypes);

/** The message types sent to a stream's own `callbackURL`: its asks, stops and ends. */
export const callbackTypes: readonly MessageType[] = [
  "task.asked",
  "task.reminded",
  "task.completed",
  "task.failed",
  "task.cancelled",
  "mission.asked",
  "mission.reminded",
  "mission.finished",
  "mission.paused",
  "mission.stalled",
  "mission.waiting",
  "mission.aborted",
];

/** The largest number of webhooks that a service keeps. */
export const mostWebhooks = 50;

const url = z
  .string()
  .min(1)
  .max(2000)
  .describe("https; other targets only if the operator's `webhooks.allow` lists them");
const description = z.string().max(200);
const events = z.array(messageType).min(1).max(messageTypes.length);

export const webhookCreate = z
  .strictObject({
    url,
    events: events.optional().describe("Default: all"),
    description: description.optional(),
  })
  .meta({ id: "WebhookCreate" });

export const webhookPatch = z
  .strictObject({
    url: url.optional(),
    events: events.optional(),
    description: description.optional(),
    state: z.enum(["enabled", "paused"]).optional().describe("enabled also re-enables a disabled one"),
  })
  .refine((patch) => Object.keys(patch).length > 0, {
    error: "Expected at least one of url, events, description, state; got none",
  })
  .meta({ id: "WebhookPatch" });

/** The most hours for which a replaced secret may still sign. */
export const longestKeep = 168;

export const webhookRotate = z
  .strictObject({
    keepHours: z
      .number()
      .int()
      .min(0)
      .max(longestKeep)
      .optional()
      .describe("Hours for which messages are also signed with the old one; default 24"),
  })
  .meta({ id: "WebhookRotate" });

export const callbackSecretRequest = z
  .strictObject({
    rotate: z.boolean().optional().describe("Make a new one"),
    keepHours: z.number().int().min(0).max(longestKeep).optional().describe("With rotate; default 24"),
  })
  .meta({ id: "CallbackSecretRequest" });

export const webhookRedeliver = z
  .strictObject({
    since: time.describe("Dead deliveries created since then"),
    webhookID: z.string().optional().describe("Only for this webhook, or `callback`"),
  })
  .meta({ id: "WebhookRedeliver" });

export const webhook = z
  .object({
    webhookID: z.string(),
    url: z.string().describe("Without its query, which may be a secret"),
    events: z.array(messageType),
    directory: z.string().nullable().describe("Only for this project; null: for all"),
    description: z.string(),
    state: z.enum(["enabled", "paused", "disabled"]).describe("disabled: by the service, for `reason`"),
    reason: z.string().nullable(),
    secrets: z
      .array(z.object({ hint: z.string().describe("Its last characters"), until: time.nullable() }))
      .describe("Newest first; more than one while old ones are still used to sign"),
    failingSince: time.nullable().describe("No attempt has succeeded since then"),
    createdAt: time,
    updatedAt: time,
  })
  .meta({ id: "Webhook" });

const secret = z.string().describe("whsec_…; shown only once");

export const webhookCreated = webhook.extend({ secret }).meta({ id: "WebhookCreated" });
export const webhookSecret = z
  .object({ webhookID: z.string(), secret, until: time.nullable().describe("Until when the old one is also used") })
  .meta({ id: "WebhookSecret" });
export const webhookDeleted = z
  .object({ webhookID: z.string(), deleted: z.literal(true) })
  .meta({ id: "WebhookDeleted" });
export const webhookTested = z
  .object({
    webhookID: z.string(),
    delivered: z.boolean(),
    status: z.number().int().nullable().describe("The answer's status; null: there was none"),
    durationMs: z.number().int(),
    reason: z.string().nullable(),
  })
  .meta({ id: "WebhookTested" });

export const deliveryState = z.enum(["pending", "delivered", "dead"]);

export const delivery = z
  .object({
    deliveryID: z.string(),
    webhookID: z.string().describe("`callback`: for the Task's or Mission's own callbackURL"),
    messageID: z.string().describe("The header webhook-id"),
    type: messageType,
    taskID: z.string().nullable(),
    sessionID: z.string().nullable().describe("The session of the Mission it is about"),
    eventID: z.number().int().describe("The event in the log"),
    state: deliveryState,
    attempts: z.number().int(),
    nextAt: time.nullable().describe("Of a pending one"),
    last: z
      .object({
        status: z.number().int().nullable(),
        reason: z.string().nullable().describe("Including the beginning of the answer"),
        durationMs: z.number().int(),
      })
      .nullable(),
    createdAt: time,
    updatedAt: time,
  })
  .meta({ id: "Delivery" });

export const deliveryPage = z
  .object({ deliveries: z.array(delivery), nextCursor: z.string().nullable() })
  .meta({ id: "DeliveryPage" });

export const redelivered = z
  .object({ redelivered: z.number().int().describe("They are due now") })
  .meta({ id: "Redelivered" });

// ---- messages ------------------------------------------------------------------------------------------------------

const taskData = z.object({
  taskID: z.string(),
  missionID: z.string().optional(),
  directory: z.string(),
  title: z.string(),
  source: z.string(),
  status: activity,
  lifecycleStatus,
  attempt: z.number().int().describe("Increases with each follow-up"),
  summary: z.string().optional().describe("The Task's last message, at most 1,000 characters"),
  error: z.string().optional(),
  errorInfo: errorInfo.optional(),
  ask: pendingAsk.optional().describe("For task.asked; for task.reminded, the one that has waited longest"),
  landedCommit: z.string().nullable(),
  branch: z.string().nullable(),
  costUSD: z.number().nullable(),
  metadata: z.record(z.string(), z.json()),
  eventID: z.number().int(),
  links: z.object({ status: z.string(), board: z.string(), archive: z.string() }),
});

const missionData = z.object({
  missionID: z.string(),
  sessionID: z.string(),
  directory: z.string(),
  title: z.string(),
  outcome: z.enum(["done", "blocked", "waiting"]).optional().describe("Of mission.finished"),
  verified: z
    .boolean()
    .optional()
    .describe(
      "For the outcome done: whether its checks passed on the project's head; if it has none, whether a session that did not plan accepted the whole",
    ),
  summary: z.string().optional(),
  wakeAt: time.nullable().optional(),
  reason: z.string().optional().describe("Of mission.aborted, mission.paused, mission.stalled and mission.waiting"),
  ask: pendingAsk.optional().describe("Of mission.asked and mission.reminded"),
  costUSD: z.number().nullable(),
  metadata: z.record(z.string(), z.json()),
  eventID: z.number().int(),
  links: z.object({ status: z.string(), messages: z.string() }),
});

/** The body of a message. */
export const webhookMessage = z.union([
  z.object({
    type: messageType.extract([
      "task.started",
      "task.asked",
      "task.reminded",
      "task.completed",
      "task.failed",
      "task.cancelled",
    ]),
    timestamp: time,
    data: taskData,
  }),
  z.object({
    type: messageType.extract([
      "mission.asked",
      "mission.reminded",
      "mission.finished",
      "mission.paused",
      "mission.stalled",
      "mission.waiting",
      "mission.aborted",
    ]),
    timestamp: time,
    data: missionData,
  }),
  z.object({ type: z.literal("webhook.test"), timestamp: time, data: z.object({ webhookID: z.string() }) }),
]);

export type MessageType = z.infer<typeof messageType>;
export type WebhookMessage = z.infer<typeof webhookMessage>;
export type TaskMessageData = z.infer<typeof taskData>;
export type MissionMessageData = z.infer<typeof missionData>;
export type WebhookCreate = z.infer<typeof webhookCreate>;
export type WebhookPatch = z.infer<typeof webhookPatch>;
export type WebhookRecord = z.infer<typeof webhook>;
export type WebhookSecret = z.infer<typeof webhookSecret>;
export type WebhookTested = z.infer<typeof webhookTested>;
export type DeliveryRecord = z.infer<typeof delivery>;
