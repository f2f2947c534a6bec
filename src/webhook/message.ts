import { publishedCommit } from "../domain/task/landing.ts";
import { pendingOf } from "../domain/session/ask.ts";
import { isMission, type Recorded } from "../domain/event.ts";
import type { MissionState } from "../domain/state/mission.ts";
import type { TaskState } from "../domain/state/task.ts";
import type { LongText } from "../protocol/text.ts";
import type { MessageType, MissionMessageData, TaskMessageData, WebhookMessage } from "../protocol/webhook.ts";

/** Which events become which messages. Pure: it takes an event and the fold as of that event. */

/** Events that may be notified; `run.started` only where it begins an attempt. */
export const notifiedTypes = [
  "run.started",
  "ask.opened",
  "ask.passed",
  "ask.reminded",
  "task.settled",
  "mission.finished",
  "mission.paused",
  "mission.stalled",
  "mission.waiting",
  "mission.aborted",
] as const satisfies readonly Recorded["type"][];

export type NotifiedEvent = Recorded & { type: (typeof notifiedTypes)[number] };

const told: ReadonlySet<string> = new Set(notifiedTypes);
export const isNotified = (event: Recorded): event is NotifiedEvent => told.has(event.type);

/**
 * The message type of an event; undefined: none. Whether `run.started` begins an attempt is only known with the fold.
 */
export const typeOf = (event: NotifiedEvent): MessageType | undefined => {
  const mission = isMission(event.stream);
  switch (event.type) {
    case "run.started":
      return mission ? undefined : "task.started";
    case "ask.opened":
      // The Task's Mission is asked first; `ask.passed` follows if it does not answer.
      if (event.data.passesAt !== undefined) return undefined;
      return mission ? "mission.asked" : "task.asked";
    case "ask.passed":
      return "task.asked";
    case "ask.reminded":
      return mission ? "mission.reminded" : "task.reminded";
    case "task.settled":
      return `task.${event.data.lifecycleStatus}`;
    case "mission.finished":
    case "mission.paused":
    case "mission.stalled":
    case "mission.waiting":
    case "mission.aborted":
      return event.type;
  }
};

/**
 * One id per event, the same for every webhook and attempt. It must not contain a full stop, which separates the signed
 * parts.
 */
export const messageID = ({ stream, version }: Recorded): string => `evt_${stream.replace(/^[a-z]+_/, "")}_${version}`;

/** True for the first run of an attempt; runs after a wait or a restart continue it. */
const beginsAttempt = (event: NotifiedEvent, state: TaskState): boolean =>
  event.type !== "run.started" || state.attemptStartedAt === event.at;

export const taskMessage = (event: NotifiedEvent, state: TaskState): WebhookMessage | undefined => {
  const type = typeOf(event);
  if (type === undefined || !isOfTask(type) || !beginsAttempt(event, state)) return undefined;
  const path = `/task/${state.taskID}`;
  const data: TaskMessageData = {
    taskID: state.taskID,
    ...(state.mission === null ? {} : { missionID: state.mission.missionID }),
    directory: state.directory,
    title: state.title,
    source: state.source,
    status: state.lifecycle === "active" ? "running" : "inactive",
    lifecycleStatus: state.lifecycle,
    attempt: state.attempt,
    ...(event.type === "task.settled" ? { summary: beginningOf(event.data.summary) } : {}),
    ...(state.error === null ? {} : { error: state.error }),
    ...(state.errorInfo === null ? {} : { errorInfo: state.errorInfo }),
    ...askOf(event, state),
    landedCommit: state.landed && publishedCommit(state.landed),
    branch: state.workspace?.branch ?? null,
    costUSD: state.usage.costUSD,
    metadata: state.metadata,
    eventID: event.position,
    links: { status: `${path}/status`, board: `${path}/board`, archive: `${path}/project-archive` },
  };
  return { type, timestamp: event.at, data };
};

export const missionMessage = (event: NotifiedEvent, state: MissionState): WebhookMessage | undefined => {
  const type = typeOf(event);
  if (type === undefined || isOfTask(type)) return undefined;
  const path = `/mission/${state.missionID}`;
  const data: MissionMessageData = {
    missionID: state.missionID,
    sessionID: state.sessionID,
    directory: state.directory,
    title: state.title,
    ...wordsOf(event),
    ...askOf(event, state),
    costUSD: state.usage.costUSD,
    metadata: state.metadata,
    eventID: event.position,
    links: { status: `${path}/status`, messages: `${path}/messages` },
  };
  return { type, timestamp: event.at, data };
};

type TaskType = Extract<MessageType, `task.${string}`>;

const isOfTask = (type: MessageType): type is TaskType => type.startsWith("task.");

const wordsOf = (
  event: NotifiedEvent,
): Pick<MissionMessageData, "outcome" | "summary" | "wakeAt" | "reason" | "verified"> => {
  switch (event.type) {
    case "mission.finished":
      return {
        outcome: event.data.outcome,
        summary: beginningOf(event.data.summary),
        wakeAt: event.data.wakeAt,
        ...(event.data.verified === undefined ? {} : { verified: event.data.verified }),
      };
    case "mission.paused":
      return { reason: `${event.data.name} is reached: ${event.data.used} of ${event.data.cap}` };
    case "mission.waiting":
      return { reason: event.data.reason, wakeAt: event.data.until };
    case "mission.stalled":
    case "mission.aborted":
      return { reason: event.data.reason };
    case "run.started":
    case "ask.opened":
    case "ask.passed":
    case "ask.reminded":
    case "task.settled":
      return {};
  }
};

const askOf = (event: NotifiedEvent, state: TaskState | MissionState): Pick<TaskMessageData, "ask"> => {
  const askID =
    event.type === "ask.opened" || event.type === "ask.passed"
      ? event.data.askID
      : event.type === "ask.reminded"
        ? event.data.askIDs[0]
        : undefined;
  const ask = pendingOf(state).find(({ id }) => id === askID);
  return ask === undefined ? {} : { ask };
};

/** Longest summary in a message, in characters; the board has the full text. */
const longest = 1000;

const beginningOf = (text: LongText): string => {
  const characters = Array.from(typeof text === "string" ? text : text.head);
  return characters.length <= longest ? characters.join("") : `${characters.slice(0, longest - 1).join("")}…`;
};
