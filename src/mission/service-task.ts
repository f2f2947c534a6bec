import type { Dispatched, MissionState } from "../domain/state/mission.ts";
import type { EventData } from "../protocol/event/event.ts";
import type { Fence } from "../store/store.ts";
import type { MissionDispatch } from "../task/tasks.ts";

/**
 * A Task that the service itself creates for a Mission: it belongs to no phase, and is created in one commit with the
 * Mission's record of it.
 */

type Own = Pick<EventData["task.dispatched"], "callID" | "phase" | "brief" | "reserved"> &
  Partial<Pick<EventData["task.dispatched"], "merge" | "judges">>;

/**
 * The fields that every such Task has. It is created only while the Mission's log is at the version of `state`.
 * `fence`: see `MissionDispatch`.
 */
export const serviceTask = (
  { missionID, sessionID, version, models, named }: MissionState,
  own: Own,
  fence: Fence | undefined,
): Pick<MissionDispatch, "mission" | "production" | "expected" | "model" | "reviewModel" | "handover" | "also"> => ({
  mission: { missionID, sessionID, callID: own.callID, phase: own.phase },
  production: undefined,
  expected: undefined,
  model: models.tasks ?? named ?? undefined,
  reviewModel: models.review ?? undefined,
  handover: undefined,
  also: ({ taskID, title, squad }) => ({
    append: {
      stream: sessionID,
      expected: version,
      events: [{ type: "task.dispatched", data: { sessionID, taskID, title, squad, production: null, ...own } }],
    },
    fence,
  }),
});

/** What the Task does, in words for the Mission's agent. */
export const serviceDutyOf = ({ merge }: Pick<Dispatched, "merge">): string =>
  merge === undefined ? "judges the whole" : `merges ${merge.branch} into ${merge.into}`;
