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
import { missionBudget, missionID, models, squadIDs } from "./status.ts";

/** Bodies of the Mission routes. */

export const createMissionRequests = (limits: Limits = defaultLimits) => {
  const surface = z.string().min(1).max(limits.sourceChars).optional();
  const reason = wordsWithin(limits.reasonBytes).optional();
  const title = z.string().min(1).max(limits.titleChars);
  return {
    missionWake: z
      .strictObject({
        missionID: missionID.optional().describe("Absent: a new Mission, with an id of the service's"),
        repository: repositoryRequest
          .optional()
          .describe("Instead of a directory. Its Tasks land on a branch of the Mission's own"),
        title: title.optional().describe("Of a new Mission; default: the text's first line"),
        text: text(limits.requestBytes).optional().describe("Direction; required for a new Mission"),
        attachments: z.array(attachmentRequest).max(limits.attachments).optional(),
        model: modelRef.optional(),
        models: models.optional().describe("By role; a role that is absent stays as it was"),
        productPillar: productPillar.optional().describe("Default code"),
        squads: squadIDs.optional().describe("Only these may be dispatched to; [] = any; absent: as before"),
        allowSquadProduction: z.boolean().optional(),
        checks: z
          .array(z.union([commandText, checkRequest]))
          .max(limits.checks)
          .optional()
          .describe(
            "What the project's head must pass before the Mission can be done; [] = nothing; absent: as before",
          ),
        approve: z
          .array(approvable)
          .max(3)
          .optional()
          .describe(
            "What waits for a person's approval: its plan, each squad that is made, each landing; absent: as before",
          ),
        landing: missionLanding
          .optional()
          .describe(
            "Of a new Mission in a directory: each phase on the project's branch (default), or all on sortie/<missionID>, merged once",
          ),
        merge: missionMerge
          .optional()
          .describe(
            "Of that branch: when you ask for it (default), or as soon as the Mission is done; absent: as before",
          ),
        priority: priority.optional().describe("Default normal; on resume, absent: as before"),
        metadata: metadataWithin(limits.metadataBytes).optional().describe("Replaces the whole; absent: as before"),
        callbackURL: z
          .string()
          .min(1)
          .max(2000)
          .nullable()
          .optional()
          .describe("Is told its asks, stops and ends, signed; null = nothing any more; absent: as before"),
        limits: ownLimits.optional().describe("In the place of the service's, for its Tasks too; absent: as before"),
        budget: missionBudget.nullable().optional().describe("Caps the whole tree of Tasks; null takes the cap away"),
      })
      .meta({ id: "MissionWake" }),
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

export type MissionAbort = z.infer<MissionRequests["missionAbort"]>;
