import { isMission, type Recorded, type StreamID } from "../../domain/event.ts";
import { evolve, taskRevision } from "../../domain/task/evolve.ts";
import { evolveMission, missionRevision } from "../../domain/mission/evolve.ts";
import type { MissionState } from "../../domain/state/mission.ts";
import type { TaskState } from "../../domain/state/task.ts";

/** The fold of a stream, a Task's or a Mission's, chosen by the stream's id. */
export type Fold = TaskState | MissionState;

export const isMissionFold = (fold: Fold): fold is MissionState => "plan" in fold;
export const isTaskFold = (fold: Fold): fold is TaskState => !isMissionFold(fold);

export const streamOf = (fold: Fold): StreamID => (isMissionFold(fold) ? fold.sessionID : fold.taskID);

export const evolveFold = (before: Fold | undefined, event: Recorded): Fold =>
  isMission(event.stream)
    ? evolveMission(before as MissionState | undefined, event)
    : evolve(before as TaskState | undefined, event);

export const revisionOf = (stream: StreamID): number => (isMission(stream) ? missionRevision : taskRevision);
