import type { EventData } from "../../protocol/event/event.ts";
import type { TurnFailure } from "../../protocol/event/conversation.ts";
import type { AttachmentRef } from "../../protocol/text.ts";
import type { MissionBudget, PlannedPhase } from "../../protocol/mission/status.ts";
import type { ErrorInfo, LifecycleStatus } from "../../protocol/task/status.ts";
import type { ModelRef, SquadRef } from "../agent.ts";
import type { StreamState } from "./stream.ts";

/**
 * What is known of a Mission. `mission/evolve.ts` makes it of events; what its agent does next stands in `mission/next.ts`. Its Tasks
 * are streams of their own: here is what the Mission dispatched and what it heard of them.
 */

export type Dispatched = Omit<EventData["task.dispatched"], "sessionID"> & {
  /** The attempts that ended, oldest first. */
  ends: EventData["task.ended"][];
  /** It ended, and was written to since. */
  reopened: boolean;
  /** Of a production: what the catalog said afterwards. */
  reconciled: SquadRef | { refused: string } | null;
};

export type MissionState = StreamState & {
  missionID: string;
  /** The stream's id too. */
  sessionID: string;
  title: string;
  titleBy: "caller" | "service";
  directory: string;
  project: string;
  productPillar: "code" | "work";
  /** The explicit set; empty: any squad. */
  squads: string[];
  allowSquadProduction: boolean | null;
  /** Over the whole tree. `budget` of the shared fold stays null: it is one agent's. */
  cap: MissionBudget | null;
  /** How long its own model took to answer, in all: its tools take no time that counts. */
  answeredMs: number;
  archived: boolean;
  createdAt: string;
  /** Of the head in the store: `active` while its agent has something to do. */
  lifecycle: LifecycleStatus;
  aborted: (EventData["mission.aborted"] & { at: string }) | null;
  /** The model that a caller named: its agent's, and its Tasks' where their squad brings none. */
  named: ModelRef | null;
  /** What came with its wakes: the newest of each name, the newest last; so many are kept. */
  attachments: AttachmentRef[];
  plan: PlannedPhase[];
  tasks: Dispatched[];
  finished: EventData["mission.finished"] | null;
  reminded: boolean;
  paused: EventData["mission.paused"] | null;
  /** Why its agent could not go on. */
  failure: { failure: TurnFailure; at: string } | null;
};

/** Attempts of a Task that ended as far as the Mission has heard. */
export const endedOf = (task: Dispatched): number => task.ends.at(-1)?.attempt ?? 0;

/** The Task's newest attempt has not ended as far as the Mission knows. */
export const isRunning = (task: Dispatched): boolean => task.ends.length === 0 || task.reopened;

export const outcomeOf = (task: Dispatched): EventData["task.ended"]["outcome"] | undefined =>
  task.ends.at(-1)?.outcome;

/** Why its agent does not go on: it was told to stop, or could not. */
export const errorOf = ({ aborted, failure }: MissionState): { error: string; errorInfo: ErrorInfo } | undefined => {
  if (aborted !== null) {
    const { surface, reason, at } = aborted;
    const remedy = "Wake the Mission to go on.";
    return {
      error: `Aborted by ${surface}${reason === "" ? "" : `: ${reason}`}`,
      errorInfo: { code: "aborted", retryable: false, remedy, at },
    };
  }
  if (failure === null) return undefined;
  const { code, message, retryable, remedy } = failure.failure;
  return { error: message, errorInfo: { code, retryable, remedy, at: failure.at } };
};
