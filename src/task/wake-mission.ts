import type { DomainEvent, StreamID } from "../domain/event.ts";
import type { TaskState } from "../domain/state/task.ts";
import { dueNow } from "../engine/due.ts";
import type { Due } from "../store/store.ts";

/** A Task that ends makes its Mission due in the same commit, so that a crash cannot separate the two. */
export const missionWake = (
  { mission }: TaskState,
  events: readonly DomainEvent[],
  now: Date,
): { stream: StreamID; due: Due }[] =>
  mission !== null && events.some(({ type }) => type === "task.settled")
    ? [{ stream: mission.sessionID, due: dueNow(now, "normal") }]
    : [];
