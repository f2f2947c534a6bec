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
      ok: z.boolean().describe("A write could be made now"),
      reason: z.string().nullable().describe("Why not; null where it is ok"),
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
      .describe("Those that failed several times in a row and are left alone: since when, and until when"),
    faults: z
      .number()
      .int()
      .describe("Errors since the start that nobody expected where they came; the log has each with its stack"),
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
        configured: z.boolean().describe("Has what it needs to be called"),
        keySource: z.string().nullable().describe("The variable's name or the file; never the key"),
        baseURL: z.string().nullable(),
        models: z.array(z.string()).describe("Names known here; others may work"),
        breaker: z
          .object({
            state: z.enum(["closed", "open", "half-open"]),
            failures: z.number().int().describe("In a row, over all Tasks"),
            since: z.iso.datetime().nullable().describe("Since when it is left alone"),
            retryAt: z.iso.datetime().nullable(),
          })
          .describe("open: after failures in a row the provider is left alone for a while"),
      }),
    ),
  })
  .meta({ id: "Models" });

export const modelTest = z
  .strictObject({ model: modelRef.optional().describe("Default: the model in use") })
  .meta({ id: "ModelTest" });

/** The result of one real call. */
export const modelTrial = z
  .object({
    ref: z.string(),
    ok: z.boolean().describe("It answered, and called the tool as it was asked to"),
    firstMs: z.number().nullable().describe("Milliseconds until its first word or call"),
    totalMs: z.number(),
    usage: modelUsage,
    tools: z
      .enum(["worked", "not called", "called wrongly", "unknown"])
      .describe("Agents cannot work without; unknown: there was no answer"),
    text: z.string().describe("What it said; may be cut"),
    failure: turnFailure.nullable(),
  })
  .meta({ id: "ModelTrial" });

export type ModelTrial = z.infer<typeof modelTrial>;
