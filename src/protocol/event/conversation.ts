import { z } from "zod";
import { approvable, effort, modelRef, would } from "../field.ts";
import { attachmentRef, blobRef, gitID, longText } from "../text.ts";

/** Events of a conversation, in a Task or a Mission: messages, replies, tool calls, asks and answers. */

const effect = z.enum(["none", "log", "workspace", "unknown"]);
export const modelUsage = z.object({
  inputTokens: z.number(),
  outputTokens: z.number(),
  cacheReadTokens: z.number(),
  cacheWriteTokens: z.number(),
  costUSD: z.number().nullable(),
});

/** Why a turn could not continue: an error of the provider, or something that the built-in model cannot do. */
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
    byUser: z
      .literal(true)
      .exactOptional()
      .describe("It came from a caller, although its source is a name that the service uses"),
    retried: z
      .enum(["agents", "service"])
      .exactOptional()
      .describe(
        "The request is repeated, with a new conversation and fresh files. `service`: a revert, which calls no model",
      ),
  }),
  "reply.finished": z.object({
    messageID: z.string(),
    sessionID: z.string(),
    agent: z.string(),
    model: z.string(),
    /** The version of the stream up to which the request had read; later messages are still unanswered. */
    read: z.number(),
    text: longText,
    calls: z.array(z.string()).describe("Ids of the tool calls, in order; their tool.started follow in this commit"),
    finish: z
      .enum(["calls", "end", "length", "empty", "failed"])
      .describe("`empty`: no text and no calls, or an announced call did not arrive; the model is asked again"),
    failure: turnFailure.nullable(),
    usage: modelUsage,
    durationMs: z.number(),
    effort: effort.exactOptional().describe("The reasoning effort, if the request named one"),
    system: blobRef
      .exactOptional()
      .describe("With the Orchestrator's first reply: its system prompt, the same in each later request of the Task"),
    before: z
      .object({ messageID: z.string(), text: z.string() })
      .exactOptional()
      .describe(
        "What the request said before this message: what landed, what else has changed since the first request",
      ),
    /** Message parts in the provider's own format (such as reasoning signatures), to be sent back unchanged. */
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
  /** The provider's quota is used up for a long time: until then the Task is queued, without a worker. */
  "task.deferred": z.object({
    sessionID: z.string(),
    code: z.string(),
    reason: z.string(),
    until: z.iso.datetime(),
  }),
  /** The conversation continues with another model of the operator's list. */
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
    full: blobRef.exactOptional().describe("The whole text, if the model reads only its head and tail"),
    exitCode: z.number().nullable(),
    durationMs: z.number(),
    sandbox: z.string().exactOptional(),
    tree: gitID
      .exactOptional()
      .describe("The tree after the call, if it may have changed files in place and there is evidence"),
    evidence: z
      .object({
        command: z.string().describe("On one line, shortened in the middle"),
        sliceID: z.string().exactOptional().describe("The slice for which the agent ran it"),
        tree: gitID.nullable().describe("The tree after the command; null: not known"),
        lastLines: z
          .string()
          .describe("Parts of the output: the first error of a failure, a test runner's counts, and the end"),
        proves: z.literal(true).exactOptional().describe("Its agent ran it with `proves`"),
        last: z.literal(true).exactOptional().describe("The exit code is that of its last command only: `a; b`"),
      })
      .exactOptional()
      .describe("Only for a command that a check or the project's manifest names, or that was run for a slice"),
  }),
  /** The agent's complete notes; the newest event counts. */
  "note.written": z.object({ sessionID: z.string(), callID: z.string(), text: z.string() }),
  /** From here on, a summary replaces older turns for the model; the log and the messages keep everything. */
  "conversation.compacted": z.object({
    sessionID: z.string(),
    through: z.number().describe("Version of the last reply whose turn is replaced"),
    kept: z.array(z.number()).describe("Versions of the earlier messages that are kept verbatim before the summary"),
    carried: z.array(z.number()).describe("Versions of the messages that the model reads after the summary"),
    summary: longText,
    note: z.string().nullable().describe("The agent's note at that time"),
    before: z.number().describe("Estimated tokens of the next request"),
    after: z.number(),
    by: z
      .string()
      .describe(
        "The model that wrote the summary; `service`: the turns, without their long outputs, or the state of a Mission",
      ),
    usage: modelUsage,
    durationMs: z.number(),
  }),
  /** A rule or an answer decided on a call that is not allowed by default. */
  "permission.decided": z.object({
    callID: z.string(),
    sessionID: z.string(),
    tool: z.string(),
    subject: z.string().describe("What the rule matched: a path, a command, a host; may be cut"),
    decision: z.enum(["deny", "ask", "allow"]),
    rule: z.string(),
    origin: z.enum(["operator", "project", "default"]),
    by: z
      .enum(["rule", "caller", "timeout", "ended"])
      .describe("What decided: a rule, a caller, a timeout, or the end of the call"),
  }),
  /** The project's own rules, read once before the agents' first step. They can only narrow the operator's. */
  "permissions.read": z.object({ file: z.string(), deny: z.array(z.string()), ask: z.array(z.string()) }),
  /**
   * The call waits for an answer, at most until `expiresAt`; then `default` applies. An approval is asked for by the
   * service, before what needs it is done.
   */
  "ask.opened": z.object({
    askID: z.string(),
    sessionID: z.string(),
    callID: z.string().nullable().describe("null for an approval"),
    kind: z.enum(["permission", "question", "approval"]),
    prompt: z.string(),
    options: z.array(z.string()),
    default: z.string().nullable(),
    expiresAt: z.iso.datetime().nullable().describe("null: it waits until it is answered"),
    of: approvable.exactOptional().describe("For an approval: what is to be approved"),
    would: would.exactOptional(),
    passesAt: z.iso
      .datetime()
      .exactOptional()
      .describe(
        "For a Mission's Task: the latest time at which the question passes from the Mission's agent to a person",
      ),
  }),
  /** Exactly one for each ask. `ended`: closed by a message, a cancel or the Task's end, or because it is void. */
  "ask.answered": z.object({
    askID: z.string(),
    decision: z.enum(["allow", "deny"]).exactOptional(),
    answer: z.string().exactOptional().describe("For an approval: why it was denied, for the agent"),
    by: z.enum(["caller", "timeout", "ended"]),
    source: z.string(),
    byUser: z.literal(true).exactOptional().describe("A person's, though its source is `mission`"),
    from: z
      .object({ user: z.string().nullable(), address: z.string() })
      .exactOptional()
      .describe("Whose credentials answered an approval (null: the service has no password), and from where"),
  }),
  /** The Mission's agent passed the ask on or did not answer it: from now on a person is asked. */
  "ask.passed": z.object({
    askID: z.string(),
    by: z.enum(["mission", "timeout"]).describe("timeout: the Mission did not answer in time"),
    expiresAt: z.iso.datetime().nullable(),
  }),
  /** A reminder was sent that these asks have waited for an answer for a long time. */
  "ask.reminded": z.object({ sessionID: z.string(), askIDs: z.array(z.string()) }),
  /** The change that is or was to be approved was moved onto another base, and is the same file by file. */
  "approval.moved": z.object({ sessionID: z.string(), askID: z.string(), commit: gitID, tree: gitID }),
  /** The session of an external agent that belongs to one of ours; it is continued after a restart if possible. */
  "agent.attached": z.object({
    sessionID: z.string(),
    agent: z.string(),
    attached: z.string().describe("The agent's own id for its session"),
    about: z.string().describe("The name and version that the agent reports"),
  }),
} as const;

export type ModelUsage = z.infer<typeof modelUsage>;
export type TurnFailure = z.infer<typeof turnFailure>;
