import { z } from "zod";
import { checkSpec } from "./check.ts";
import { missionEvents, productionEvents, taskMission } from "./mission.ts";
import { sliceEvents } from "./slice.ts";
import { artifactBy, errorInfo, production, squadRef } from "./status.ts";
import { budget, lifecycleStatus, modelRef, priority, productPillar } from "./task.ts";
import { attachmentRef, type BlobRef, blobRef, type LongText, longText, sha256 } from "./text.ts";

/**
 * The facts of a Task, as they stand in the log and as they go out on `GET /task/{taskID}/events`: one schema per
 * type, the TypeScript types inferred from it. Facts are only ever added; a changed meaning is a new type.
 * `Text` longer than 16 KiB is a blob named in the event, so that no event exceeds 64 KiB.
 */

const effect = z.enum(["none", "log", "workspace", "unknown"]);
const gitID = z.string().regex(/^[0-9a-f]{40,64}$/);

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

const indexEntry = z.object({ mode: z.string(), object: gitID });

/** One path of a landing. Hashes are SHA-256 of the bytes on disk (a link's target for links); null = absent. */
const landedPath = z.object({
  path: z.string().describe("Bytes that are not UTF-8 stand as lone surrogates U+DC80–U+DCFF"),
  before: z.object({ mode: z.string(), sha256 }).nullable(),
  after: z.object({ mode: z.string(), sha256, object: gitID }).nullable(),
  merged: z
    .literal(true)
    .exactOptional()
    .describe("`after` has the user's uncommitted edits too; they stay uncommitted"),
  index: z
    .object({ before: indexEntry.nullable(), after: indexEntry.nullable() })
    .exactOptional()
    .describe("Where the index does not simply go from the branch's entry to the commit's"),
});

const omission = z.object({ path: z.string(), reason: z.string() });

/** What the base of a workspace has beyond the commit that the project's branch was at. */
const snapshot = z.object({
  head: gitID.describe("The branch's commit. The base itself when nothing was uncommitted, or after a rebase"),
  untracked: z
    .union([z.array(z.string()), z.object({ blob: blobRef })])
    .describe("Paths that git did not know in the project"),
  omitted: z.array(omission).describe("What stands in the directory and is not in the base, with the reason"),
});

/** A folder that Git ignores and commands need, and how the Task's commands have it. */
const given = z.object({
  path: z.string().describe("Relative to the project's top"),
  how: z
    .enum(["layer", "read-only", "copied", "left-out"])
    .describe("layer: the user's own, what the Task writes stays in the Task"),
  reason: z.string().exactOptional().describe("Why not as a layer, or not at all"),
});

const setup = { run: z.string(), worktree: z.string().describe("Which files it was run in: made anew, it runs again") };

export const eventData = {
  "task.created": z.object({
    taskID: z.string(),
    title: z.string(),
    titleBy: z.enum(["caller", "service"]),
    request: longText,
    productPillar,
    priority,
    source: z.string(),
    directory: z.string().describe("Real path"),
    project: z.string().describe("The Git common directory's real path, else the directory's"),
    checks: z.array(checkSpec),
    attachments: z.array(attachmentRef),
    metadata: z.record(z.string(), z.json()),
    squad: squadRef,
    model: modelRef,
    isolation: z.enum(["worktree", "directory"]),
    landing: z.enum(["commit", "branch", "none"]),
    budget: budget.nullable(),
    sessionID: z.string().describe("The Orchestrator's session"),
    agent: z.string(),
    mission: taskMission.exactOptional(),
    production: production.exactOptional(),
  }),
  "task.updated": z.object({
    title: z.string().exactOptional(),
    priority: priority.exactOptional(),
    archived: z.boolean().exactOptional(),
    budget: budget.exactOptional(),
  }),
  /** A worker took the Task up: at first, after a restart of the service, after a cancel. */
  "run.started": z.object({
    worker: z.string(),
    epoch: z.number(),
    sandbox: z.object({
      tier: z.number(),
      name: z.enum(["bubblewrap", "pid-namespace", "process-group"]),
      network: z.boolean(),
    }),
    killed: z.array(z.number()).describe("Process groups of an earlier run that were still alive and were ended"),
  }),
  /** The service was stopped in good order; not a crash. */
  "run.stopped": z.object({ reason: z.string() }),
  "workspace.prepared": z.object({
    kind: z.enum(["worktree", "directory"]),
    root: z.string().describe("Where the tools work"),
    worktree: z.string().nullable(),
    branch: z.string().nullable().describe("sortie/<taskID>"),
    baseCommit: gitID.nullable(),
    baseTree: gitID.nullable(),
    targetRef: z.string().nullable().describe("refs/heads/… that the result lands on; null = keep the branch only"),
    snapshot: snapshot.exactOptional().describe("Absent when the directory held nothing but its commit"),
  }),
  /** The project's ignored dependency folders, as the Task's commands have them; again when that changes. */
  "dependencies.given": z.object({ folders: z.array(given) }),
  /** The operator's `workspace.setup`, before the first command. */
  "setup.started": z.object(setup),
  "setup.finished": z.object({
    ...setup,
    state: z.enum(["passed", "failed"]),
    exitCode: z.number().nullable(),
    durationMs: z.number(),
    log: blobRef,
    tail: z.string(),
    reason: z.string().nullable(),
  }),
  /** An external agent has a session of its own for one of ours, and continues it after a restart where it can. */
  "agent.attached": z.object({
    sessionID: z.string(),
    agent: z.string(),
    attached: z.string().describe("The agent's own id of its session"),
    about: z.string().describe("What the agent says it is: name and version"),
  }),
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
  /** A file that is kept beside the result: its bytes are the blob `sha256`. */
  "artifact.recorded": z.object({
    artifactID: z.string(),
    filename: z.string(),
    title: z.string(),
    mime: z.string(),
    bytes: z.number().int(),
    sha256,
    by: artifactBy,
    sliceID: z.string().exactOptional().describe("The delivery slice that it is evidence for"),
  }),
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
  /** 80 % of a cap is used; once for a cap, and once again when it was raised. */
  "budget.warned": z.object({ name: budget.keyof(), used: z.number(), cap: z.number() }),
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
  ...sliceEvents,
  ...missionEvents,
  ...productionEvents,
  "tree.committed": z.object({
    commit: gitID,
    tree: gitID,
    parent: gitID,
    files: z.number(),
    insertions: z.number(),
    deletions: z.number(),
    /** Entries left out because they cannot be in a commit, with the reason. */
    omitted: z.array(omission),
  }),
  /** The request names no checks: the project's own commands, which tell and do not decide. */
  "checks.found": z.object({ checks: z.array(checkSpec) }),
  "check.started": z.object({
    checkID: z.string(),
    on: z.enum(["base", "work"]),
    round: z.number(),
    commit: gitID.nullable(),
    tree: gitID.nullable(),
  }),
  "check.finished": z.object({
    checkID: z.string(),
    on: z.enum(["base", "work"]),
    round: z.number(),
    commit: gitID.nullable(),
    tree: gitID.nullable(),
    state: z.enum(["passed", "failed", "error"]),
    exitCode: z.number().nullable(),
    durationMs: z.number(),
    log: blobRef,
    tail: z.string().describe("The last lines of the output"),
    reason: z.string().nullable().describe("Why it did not pass: exit code, time-out, output does not match"),
    redefined: z
      .array(z.string())
      .exactOptional()
      .describe("What defines it and the Task changed: it also ran with that as it was before, and both count"),
    flaky: z.literal(true).exactOptional().describe("It failed, and passed when it was run once more on the same tree"),
  }),
  /** The same change on the head of the project's branch, without anything uncommitted. The checks run again. */
  "workspace.rebased": z.object({
    baseCommit: gitID,
    baseTree: gitID,
    commit: gitID,
    tree: gitID,
    left: z.array(z.string()).exactOptional().describe("Changes to what is uncommitted alone: no commit can hold them"),
  }),
  /** The project changed the same places: the change went back to the agent, on top of a new snapshot. */
  "landing.conflicted": z.object({
    round: z.number(),
    paths: z.array(z.string()),
    baseCommit: gitID,
    baseTree: gitID,
    snapshot: snapshot.exactOptional(),
    commit: gitID.describe("The change on the new base, with conflict markers where both sides changed the same"),
    tree: gitID,
  }),
  /** The point of no return: from here on the landing is only rolled forward. */
  "landing.started": z.object({
    commit: gitID,
    tree: gitID,
    from: gitID,
    ref: z.string(),
    paths: z.union([z.array(landedPath), z.object({ blob: blobRef })]),
  }),
  /** The branch moved under the landing before the ref was taken; everything is as before. */
  "landing.withdrawn": z.object({ reason: z.string() }),
  "landing.finished": z.object({
    commit: gitID,
    tree: gitID,
    ref: z.string(),
    /** Paths that the user had edited in between: their bytes stay, as an edit on top of the commit. */
    kept: z.array(z.string()),
    /** Paths with uncommitted edits of the user's, which the change was merged with. */
    merged: z.array(z.string()).exactOptional(),
  }),
  /** What git runs programs by was changed while a command of this Task ran: the Task ends. */
  "git.tampered": z.object({
    files: z.array(
      z.object({
        path: z.string(),
        change: z.enum(["added", "changed", "removed"]),
        restored: z.boolean().describe("It is again as it was before the command"),
        kept: z.string().nullable().describe("Where that which was found is kept"),
      }),
    ),
  }),
  "cancel.requested": z.object({ surface: z.string(), reason: z.string(), mode: z.enum(["stop", "wrap_up"]) }),
  "task.settled": z.object({
    lifecycleStatus: lifecycleStatus.exclude(["active"]),
    summary: longText,
    error: z.string().exactOptional(),
    errorInfo: errorInfo.exactOptional(),
  }),
} as const;

export type EventType = keyof typeof eventData;
export type EventData = { [K in EventType]: z.infer<(typeof eventData)[K]> };

export type { BlobRef, LongText };
export type AttachmentRef = z.infer<typeof attachmentRef>;
export type ModelUsage = z.infer<typeof modelUsage>;
export type TurnFailure = z.infer<typeof turnFailure>;
export type Given = z.infer<typeof given>;
export type Snapshot = z.infer<typeof snapshot>;
export type LandedPath = z.infer<typeof landedPath>;
