import { z } from "zod";
import { modelRef } from "../field.ts";
import { attachmentRef, blobRef, longText } from "../text.ts";

/** The facts of a conversation, a Task's and a Mission's alike: what is said, called, asked and answered. */

const effect = z.enum(["none", "log", "workspace", "unknown"]);
export const modelUsage = z.object({
  inputTokens: z.number(),
  outputTokens: z.number(),
  cacheReadTokens: z.number(),
  cacheWriteTokens: z.number(),
  costUSD: z.number().nullable(),
});

/** Why a turn could not go on: the provider's refusal, or what the embedded rules could not do. */
export const turnFailure = z.object({
  code: z.string().describe("e.g. needs_model, instruction_failed, provider_refused, budget_reached"),
  message: z.string(),
  retryable: z.boolean(),
  remedy: z.string().nullable(),
});

export const talkEvents = {
  "message.received": z.object({
    messageID: z.string(),
    sessionID: z.string(),
    source: z.string(),
    text: longText,
    attachments: z.array(attachmentRef),
    disposition: z.enum(["steered", "queued", "interrupted", "restarted"]),
  }),
  "reply.finished": z.object({
    messageID: z.string(),
    sessionID: z.string(),
    agent: z.string(),
    model: z.string(),
    /** The stream's version that the request had read; later messages are still unanswered. */
    read: z.number(),
    text: longText,
    calls: z.array(z.string()).describe("Ids of the tool calls, in order; their tool.started follow in this commit"),
    finish: z.enum(["calls", "end", "length", "failed"]),
    failure: turnFailure.nullable(),
    usage: modelUsage,
    durationMs: z.number(),
    /** The provider's own message parts (reasoning signatures and the like) to be sent back untouched. */
    provider: z.json().exactOptional(),
  }),
  "reply.retried": z.object({
    sessionID: z.string(),
    code: z.string(),
    message: z.string(),
    attempt: z.number(),
    attempts: z.number(),
    retryAt: z.iso.datetime(),
  }),
  /** The provider's quota is used up until a time far off: the Task is queued and gives its place to others. */
  "task.deferred": z.object({
    sessionID: z.string(),
    code: z.string(),
    reason: z.string(),
    until: z.iso.datetime(),
  }),
  /** Another model that the operator listed goes on with the conversation. */
  "model.switched": z.object({
    sessionID: z.string(),
    from: modelRef,
    to: modelRef,
    code: z.string(),
    reason: z.string(),
  }),
  "tool.started": z.object({
    callID: z.string(),
    sessionID: z.string(),
    tool: z.string(),
    input: z.json().describe("The arguments; {blob, head} when longer than 16 KiB"),
    effect,
  }),
  "tool.finished": z.object({
    callID: z.string(),
    sessionID: z.string(),
    tool: z.string(),
    outcome: z.enum(["ok", "error", "interrupted"]),
    output: longText.describe("What the model reads"),
    full: blobRef.exactOptional().describe("The whole text, when what the model reads is its head and tail"),
    exitCode: z.number().nullable(),
    durationMs: z.number(),
    sandbox: z.string().exactOptional(),
  }),
  /** The agent's plan, whole; the newest one counts. */
  "note.written": z.object({ sessionID: z.string(), callID: z.string(), text: z.string() }),
  /** For the model, older turns are replaced by a summary from here on; the log and the messages keep everything. */
  "conversation.compacted": z.object({
    sessionID: z.string(),
    through: z.number().describe("Version of the last reply whose turn is replaced"),
    kept: z
      .array(z.number())
      .describe("Versions of the messages up to there that stand before the summary, word for word"),
    carried: z.array(z.number()).describe("Versions of those that the model reads after it"),
    summary: longText,
    note: z.string().nullable().describe("The agent's note, as it stood"),
    before: z.number().describe("Estimated tokens of the next request"),
    after: z.number(),
    by: z.string().describe("The model that wrote the summary; `service`: the turns without their long outputs"),
    usage: modelUsage,
    durationMs: z.number(),
  }),
  /** A rule or an answer decided on a call that is not plainly allowed. */
  "permission.decided": z.object({
    callID: z.string(),
    sessionID: z.string(),
    tool: z.string(),
    subject: z.string().describe("What the rule matched: a path, a command, a host; may be cut"),
    decision: z.enum(["deny", "ask", "allow"]),
    rule: z.string(),
    origin: z.enum(["operator", "project", "default"]),
    by: z.enum(["rule", "caller", "timeout", "ended"]).describe("Whose word it is"),
  }),
  /** The project's own rules, read once, before the agents' first step; they can only narrow. */
  "permissions.read": z.object({ file: z.string(), deny: z.array(z.string()), ask: z.array(z.string()) }),
  /** The call waits for an answer, at most until `expiresAt`; then `default` stands. */
  "ask.opened": z.object({
    askID: z.string(),
    sessionID: z.string(),
    callID: z.string(),
    kind: z.enum(["permission", "question"]),
    prompt: z.string(),
    options: z.array(z.string()),
    default: z.string().nullable(),
    expiresAt: z.iso.datetime(),
  }),
  /** Exactly one for each ask. `ended`: a message, a cancel or the Task's end came instead. */
  "ask.answered": z.object({
    askID: z.string(),
    decision: z.enum(["allow", "deny"]).exactOptional(),
    answer: z.string().exactOptional(),
    by: z.enum(["caller", "timeout", "ended"]),
    source: z.string(),
  }),
  /** An external agent has a session of its own for one of ours, and continues it after a restart where it can. */
  "agent.attached": z.object({
    sessionID: z.string(),
    agent: z.string(),
    attached: z.string().describe("The agent's own id of its session"),
    about: z.string().describe("What the agent says it is: name and version"),
  }),
} as const;

export type ModelUsage = z.infer<typeof modelUsage>;
export type TurnFailure = z.infer<typeof turnFailure>;
