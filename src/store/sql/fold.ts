import { isMission, type Recorded, type StreamID } from "../../domain/event.ts";
import { isKnown } from "../../protocol/event/event.ts";
import { evolve, taskRevision } from "../../domain/task/evolve.ts";
import { evolveMission, missionRevision } from "../../domain/mission/evolve.ts";
import type { MissionState } from "../../domain/state/mission.ts";
import type { TaskState } from "../../domain/state/task.ts";

/** The fold of a stream, a Task's or a Mission's, chosen by the stream's id. */
export type Fold = TaskState | MissionState;

export const isMissionFold = (fold: Fold): fold is MissionState => "plan" in fold;
export const isTaskFold = (fold: Fold): fold is TaskState => !isMissionFold(fold);

export const streamOf = (fold: Fold): StreamID => (isMissionFold(fold) ? fold.sessionID : fold.taskID);

/**
 * Folds an event into its stream. An event that this version does not know comes from a node of a newer version; only
 * its place and time count. The newer version folds the stream from the beginning, since a new event raises the fold's
 * revision.
 */
export const evolveFold = (before: Fold | undefined, event: Recorded): Fold => {
  if (before !== undefined && !isKnown(event.type))
    return { ...before, version: event.version, position: event.position, updatedAt: event.at };
  return isMission(event.stream)
    ? evolveMission(before as MissionState | undefined, event)
    : evolve(before as TaskState | undefined, event);
};

export const revisionOf = (stream: StreamID): number => (isMission(stream) ? missionRevision : taskRevision);
