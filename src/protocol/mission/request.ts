import { z } from "zod";
import { checkRequest, commandText } from "../check.ts";
import {
  approvable,
  attachmentRequest,
  missionLanding,
  missionMerge,
  metadataWithin,
  modelRef,
  ownLimits,
  priority,
  productPillar,
  repositoryRequest,
  text,
  wordsWithin,
} from "../field.ts";
import { defaultLimits, type Limits } from "../limit.ts";
import { mostPhases, phaseFields } from "./phase.ts";
import { missionBudget, missionID, models, squadIDs } from "./status.ts";

/** Bodies of the Mission routes. */

export const createMissionRequests = (limits: Limits = defaultLimits) => {
  const surface = z.string().min(1).max(limits.sourceChars).optional();
  const reason = wordsWithin(limits.reasonBytes).optional();
  const title = z.string().min(1).max(limits.titleChars);
  return {
    missionWake: z
      .strictObject({
        missionID: missionID.optional().describe("Absent: a new Mission, with a generated id"),
        repository: repositoryRequest
          .optional()
          .describe("Instead of a directory. Its Tasks land on a branch of the Mission's own"),
        title: title.optional().describe("Title of a new Mission; default: the text's first line"),
        text: text(limits.requestBytes).optional().describe("Instructions; required for a new Mission"),
        attachments: z.array(attachmentRequest).max(limits.attachments).optional(),
        model: modelRef.optional(),
        models: models.optional().describe("By role; an absent role is unchanged"),
        productPillar: productPillar.optional().describe("Default code"),
        squads: squadIDs.optional().describe("The only squads that may be used; []: any; absent: unchanged"),
        allowSquadProduction: z.boolean().optional(),
        checks: z
          .array(z.union([commandText, checkRequest]))
          .max(limits.checks)
          .optional()
          .describe(
            "What the project's head must pass before the Mission can be done; []: nothing, and nobody judges the whole; absent: unchanged, for a new Mission that a session that did not plan judges the whole",
          ),
        approve: z
          .array(approvable)
          .max(3)
          .optional()
          .describe("What requires a person's approval: its plan, each new squad, each landing; absent: unchanged"),
        landing: missionLanding
          .optional()
          .describe(
            "For a new Mission in a directory: each phase lands on the project's branch (default), or all phases on sortie/<missionID>, merged once",
          ),
        merge: missionMerge
          .optional()
          .describe(
            "When that branch is merged: when you ask for it (default), or as soon as the Mission is done; absent: unchanged",
          ),
        priority: priority.optional().describe("Default: normal; absent for an existing Mission: unchanged"),
        metadata: metadataWithin(limits.metadataBytes).optional().describe("Replaces all of it; absent: unchanged"),
        callbackURL: z
          .string()
          .min(1)
          .max(2000)
          .nullable()
          .optional()
          .describe("Receives signed messages when it asks, stops or ends; null: removed; absent: unchanged"),
        limits: ownLimits.optional().describe("Overrides the service's, also for its Tasks; absent: unchanged"),
        budget: missionBudget
          .nullable()
          .optional()
          .describe("Limits the Mission and all its Tasks together; null removes the limit"),
      })
      .meta({ id: "MissionWake" }),
    missionPlan: z
      .strictObject({
        phases: z
          .array(z.strictObject(phaseFields))
          .min(1)
          .max(mostPhases)
          .describe("The whole plan, in its order. What it does not name is dropped"),
        revision: z.number().int().min(0).describe("The `planRevision` of the plan that was changed"),
        approve: z
          .boolean()
          .optional()
          .describe("Approves the plan as it is given; only for a Mission that requires approval of its plan"),
        source: z.string().min(1).max(limits.sourceChars).optional(),
      })
      .meta({ id: "MissionPlan" }),
    missionTitle: z.strictObject({ title }).meta({ id: "MissionTitle" }),
    missionArchive: z.strictObject({ archived: z.boolean() }).meta({ id: "MissionArchive" }),
    missionAbort: z
      .strictObject({ surface, reason, cascade: z.boolean().optional().describe("Cancel its Tasks too") })
      .meta({ id: "MissionAbort" }),
    missionDelete: z.strictObject({ surface, reason }).meta({ id: "MissionDelete" }),
    missionDeleteQuery: z.object({ surface, reason }),
  };
};

export type MissionRequests = ReturnType<typeof createMissionRequests>;

export type MissionWake = z.infer<MissionRequests["missionWake"]>;

export type MissionPlan = z.infer<MissionRequests["missionPlan"]>;

export type MissionAbort = z.infer<MissionRequests["missionAbort"]>;
