import type { EventData, EventType } from "../protocol/event/event.ts";
import type { missionEvents } from "../protocol/event/mission.ts";

/** Events. A decision produces `DomainEvent`s; the log makes them `Recorded` by giving them a position. */

/** Id of the events of one Task or Mission: the Task's id, or that of the Mission's session. */
export type StreamID = string;

/** An event's place in the whole log, and its id in the event stream. */
export type Position = number;

export type DomainEvent = { [K in EventType]: { type: K; data: EventData[K] } }[EventType];

export type Recorded = DomainEvent & {
  position: Position;
  stream: StreamID;
  /** Its number within the stream: 1 for the first event, without gaps. */
  version: number;
  /** When it was committed; ISO 8601 with milliseconds. */
  at: string;
};

/** The id of the message that is a Task's request. */
export const requestMessageID = (taskID: string): string => taskID.replace(/^task_/, "msg_");

/** The id and the sources of messages that tell a Mission what a person answered or wrote to one of its Tasks. */
export const answerMessageID = (askID: string): string => askID.replace(/^ask_/, "msg_");
export const answerSource = "answer";
export const messagedSource = "message";

export const sessionOf = (event: DomainEvent): string | undefined => {
  if (event.type !== "artifact.recorded") return "sessionID" in event.data ? event.data.sessionID : undefined;
  return event.data.by.kind === "call" ? event.data.by.sessionID : undefined;
};

type MissionEventType = keyof typeof missionEvents;

/** Listed by name, because the web page uses this module without the schemas. */
const ofMission: Readonly<Record<MissionEventType, true>> = {
  "mission.created": true,
  "mission.woken": true,
  "mission.updated": true,
  "mission.aborted": true,
  "mission.finished": true,
  "mission.proposed": true,
  "mission.verified": true,
  "mission.judging": true,
  "mission.branched": true,
  "mission.unmerged": true,
  "mission.reminded": true,
  "mission.paused": true,
  "mission.stalled": true,
  "mission.waiting": true,
  "phase.written": true,
  "phase.dropped": true,
  "plan.ordered": true,
  "plan.written": true,
  "task.dispatched": true,
  "task.asked": true,
  "task.answered": true,
  "task.messaged": true,
  "task.watched": true,
  "task.overdue": true,
  "task.reopened": true,
  "task.reserved": true,
  "task.ended": true,
  "squad.reconciled": true,
  "squad.refused": true,
};

/** Whether an event occurs only in the log of a Mission. */
export const isOfMission = <E extends DomainEvent>(event: E): event is E & { type: MissionEventType } =>
  Object.hasOwn(ofMission, event.type);

/** Whether a stream is a Mission's: its id is a session id. */
export const isMission = (stream: StreamID): boolean => stream.startsWith("ses_");
