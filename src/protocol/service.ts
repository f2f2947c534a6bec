import { z } from "zod";
import { modelUsage, turnFailure } from "./event/conversation.ts";
import { modelRef } from "./field.ts";

/** Answers about the service itself: health, models, and the test of a model. */

export const health = z
  .object({
    healthy: z.boolean(),
    version: z.string(),
    sandbox: z.object({ tier: z.number().int(), name: z.string(), network: z.boolean() }),
    model: z.object({ ref: z.string(), source: z.string() }),
    store: z.object({
      kind: z.enum(["sqlite", "postgres"]),
      ok: z.boolean().describe("Whether the store can be written"),
      reason: z.string().nullable().describe("Why not; null if it is ok"),
    }),
    providers: z
      .array(
        z.object({
          id: z.string(),
          failures: z.number().int(),
          since: z.iso.datetime().nullable(),
          retryAt: z.iso.datetime().nullable(),
        }),
      )
      .describe("Providers that failed several times in a row and are paused: since when, and until when"),
    mcpServers: z
      .array(z.object({ name: z.string(), kind: z.enum(["stdio", "http"]), problem: z.string().nullable() }))
      .describe("MCP servers of the configuration, and which of their programs are missing"),
    faults: z.number().int().describe("Unexpected errors since the start; the log has each with its stack trace"),
  })
  .meta({ id: "Health" });

export const models = z
  .object({
    active: z.object({ ref: z.string(), source: z.string() }),
    failover: z.array(z.string()).describe("Models that are asked when another cannot answer, in order"),
    providers: z.array(
      z.object({
        id: z.string(),
        kind: z.string(),
        name: z.string(),
        configured: z.boolean().describe("Whether it can be called"),
        keySource: z.string().nullable().describe("The variable's name or the file; never the key"),
        baseURL: z.string().nullable(),
        models: z.array(z.string()).describe("Names known here; others may work"),
        breaker: z
          .object({
            state: z.enum(["closed", "open", "half-open"]),
            failures: z.number().int().describe("In a row, over all Tasks"),
            since: z.iso.datetime().nullable().describe("Since when calls to it are paused"),
            retryAt: z.iso.datetime().nullable(),
          })
          .describe("open: calls are paused after failures in a row"),
      }),
    ),
  })
  .meta({ id: "Models" });

export const modelTest = z
  .strictObject({ model: modelRef.optional().describe("Default: the model in use") })
  .meta({ id: "ModelTest" });

/** A refusal never repeats the key. */
export const modelKey = z
  .strictObject({
    provider: z
      .enum(["anthropic", "openai", "google", "openrouter"], {
        error: "Expected one of anthropic, openai, google, openrouter; got another provider",
      })
      .describe("A provider with a fixed address; set up others in config.jsonc"),
    key: z.string().regex(/^[\x21-\x7e]{8,500}$/, {
      error: "Expected a key of 8 to 500 characters without spaces, got another text",
    }),
    model: z
      .string()
      .regex(/^[\w.:@/-]{1,200}$/, { error: "Expected the name of a model, got another text" })
      .optional()
      .describe(
        "The model for Tasks that name none; default: the provider's usual one, if there is no language model yet",
      ),
  })
  .meta({ id: "ModelKey" });

export const modelKeySet = z
  .object({
    provider: z.string(),
    keySource: z.string(),
    active: z.object({ ref: z.string(), source: z.string() }).describe("The model of Tasks that name none"),
  })
  .meta({ id: "ModelKeySet" });

export type ModelKey = z.infer<typeof modelKey>;
export type ModelKeySet = z.infer<typeof modelKeySet>;

/** The result of one real call. */
export const modelTrial = z
  .object({
    ref: z.string(),
    ok: z.boolean().describe("It answered and called the tool as requested"),
    firstMs: z.number().nullable().describe("Milliseconds until its first word or call"),
    totalMs: z.number(),
    usage: modelUsage,
    tools: z
      .enum(["worked", "not called", "called wrongly", "unknown"])
      .describe("Agents need tools; unknown: there was no answer"),
    text: z.string().describe("Its text; may be cut"),
    failure: turnFailure.nullable(),
  })
  .meta({ id: "ModelTrial" });

export type ModelTrial = z.infer<typeof modelTrial>;

export const node = z
  .object({
    name: z.string(),
    version: z.string(),
    host: z.string(),
    state: z
      .enum(["up", "draining", "stopped", "lost"])
      .describe("`draining`: it starts nothing new; `lost`: no report for ten seconds"),
    role: z.enum(["all", "api", "worker"]).describe("`api`: it runs nothing; `worker`: it answers only about itself"),
    running: z.number().int().describe("Runs of Tasks and Missions"),
    room: z.number().int().describe("How many more it would start"),
    diskFree: z.number().describe("On the disk of its data folder, bytes"),
    tier: z.number().int().describe("The tier of its sandbox; 1 is the strongest, 0: not yet known"),
    browser: z.boolean().describe("Whether it has a browser for visual checks"),
    hasSpace: z.boolean().describe("Whether its disk has room for a new Task"),
    differs: z
      .array(z.enum(["squads", "permissions", "providers", "limits"]))
      .describe(
        "What of its configuration differs from that of the node that answers; it does not take the same Tasks",
      ),
    startedAt: z.iso.datetime(),
    seenAt: z.iso.datetime(),
  })
  .meta({ id: "Node" });

export const nodes = z
  .object({
    self: z.string().nullable().describe("The node that answers; null if the service has its database alone"),
    nodes: z.array(node),
    untaken: z
      .array(z.object({ taskID: z.string(), reason: z.string() }))
      .describe("Tasks that no node takes, and why; at most 20"),
  })
  .meta({ id: "Nodes" });

export const blobMove = z
  .object({
    place: z.enum(["folder", "database", "s3"]).describe("Where blobs are put from now on"),
    state: z
      .enum(["kept", "moving", "moved"])
      .describe("`kept`: they stay in the data folder, because the service is on SQLite; `moved`: none is left there"),
    moved: z.number().int().describe("How many have moved since the service started"),
  })
  .meta({ id: "BlobMove" });
export type BlobsMoved = z.infer<typeof blobMove>;
