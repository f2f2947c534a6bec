import type { DomainEvent, StreamID } from "../domain/event.ts";
import type { TaskState } from "../domain/state/task.ts";
import { dueNow } from "../engine/due.ts";
import type { Due } from "../store/store.ts";

/**
 * Makes the Mission due in the same commit in which its Task ends or asks it something, so that a crash cannot separate
 * the two.
 */
export const missionWake = (
  { mission, priority }: TaskState,
  events: readonly DomainEvent[],
  now: Date,
): { stream: StreamID; due: Due }[] =>
  mission !== null && events.some(concernsMission) ? [{ stream: mission.sessionID, due: dueNow(now, priority) }] : [];

export const concernsMission = (event: DomainEvent): boolean =>
  event.type === "task.settled" || (event.type === "ask.opened" && event.data.passesAt !== undefined);
