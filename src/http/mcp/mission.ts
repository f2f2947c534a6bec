import { z } from "zod";
import { ServiceError } from "../../error.ts";
import { missionLanding, missionMerge } from "../../protocol/field.ts";
import { missionID } from "../../protocol/mission/status.ts";
import { checkAttachments } from "../request/attachment.ts";
import { mcpMissionStatus, mcpMissionStatusOf } from "./status.ts";
import {
  directory,
  idempotencyKey,
  next,
  onceOf,
  placeOf,
  shownRepository,
  type Tool,
  tool,
  type ToolDeps,
  waitUntilIdle,
  waitSeconds,
  describeFields,
} from "./tool.ts";

/** The MCP tools for Missions: start or steer one, see its status. */

export const createMissionTools = ({
  missions,
  repositoryAt,
  routes,
  limits,
  runOnce,
  user,
  realPath,
}: ToolDeps): Tool[] => {
  const wake = describeFields(routes["mission.wake"].body, {
    missionID: "Id of a Mission, existing or new. Absent: a new Mission",
    squads: "Only these; [] = any",
    approve: "What a person approves before it happens",
    priority: "Default normal",
    budget: "Caps over it and its Tasks; null = none",
    text: "The whole goal of a new Mission, with constraints and how to tell it is reached; or further instructions",
  }).extend({ directory, idempotencyKey });

  return [
    tool({
      name: "mission_wake",
      title: "Start or steer a Mission",
      description:
        "Begins a Mission, a goal that takes several Tasks, or gives one more direction. An agent of its own plans it in phases, dispatches each as a Task to a squad, reads what became of it, and goes on until the goal is reached.\n" +
        "For one piece of work use task_create, which is quicker. With the missionID of an existing Mission the text reaches its agent, also as an answer, and wakes one that was stopped.\n" +
        "Follow it with mission_status.",
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
      input: wake,
      // Models are not shown everything that the call takes: task_create already shows the forms of a check, `models`
      // covers `model`, and MCP callers wait with mission_status instead of a callback.
      shown: wake.omit({ callbackURL: true, limits: true, model: true }).extend({
        metadata: z.record(z.string(), z.unknown()).optional(),
        repository: shownRepository,
        landing: missionLanding.optional().describe("branch: all phases on one, merged once"),
        merge: missionMerge.optional().describe("Of that branch"),
        checks: z
          .array(z.unknown())
          .optional()
          .describe("Of the whole, as in task_create. Default: it is judged; []: nothing"),
        models: z
          .record(z.string(), z.string())
          .optional()
          .describe("Of `agent`, `tasks`, `review`: provider/model each"),
      }),
      output: z.object({
        missionID: z.string(),
        created: z.boolean().describe("false: it already existed and has received the text"),
        repeated: z.boolean(),
        next,
      }),
      async run({ directory: given, idempotencyKey: key, ...body }, caller) {
        const named = body.repository;
        const place = named === undefined ? placeOf(given, caller) : repositoryAt(named.url, named.ref);
        await checkAttachments(body.attachments, limits, "arguments.attachments");
        const once = await onceOf({ user, realPath }, "mission_wake", key, place, body);
        const { body: woken, replayed } = await runOnce(once, () => missions.wake(place, body, once, "agent"));
        return {
          missionID: woken.missionID,
          created: woken.created,
          repeated: replayed,
          next: "It works on its own, perhaps for hours. Look now and then with mission_status.",
        };
      },
    }),

    tool({
      name: "mission_status",
      title: "Get a Mission's status",
      description:
        "A Mission's status: its plan with the state and the Task of each phase, what it waits for, what its agent says of the whole, why it could not go on; and in `next` what to do now.\n" +
        "With waitSeconds it answers as soon as the Mission rests or needs an answer. For one of its Tasks use task_status with the taskID of the phase.",
      annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
      input: z.strictObject({ missionID, directory, waitSeconds }),
      output: mcpMissionStatus,
      async run({ missionID: id, directory: given, waitSeconds: seconds }, caller) {
        const place = placeOf(given, caller);
        const known = await missions.find(place, id).then(
          () => place,
          // The connection's directory is only a default. A Mission of another project, such as a repository, is looked
          // up by its id alone, which works when only one Mission has it.
          (error: unknown) => {
            if (given === undefined && error instanceof ServiceError && error.code === "directory_mismatch")
              return undefined;
            throw error;
          },
        );
        const status = await waitUntilIdle(
          () => missions.status(known, id),
          (mission) => mcpMissionStatusOf(mission).state !== "working",
          seconds,
          caller.signal,
        );
        return mcpMissionStatusOf(status);
      },
    }),
  ];
};
