import type { EventData, EventType } from "../protocol/event/event.ts";
import type { missionEvents } from "../protocol/event/mission.ts";

/** Facts. `DomainEvent` is what a decision produces; `Recorded` is what the log gave it a place for. */

/** One Task's or one Mission's events. The id is the Task's, or that of the Mission's session. */
export type StreamID = string;

/** Place in the whole log; the id of the event stream. */
export type Position = number;

export type DomainEvent = { [K in EventType]: { type: K; data: EventData[K] } }[EventType];

export type Recorded = DomainEvent & {
  position: Position;
  stream: StreamID;
  /** 1 for the first event of the stream, without gaps. */
  version: number;
  /** When it was committed; ISO-8601 with milliseconds. */
  at: string;
};

/** The id of a Task's first message, its request. */
export const requestMessageID = (taskID: string): string => taskID.replace(/^task_/, "msg_");

export const sessionOf = (event: DomainEvent): string | undefined => {
  if (event.type !== "artifact.recorded") return "sessionID" in event.data ? event.data.sessionID : undefined;
  return event.data.by.kind === "call" ? event.data.by.sessionID : undefined;
};

type MissionEventType = keyof typeof missionEvents;

/** By name: the page in the browser has these words too, and not the schemas. */
const ofMission: Readonly<Record<MissionEventType, true>> = {
  "mission.created": true,
  "mission.woken": true,
  "mission.updated": true,
  "mission.aborted": true,
  "mission.finished": true,
  "mission.reminded": true,
  "mission.paused": true,
  "plan.written": true,
  "task.dispatched": true,
  "task.reopened": true,
  "task.ended": true,
  "squad.reconciled": true,
  "squad.refused": true,
};

/** A fact that only a Mission's log has. */
export const isOfMission = <E extends DomainEvent>(event: E): event is E & { type: MissionEventType } =>
  Object.hasOwn(ofMission, event.type);

/** Whether a stream is a Mission's: its id is its session's. */
export const isMission = (stream: StreamID): boolean => stream.startsWith("ses_");
