import { z } from "zod";
import { checkRequest, commandText, localURL, viewport } from "../check.ts";
import {
  attachmentRequest,
  budget,
  effort,
  metadataWithin,
  modelRef,
  ownLimits,
  priority,
  productPillar,
  repositoryRequest,
  text,
  withinBytes,
} from "../field.ts";
import { defaultLimits, type Limits } from "../limit.ts";

/** Bodies of the Task routes. Source: shared/spec/interface.md 2.1–2.5, completion.md "Tasks". */

/** An answer must fit into one event. */
const maxAnswer = 16 * 1024;

const title = (limits: Limits) => z.string().min(1).max(limits.titleChars);

const source = (limits: Limits) => z.string().min(1).max(limits.sourceChars);

export const createRequests = (limits: Limits = defaultLimits) => {
  const attachments = z.array(attachmentRequest).max(limits.attachments);
  const surface = z.string().min(1).max(limits.sourceChars).optional();
  const reason = z.string().check(withinBytes(limits.reasonBytes)).optional();
  const checks = z.array(z.union([commandText, checkRequest])).max(limits.checks);
  return {
    taskCreate: z
      .strictObject({
        request: text(limits.requestBytes).describe("Goal, constraints, acceptance conditions"),
        productPillar,
        title: title(limits).optional(),
        repository: repositoryRequest.optional().describe("Instead of a directory"),
        promptProfile: z.string().min(1).max(64).optional().describe("Exact squad package id"),
        priority: priority.optional(),
        attachments: attachments.optional(),
        checks: checks
          .optional()
          .describe(
            "Absent: the project's own commands, of which those that pass on the base must still pass; []: none",
          ),
        metadata: metadataWithin(limits.metadataBytes).optional(),
        model: modelRef.optional(),
        effort: effort.optional().describe("Reasoning effort; overrides the agent's and the operator's"),
        source: source(limits).optional(),
        budget: budget.optional(),
        isolation: z.enum(["worktree", "directory"]).optional(),
        landing: z
          .enum(["commit", "branch", "pull-request"])
          .optional()
          .describe(
            "pull-request: only if a forge is known for the repository, or for the remote of the directory's clone",
          ),
        approve: z
          .array(z.enum(["plan", "landing"]))
          .max(2)
          .optional()
          .describe("What requires a person's approval, however long that takes"),
        outputSchema: z
          .record(z.string(), z.json())
          .optional()
          .describe("JSON Schema for the Task's `output`, at most 64 KiB (2020-12, or draft-07 if `$schema` says so)"),
        limits: ownLimits.optional().describe("Overrides the service's"),
        contrast: z.boolean().optional().describe("false: the changed tests do not also run on the base"),
        callbackURL: z
          .string()
          .min(1)
          .max(2000)
          .optional()
          .describe("Receives signed messages when the Task ends or asks"),
      })
      .meta({ id: "TaskCreate" }),
    taskMessage: z
      .strictObject({
        source: source(limits),
        text: text(limits.requestBytes),
        attachments: attachments.optional(),
        onBusy: z.enum(["auto", "queue", "interrupt", "reject"]).optional(),
      })
      .meta({ id: "TaskMessage" }),
    taskRetry: z.strictObject({ source: source(limits).optional() }).meta({ id: "TaskRetry" }),
    taskRevert: z
      .strictObject({
        source: source(limits).optional(),
        checks: checks
          .optional()
          .describe(
            "Absent: the Task's checks that passed before its work; if there are none, the project's own. []: none",
          ),
      })
      .meta({ id: "TaskRevert" }),
    taskCancel: z
      .strictObject({ surface, reason, mode: z.enum(["stop", "wrap_up"]).optional() })
      .meta({ id: "TaskCancel" }),
    sessionInterrupt: z.strictObject({ surface, reason }).meta({ id: "SessionInterrupt" }),
    taskAnswer: z
      .strictObject({
        decision: z.enum(["allow", "deny"]).optional().describe("For an ask of the kind permission or approval"),
        answer: text(maxAnswer)
          .optional()
          .describe(
            "For an ask of the kind question: one of its options, or any other text. With a denied approval: what to change",
          ),
        source: source(limits).optional(),
      })
      .refine(({ decision, answer }) => (decision === undefined) !== (answer === undefined) || decision === "deny", {
        error: ({ input }) =>
          `Expected one of decision and answer, got ${(input as { decision?: string }).decision === undefined ? "neither" : "both"}`,
      })
      .meta({ id: "TaskAnswer" }),
    taskCapture: z
      .strictObject({
        url: localURL.optional().describe("A page of the Task's server; default: the one its check names"),
        viewport: viewport.optional().describe("Default: 1280×720"),
      })
      .meta({ id: "TaskCapture" }),
    taskDelete: z.strictObject({ surface, reason }).meta({ id: "TaskDelete" }),
    taskDeleteQuery: z.object({ surface, reason }),
    taskPatch: z
      .strictObject({
        title: title(limits).optional(),
        priority: priority.optional(),
        archived: z.boolean().optional(),
        budget: budget
          .nullable()
          .optional()
          .describe("Replaces the whole budget; null: only the service's limits apply"),
      })
      .refine((patch) => Object.keys(patch).length > 0, {
        error: "Expected at least one of title, priority, archived, budget; got none",
      })
      .meta({ id: "TaskPatch" }),
  };
};

export type Requests = ReturnType<typeof createRequests>;

export type TaskCreate = z.infer<Requests["taskCreate"]>;

export type TaskMessage = z.infer<Requests["taskMessage"]>;

export type TaskRetry = z.infer<Requests["taskRetry"]>;

export type TaskRevert = z.infer<Requests["taskRevert"]>;

export type TaskAnswer = z.infer<Requests["taskAnswer"]>;

export type TaskCancel = z.infer<Requests["taskCancel"]>;

export type SessionInterrupt = z.infer<Requests["sessionInterrupt"]>;

export type TaskCapture = z.infer<Requests["taskCapture"]>;

export type TaskPatch = z.infer<Requests["taskPatch"]>;
