import { z } from "zod";

/** Fields that many schemas share. */

export const bytes = (text: string) => new TextEncoder().encode(text).length;

export const withinBytes = (max: number) => (ctx: z.core.ParsePayload<string>) => {
  const size = bytes(ctx.value);
  if (size > max)
    ctx.issues.push({
      code: "custom",
      message: `Expected at most ${max} bytes, got ${size}`,
      input: ctx.value,
    });
};

/** A text of at most `max` bytes that is more than white space. */
export const text = (max: number) =>
  z
    .string()
    .min(1, { abort: true })
    .regex(/\S/, { error: "Expected more than white space, got nothing else" })
    .check(withinBytes(max));

/** A text with a limit in bytes; it may be empty. */
export const wordsWithin = (max: number) => z.string().check(withinBytes(max));

/** The caller's own JSON object, of at most `max` bytes. */
export const metadataWithin = (max: number) =>
  z.record(z.string(), z.json()).refine((value) => bytes(JSON.stringify(value)) <= max, {
    error: (issue) => `Expected a JSON object of at most ${max} bytes, got ${bytes(JSON.stringify(issue.input))}`,
  });

/** Limits of the service that a single Task or Mission may override. */
export const ownLimits = z
  .strictObject({
    askSeconds: z
      .number()
      .int()
      .min(0)
      .max(366 * 86_400)
      .optional()
      .describe("How long a question waits for an answer; 0 = for ever"),
  })
  .meta({ id: "OwnLimits" });

/** `ownLimits` as recorded in events. */
export const recordedLimits = z.object({ askSeconds: z.number().exactOptional() });

export type OwnLimits = z.infer<typeof recordedLimits>;

export const productPillar = z.enum(["code", "work"]);

/** The reasoning effort that a model is asked for. */
export const effort = z.enum(["none", "low", "medium", "high"]);

export type Effort = z.infer<typeof effort>;

export const priority = z.enum(["critical", "high", "normal", "low"]);

export const lifecycleStatus = z.enum(["active", "completed", "failed", "cancelled"]);

export const activity = z.enum(["running", "inactive"]);

export const phase = z.enum([
  "queued",
  "preparing",
  "planning",
  "working",
  "checking",
  "reviewing",
  "waiting",
  "landing",
  "settled",
]);

export const modelRef = z
  .templateLiteral([z.string().min(1), "/", z.string().min(1)])
  .describe("provider/model, e.g. anthropic/claude-sonnet-4-5 or builtin/rules-1");

export const time = z.iso.datetime().describe("ISO-8601, UTC, milliseconds");

/**
 * Not `z.base64()`, which decodes all files in one turn of the event loop, 40 ms at their limit; `attachmentFaults`
 * checks them file by file.
 */
const fileText = z.string().meta({
  format: "base64",
  contentEncoding: "base64",
  pattern: "^$|^(?:[0-9a-zA-Z+/]{4})*(?:(?:[0-9a-zA-Z+/]{2}==)|(?:[0-9a-zA-Z+/]{3}=))?$",
});

export const attachmentRequest = z
  .strictObject({ filename: z.string().min(1), mime: z.string().min(1), data: fileText })
  .meta({ id: "Attachment" });

export const budget = z
  .strictObject({
    maxCostUSD: z.number().positive().optional(),
    maxTokens: z.number().int().positive().optional(),
    maxSteps: z.number().int().positive().optional(),
    maxMinutes: z.number().positive().optional(),
  })
  .meta({ id: "Budget" });

/** The progress of a running operation: a count that only grows. */
export const soFar = z
  .object({
    count: z.number().int().positive(),
    unit: z.enum(["word", "line", "test"]),
  })
  .meta({ id: "SoFar" });

export type SoFar = z.infer<typeof soFar>;

/** What a Task or a Mission does or waits for. */
export const now = z
  .object({
    kind: z.enum([
      "queue",
      "space",
      "repository",
      "quota",
      "ask",
      "setup",
      "model",
      "provider",
      "tool",
      "check",
      "review",
      "work",
      "landing",
      "stop",
      "tasks",
      "time",
      "verdict",
    ]),
    text: z.string().describe("One sentence"),
    since: time.describe("When it started"),
    soFar: soFar.optional().describe("Not in the log; absent if there is nothing to count"),
    usualMs: z
      .number()
      .optional()
      .describe("How long the same step usually takes in this project; absent until it has been seen a few times"),
  })
  .meta({ id: "Now" });

export type Now = z.infer<typeof now>;

/** What may require a person's approval before it happens. */
export const approvable = z.enum(["plan", "squad", "landing"]);

export type Approvable = z.infer<typeof approvable>;

/** What an approval is for. If something else would happen, the approval is void. */
export const would = z
  .object({
    subject: z.string().describe("SHA-256 of what would happen"),
    commit: z.string().nullable().describe("For `landing`: what would land"),
    tree: z.string().nullable(),
    branch: z.string().nullable().describe("For `landing`: the branch"),
    artifactID: z.string().exactOptional().describe("For `squad`: the package with all its handbooks, as one text"),
  })
  .meta({ id: "Would" });

/**
 * Where the phases of a Mission land: each on the project's branch, or all on the Mission's own, which is merged once.
 */
export const missionLanding = z.enum(["commit", "branch"]);
export type MissionLanding = z.infer<typeof missionLanding>;

/** When the Mission's own branch is merged: when somebody asks for it, or as soon as the Mission is done. */
export const missionMerge = z.enum(["manual", "auto"]);
export type MissionMerge = z.infer<typeof missionMerge>;

/** An empty body. Many clients send `{}` with every POST. */
export const emptyBody = z.strictObject({}).meta({ id: "Nothing" });

/** A project by its address, instead of a directory. */
export const repositoryRequest = z.strictObject({
  url: z.string().min(1).max(2000).describe("Without credentials"),
  ref: z.string().min(1).max(250).optional().describe("Branch, tag or commit; default: the remote's"),
});

/** The pull request of landed work, as the forge last reported it. */
export const pullRequest = z
  .object({ url: z.string(), number: z.number().int(), state: z.enum(["open", "closed", "merged"]) })
  .meta({ id: "PullRequest" });

export const repository = z.object({
  url: z.string(),
  ref: z.string().nullable().describe("A branch, tag or commit; null: the remote's default branch"),
});
